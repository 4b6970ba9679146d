"""The minima over each simplex of a product, in one compiled pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import njit

N_LANES = 8
"""Independent running minima: they avoid the latency of a load right after a store."""


@njit(cache=True, nogil=True)
def least_of_groups(g: Any, d: Any, group: Any, n_groups: int, ridged: bool) -> Any:
    """Return the least g and the least g + d of each group, shapes (n_groups,).

    Without a ridge, d is not read.
    """
    low = np.full((N_LANES, n_groups), np.inf)
    top = np.full((N_LANES, n_groups), np.inf)
    for start in range(0, len(g), N_LANES):
        for lane in range(min(N_LANES, len(g) - start)):
            k, at = start + lane, np.uintp(group[start + lane])
            low[lane, at] = g[k] if g[k] < low[lane, at] else low[lane, at]
            if ridged:
                total = g[k] + d[k]
                top[lane, at] = total if total < top[lane, at] else top[lane, at]
    for lane in range(1, N_LANES):
        low[0], top[0] = np.minimum(low[0], low[lane]), np.minimum(top[0], top[lane])
    return low[0], top[0] if ridged else low[0]
