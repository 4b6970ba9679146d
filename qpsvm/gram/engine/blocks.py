"""Kernel values of a block of inner products: by numpy if it is small, else by a compiled sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.formula import Exponential, Formula, Power, Tangent

MIN_ENTRIES_FOR_COMPILED_MAP = 1 << 12
"""Number of entries from which the compiled map takes less time: not every processor has a vectorized
exponential in numpy."""


def values_of_products(
    K: NDArray[np.floating], formula: Formula, a: NDArray[np.float64], b: NDArray[np.float64]
) -> NDArray[np.floating]:
    """Turn inner products into kernel values in place, given the terms of rows and columns."""
    if K.size >= MIN_ENTRIES_FOR_COMPILED_MAP:
        from qpsvm.gram.engine.sweep import map_products

        map_products(K, formula.factor, formula.map, a, b)
        return K
    K *= K.dtype.type(formula.factor)
    K += a.astype(K.dtype)[:, None] + b.astype(K.dtype)[None, :]
    if isinstance(formula.map, Exponential):
        np.minimum(K, 0.0, out=K)
        return np.exp2(K, out=K)
    if isinstance(formula.map, Power):
        t = K.copy()
        for _ in range(1, formula.map.degree):
            K *= t
    return np.tanh(K, out=K) if isinstance(formula.map, Tangent) else K


def values_in_compiled_pass(
    few: Any, some: Any, formula: Formula, a: Any, b: Any
) -> NDArray[np.floating]:
    """Return the values of a formula at CSR points with these terms, in one compiled pass."""
    from qpsvm.gram.engine.tiles import fill_between

    out = np.empty((few.shape[0], some.shape[0]), few.dtype)
    fill_between(few, a, some, b, formula, out)
    return out
