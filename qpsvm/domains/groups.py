"""The least values of each simplex of a product, in one compiled pass."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def least_of_groups(g: Any, d: Any, group: Any, n_groups: int, ridged: bool) -> Any:
    """Return the least g and the least g + d of each group, shapes (n_groups,).

    Without a ridge d is not read.
    """
    low = np.full(n_groups, np.inf)
    top = np.full(n_groups, np.inf)
    for k in range(len(g)):
        at = np.uintp(group[k])
        low[at] = g[k] if g[k] < low[at] else low[at]
        if ridged:
            rim = g[k] + d[k]
            top[at] = rim if rim < top[at] else top[at]
    return low, top if ridged else low
