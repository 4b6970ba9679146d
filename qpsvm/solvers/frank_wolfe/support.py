"""The state of the Frank-Wolfe steps: a point by its support, and its gradient at all points.

A step moves few weights and, in one pass over all points, their gradient: see `gradient_pass`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import SimplexProduct
from qpsvm.numerics.argextremes import extreme_key_of, first_of
from qpsvm.numerics.jit import compiled, njit, vectorized
from qpsvm.numerics.work_sharing import TILE_POINTS, WorkSharing, work_sharing_for
from qpsvm.solvers.frank_wolfe.step_rules import STEP_KINDS
from qpsvm.solvers.shared.gradient_pass import Move, Points, find_tile_minima, move
from qpsvm.solvers.shared.prefetch import Prefetch, least_uncached


class Support(NamedTuple):
    """The coordinates with positive weight, in the first entries and in any order."""

    at: NDArray[np.int64]  # (m,), the coordinate
    weight: NDArray[np.float64]  # (m,), its weight
    mark: NDArray[np.integer]  # (m,), its group
    slope: NDArray[np.float64]  # (m,), scratch for its gradient
    place: NDArray[np.int32]  # (m,), by coordinate: its entry here, or -1
    size: NDArray[np.int64]  # (1,), number of coordinates


class StepScratch(NamedTuple):
    """Working arrays of the steps; the caller owns them, so that their references are not counted."""

    low: NDArray[np.int64]  # (n_groups,), v: the coordinate of least gradient of each group
    high: NDArray[np.int64]  # (n_groups,), a: that of greatest gradient on its support
    missing: NDArray[np.int64]  # (2 n_groups + 2,), the columns that are missing, or -1
    tile: NDArray[np.float64]  # (TILE,), gradients of a tile


def step_scratch(n_groups: int) -> StepScratch:
    """Return working arrays for domains of `n_groups` simplices."""
    return StepScratch(
        low=np.empty(n_groups, np.int64),
        high=np.empty(n_groups, np.int64),
        missing=np.full(2 * n_groups + 2, -1, np.int64),
        tile=np.empty(TILE_POINTS),
    )


@dataclass
class FrankWolfeState:
    """A point of the domain with its gradient.

    The steps keep x as its support; the dense vector is written on demand.
    """

    points: Points  # what a pass over all points reads
    gradient: NDArray[np.float64]  # (G + D)x
    support: Support  # the coordinates with weight
    keys: NDArray[np.int64]  # (n_groups, n_tiles), key of the least gradient of a tile
    point: NDArray[np.float64]  # x, unless `is_stale`
    counts: NDArray[np.int64]  # steps by STEP_KINDS
    ridge: NDArray[np.float64]  # D
    prefetch: Prefetch  # chooses columns to fill together with missing ones
    made: Move  # the last step
    sharing: WorkSharing  # the threads that share the passes
    scratch: StepScratch
    written: NDArray[np.int64]  # where `point` is not zero
    is_stale: bool = False  # whether `point` is older than the support

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64]) -> FrankWolfeState:
        """Return the state at x."""
        domain, m, sign = problem.domain, problem.m, problem.gram.sign
        assert isinstance(domain, SimplexProduct)
        points = Points(
            side=sign.astype(np.int8),
            group=domain.group.astype(np.int8 if domain.n_groups < 128 else np.int32),
            linear=problem.linear,
            plain=problem.gram.plain,
            flat=problem.level is not None,
        )
        support = Support(
            at=np.empty(m, np.int64),
            weight=np.empty(m),
            mark=np.empty(m, points.group.dtype),
            slope=np.empty(m),
            place=np.full(m, -1, np.int32),
            size=np.zeros(1, np.int64),
        )
        keys = np.empty((domain.n_groups, -(-m // TILE_POINTS)), np.int64)
        counts = np.zeros(len(STEP_KINDS), np.int64)
        ridge, made = problem.gram.ridge, move(2 * domain.n_groups + 2)
        state = cls(
            points=points,
            gradient=np.empty(m),
            support=support,
            keys=keys,
            point=x,
            counts=counts,
            ridge=ridge,
            prefetch=Prefetch(problem),
            made=made,
            sharing=work_sharing_for(m),
            scratch=step_scratch(domain.n_groups),
            written=support.at[:0],
        )
        state.set_product(problem, problem.product(x))
        return state

    def set_product(self, problem: QP, product: NDArray[np.float64]) -> None:
        """Set the support from the dense x, and the gradient from G x."""
        x, support = self.point, self.support
        support.place[support.at[: support.size[0]]] = -1
        positive = self.written = np.flatnonzero(x > 0)
        n = support.size[0] = len(positive)
        support.at[:n], support.weight[:n] = positive, x[positive]
        support.mark[:n], support.place[positive] = self.points.group[positive], np.arange(n)
        self.gradient[:] = product
        self.gradient[positive] += self.ridge[positive] * x[positive]
        find_tile_minima(self.points, self.gradient, self.keys)

    @property
    def x(self) -> NDArray[np.float64]:
        """The point as a dense vector."""
        if self.is_stale:
            n = self.support.size[0]
            self.point[self.written] = 0.0
            self.written = self.support.at[:n].copy()
            self.point[self.written] = self.support.weight[:n]
            self.is_stale = False
        return self.point

    @property
    def product(self) -> NDArray[np.float64]:
        """G x, without the ridge."""
        n = self.support.size[0]
        at = self.support.at[:n]
        if not self.ridge[at].any():
            return self.gradient
        product = self.gradient.copy()
        product[at] -= self.ridge[at] * self.support.weight[:n]
        return product

    def wanted(self, slot: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return the coordinates of least gradient among those whose columns are not cached."""
        f = self.gradient if self.points.flat else self.gradient + self.points.linear
        n_groups, group = len(self.keys), self.points.group
        share = -(-count // n_groups)
        found = [least_uncached(f, 1.0, group, g, -1, slot, share) for g in range(n_groups)]
        return np.concatenate(found)

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return dict(zip(STEP_KINDS, map(int, self.counts), strict=True))


# Its sums may be reordered, so that they vectorize.
@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract", "nnan", "nsz", "reassoc"},
)
def slopes(points: Points, support: Support, q: Any) -> Any:
    """Write the gradient over the support to `support.slope`; return x'f and x'(G + D)x."""
    n = support.size[0]
    index, weight, slope = support.at[:n], support.weight[:n], support.slope[:n]
    stride = np.uintp(0 if points.flat else 1)
    xf = 0.0
    xqx = 0.0
    for a in range(n):
        k = np.uintp(index[a])  # an unsigned index needs no test of its sign
        f = q[k] + points.linear[k * stride]
        slope[a] = f
        xf += weight[a] * f
        xqx += weight[a] * q[k]
    return xf, xqx


@vectorized
def extreme(support: Support, g: int, inverted: int) -> Any:
    """Return the least gradient of a group on the support and its coordinate.

    With `inverted` = -1 the greatest.
    """
    n = support.size[0]
    slope, mark = support.slope[:n], support.mark[:n]
    key = extreme_key_of(slope, mark, g, inverted)
    at = first_of(slope, key, mark, g, -1)
    if at < 0:
        return np.inf if inverted == 0 else -np.inf, -1
    start = at + 1
    while True:  # of equal gradients that of the least coordinate
        tie = first_of(slope[start:], key, mark[start:], g, -1)
        if tie < 0:
            return slope[at], support.at[at]
        at = start + tie if support.at[start + tie] < support.at[at] else at
        start += tie + 1


@compiled
def weight_of(support: Support, i: int) -> float:
    """Return the weight of a coordinate."""
    return support.weight[support.place[i]] if support.place[i] >= 0 else 0.0


@compiled
def move_weights(points: Points, support: Support, keep: float, made: Move, n: int) -> None:
    """Multiply all weights by `keep`, then add the gains of the first n coordinates of a move.

    New coordinates join the support. Those of a weight at most their `least` leave it.
    """
    at, weight, mark, place = support.at, support.weight, support.mark, support.place
    size = support.size[0]
    if keep != 1.0:
        for a in range(size):
            weight[a] *= keep
    for j in range(n):
        i = made.at[j]
        a = place[i]
        if a < 0:
            a = size
            size += 1
            at[a], weight[a], mark[a], place[i] = i, 0.0, points.group[i], a
        weight[a] += made.gain[j]
        made.rise[j] = made.gain[j]
    for j in range(n):
        i = made.at[j]
        a = place[i]
        if a >= 0 and weight[a] <= made.least[j]:
            made.rise[j] -= weight[a]
            size -= 1
            at[a], weight[a], mark[a] = at[size], weight[size], mark[size]
            place[at[a]] = a
            place[i] = -1
    support.size[0] = size
