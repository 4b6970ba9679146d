"""Whole kernel matrices in float64, for many parameters of a kernel on the same points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.engine.blocks import values_of_products
from qpsvm.gram.engine.formula import L1Exponential
from qpsvm.gram.engine.sweep import map_block
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.storage.points import products


def kernel_matrices(grams: Sequence[Gram]) -> Iterator[NDArray[np.float64]]:
    """Yield the matrix of each Gram, shape (m, m); it is overwritten by the next one.

    The inner products of the points are computed once where the Grams are one kernel on the same points.
    """
    shared: tuple[Any, Any, NDArray[np.float64], NDArray[np.float64]] | None = None
    for gram in grams:
        key = _shared_key(gram)
        if key is None:
            yield np.asarray(gram.block(np.arange(gram.m), None, np.float64), np.float64)
            continue
        if shared is None or shared[0] != key:
            assert isinstance(gram, PointGram)
            points = gram._multiplied(slice(None), np.float64)
            inner = np.asarray(products(points, points), dtype=np.float64)
            shared = key, points, inner, np.empty_like(inner)
        _, points, inner, K = shared
        formula = gram._formula  # type: ignore[attr-defined]
        terms = formula.terms(points, norms_of(points))
        np.copyto(K, inner)
        values_of_products(K, formula, terms, terms)  # in place
        yield K


def write_block(
    gram: Gram, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Write kernel values, shape (n_rows, n_columns), to a C-ordered array, in this thread."""
    if _shared_key(gram) is None:
        out[:] = gram.block(rows, columns, np.float64)
        return
    assert isinstance(gram, PointGram) and gram._formula is not None
    points = gram._multiplied(rows, np.float64)
    others = points if columns is rows else gram._multiplied(columns, np.float64)
    if isinstance(points, np.ndarray) and points.dtype == np.float64:
        products(points, others, out)
    else:
        out[:] = products(points, others)
    formula = gram._formula
    terms = [formula.terms(part, norms_of(part)) for part in (points, others)]
    map_block(out, formula.factor, formula.map, *terms)


def entry_error(gram: Gram) -> float:
    """Return a bound on the error of an entry of these matrices."""
    error = gram.to_float64().column_error
    return gram.error if error is None else float(np.max(error))


def _shared_key(gram: Gram) -> Any:
    """Return what Grams have in common whose points have the same products, or None.

    It is None without a formula, and for points whose products are not to be had.
    """
    if not isinstance(gram, PointGram) or gram._formula is None:
        return None
    if isinstance(gram._points, StoredPoints) and not gram._points.has_products:
        return None
    is_product = not isinstance(gram._formula.map, L1Exponential)
    return (id(gram.X), type(gram), gram._scale) if is_product else None
