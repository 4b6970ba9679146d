r"""Which rows the normal matrix of an interior point iteration sums: those of large weights d_i.

The rows above a threshold of their class are taken, and every row above a common one. The thresholds
are found by sections of a count over shards, from the states alone: no row is read. While many rows are
taken, half of them are a sample that represents the omitted ones.

Source: Jung, O'Leary and Tits, "Adaptive constraint reduction for training support vector machines"
(2008), section 3.2, rule 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.passes.interior.matrix_rows import MatrixRows

Vector = NDArray[np.float64]

SECTIONS_AT_ONCE = 129
"""Number of thresholds of a class at which rows are counted in one round trip."""

MAX_SECTION_ROUNDS = 4
"""Maximum number of such round trips: each divides a range of logarithms by 128."""

COUNT_TOLERANCE = 0.05
"""Fraction by which more rows than wanted may be taken."""

MAX_CHOSEN_SHARE = 0.8
"""Share of the rows from which a choice costs more than it saves."""

MIN_ROWS_PER_COLUMN_FOR_SAMPLE = 4
"""Number of rows per feature from which half of the rows are a sample of those that are not chosen."""


@dataclass(frozen=True)
class ChoiceRule:
    """The options of the choice: see `crsvm`."""

    balanced: bool
    adaptive: bool
    q_upper: float
    beta: float
    theta: float
    samples: bool


def choose(
    shards: ShardGroup, rule: ChoiceRule, m: int, n: int, growth: float, seed: int
) -> MatrixRows | None:
    """Return the rows of the next matrix; None for all.

    Parameters
    ----------
    shards : ShardGroup
    rule : ChoiceRule
    m, n : int
        Number of rows; of features.
    growth : float
        Factor on the number of rows.
    seed : int
        Number of the iteration.
    """
    found = shards.call("interior_range")
    least, largest = min(one.least for one in found), max(one.largest for one in found)
    unit = max(sum(one.squares for one in found) / m, np.finfo(float).tiny)
    mean = sum(one.complementarity for one in found) / (2.0 * m)
    root_mu = float(np.sqrt(max(mean, 0.0) * unit))  # in units in which points have length 1
    share = root_mu ** (2.0 / rule.beta) * growth if rule.adaptive else 1.0
    most = rule.q_upper if isinstance(rule.q_upper, int) else np.ceil(rule.q_upper * m)
    most = min(m, max(1, most * (1.0 if rule.samples else growth)))
    base = int(min(np.ceil(min(1.0, share) * m), most))
    if base >= MAX_CHOSEN_SHARE * m or not 0.0 < least <= largest < np.inf:
        return None
    is_sampled = rule.samples and base >= MIN_ROWS_PER_COLUMN_FOR_SAMPLE * n
    count = -(-base // 2) if is_sampled else base
    low, total, taken = _thresholds(shards, count, least, largest, 1 + rule.balanced)
    low = np.minimum(low, rule.theta * root_mu / unit)
    stratum = (total - taken) / max(base - count, 1) if is_sampled else np.inf
    return MatrixRows(low, stratum if stratum > 0.0 else np.inf, seed)


def _thresholds(
    shards: ShardGroup, count: int, least: float, largest: float, n_groups: int
) -> tuple[Vector, float, float]:
    """Return thresholds of the groups, at which at least `count` rows are taken in all.

    Also the total weight of all rows, and of those that are taken. Each group has the same number, or
    all its rows.
    """
    low, high = np.full(n_groups, least), np.full(n_groups, np.nextafter(largest, np.inf))
    wanted, total, taken = np.full(n_groups, -1.0), 0.0, np.zeros(n_groups)
    for _ in range(MAX_SECTION_ROUNDS):
        grid = np.geomspace(low, high, SECTIONS_AT_ONCE, axis=1)
        grid[:, 0], grid[:, -1] = low, high
        counts, sums = np.sum(shards.call("interior_counts", grid), axis=0)
        if wanted[0] < 0.0:
            total = float(np.sum(sums[:, 0]))
            wanted = np.minimum(-(-count // n_groups), counts[:, 0])
            wanted = np.minimum(counts[:, 0], wanted + (count - np.sum(wanted)).clip(0.0))
        enough = counts >= wanted[:, None]
        at = np.maximum(np.sum(enough, axis=1) - 1, 0)  # counts fall along the grid
        each = np.arange(n_groups)
        low, high = grid[each, at], grid[each, np.minimum(at + 1, SECTIONS_AT_ONCE - 1)]
        taken = sums[each, at]
        if np.all(counts[each, at] <= (1.0 + COUNT_TOLERANCE) * wanted + 1.0):
            break
    return low, total, float(np.sum(taken))
