"""Compiled steps of `smo` that move one coordinate, where no equality constraint couples them.

The coordinate of greatest decrease of the value is moved to its minimum between the bounds. Sources and
problem: `qpsvm.solvers.smo.smo`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.gram.column_store import Columns
from qpsvm.numerics.argextremes import greatest_key
from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.work_sharing import TILE_POINTS
from qpsvm.solvers.base import BUDGET_CODE, STALLED_CODE
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, is_cached, touch

MAX_SINGLE_STEP = 1e150
"""Step of one coordinate above which the value is unbounded below: its square still is a number."""


@vectorized
def _single_gains(
    diagonal: Any, s: Any, up_barrier: Any, low_barrier: Any, tiny: float, gain: Any
) -> None:
    """Write twice the decrease of the value, s^2 / diagonal, of each coordinate of a tile."""
    for k in range(len(s)):
        rise, fall = -s[k] - up_barrier[k], s[k] - low_barrier[k]
        slope = rise if rise > fall else fall
        slope = slope if slope > 0.0 else 0.0
        value = slope * (slope / (diagonal[k] if diagonal[k] > tiny else tiny))
        gain[k] = value if slope > 0.0 else 0.0


@vectorized
def single_steps(
    cols: Columns,
    upper: Any,
    x: Any,
    s: Any,
    up_barrier: Any,
    low_barrier: Any,
    n_steps: int,
    missing: Any,
) -> Any:
    """Make single-coordinate steps in place; return the number of steps and the stop code."""
    diagonal = cols.scale * (cols.diag + cols.shift) + cols.ridge
    tiny = 1e-12 * np.max(np.abs(diagonal))
    m, sign = len(s), cols.sign
    n_tiles = (m + TILE_POINTS - 1) // TILE_POINTS
    gain, keys = np.empty(m), np.empty(n_tiles, np.int64)
    row, change, i, rise = cols.store[0], 0.0, 0, 0.0  # the first pass only searches
    for step in range(n_steps + 1):
        # 1. Update s by the last step, and evaluate the gains.
        for tile in range(n_tiles):
            start = tile * TILE_POINTS
            stop = min(start + TILE_POINTS, m)
            if step > 0:
                for k in range(start, stop):
                    s[k] += change * sign[k] * (row[k] + cols.shift)
                if start <= i < stop:
                    s[i] += rise
            s_tile, up, down = s[start:stop], up_barrier[0, start:stop], low_barrier[0, start:stop]
            _single_gains(diagonal[start:stop], s_tile, up, down, tiny, gain[start:stop])
            keys[tile] = greatest_key(gain[start:stop])
        if step == n_steps:
            break
        # 2. The coordinate of greatest gain.
        tile = int(np.argmax(keys))
        if keys[tile] <= 0:  # the key of 0
            return step, STALLED_CODE
        start = tile * TILE_POINTS
        gain_tile = gain[start : min(start + TILE_POINTS, m)]
        i = start + int(np.argmax(gain_tile))
        if not is_cached(cols, i):
            missing[:] = i
            return step, COLUMN_MISSING
        touch(cols, i)
        # 3. Step length, clipped to the box.
        slack = upper[i] - x[i] if s[i] < 0.0 else x[i]
        t = min(abs(s[i]) / max(diagonal[i], tiny), slack)
        if t > MAX_SINGLE_STEP:  # the value is unbounded below
            return step, STALLED_CODE
        grows = s[i] < 0.0
        before = x[i]
        if t >= slack:
            x[i] = upper[i] if grows else 0.0
        else:
            x[i] += t if grows else -t
        change, rise = cols.scale * cols.sign[i] * (x[i] - before), cols.ridge[i] * (x[i] - before)
        row = cols.store[cols.slot[i]]
        up_barrier[0, i] = np.inf if x[i] >= upper[i] else 0.0
        low_barrier[0, i] = np.inf if x[i] <= 0.0 else 0.0
    return n_steps, BUDGET_CODE
