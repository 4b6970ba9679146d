"""Whole kernel matrices, for many parameters of a kernel on the same points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.engine.formula import Identity, L1Exponential
from qpsvm.gram.engine.maps import apply_map
from qpsvm.gram.engine.sweep import CHUNK_ENTRIES, SWEEP_ENTRIES, map_block, mapping
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.integer import norms_of
from qpsvm.gram.storage.points import products
from qpsvm.numerics.parallel import parallel_for


class KernelMatrix(NamedTuple):
    """Values of a kernel on m points, k_ij = phi(terms_i + terms_j + factor inner_ij): see `formula`."""

    values: NDArray[np.float32]  # (m, m), C-ordered, rounded
    inner: NDArray[np.float64]  # (m, m), C-ordered
    terms: NDArray[np.float64]  # (m,)
    factor: float
    map: Any


def kernel_matrices(grams: Sequence[Gram], n_held: int = 1) -> Iterator[KernelMatrix]:
    """Yield the matrix of each Gram; its values are overwritten by the `n_held`-th next one.

    More than one is held only where `have_same_products`.

    The inner products of the points are computed once where the Grams are one kernel on the same points.
    """
    shared: tuple[Any, Any, NDArray[np.float64]] | None = None
    held: list[NDArray[np.float32]] = []
    for number, gram in enumerate(grams):
        key = _shared_key(gram)
        if key is None:
            inner = np.asarray(gram.block(np.arange(gram.m), None, np.float64), np.float64)
            inner = np.ascontiguousarray(inner)
            yield KernelMatrix(inner.astype(np.float32), inner, np.zeros(gram.m), 1.0, Identity())
            continue
        if shared is None or shared[0] != key:
            assert isinstance(gram, PointGram)
            points = gram._multiplied(slice(None), np.float64)
            shared = key, points, np.asarray(products(points, points), dtype=np.float64, order="C")
        _, points, inner = shared
        formula = gram._formula  # type: ignore[attr-defined]
        terms = formula.terms(points, norms_of(points))
        if number < n_held:
            held.append(np.empty(inner.shape, np.float32))
        values = held[number % n_held]
        matrix = KernelMatrix(values, inner, terms, float(formula.factor), formula.map)
        _write_values(matrix)
        yield matrix


def have_same_products(grams: Sequence[Gram]) -> bool:
    """Return whether the Grams are one kernel on the same points, up to its parameters."""
    keys = [_shared_key(gram) for gram in grams]
    return keys[0] is not None and all(key == keys[0] for key in keys)


def _write_values(matrix: KernelMatrix) -> None:
    """Write the values, computed in float64, in parallel."""
    values, inner, terms, factor, kernel_map = matrix
    rows = max(1, SWEEP_ENTRIES // max(1, inner.shape[1]))

    def chunk(start: int) -> None:
        at = slice(start, start + rows)
        _round(inner[at], factor, kernel_map, terms[at], terms, values[at])

    parallel_for(chunk, list(range(0, len(inner), rows)))


@mapping
def _round(K: Any, factor: float, kernel_map: Any, a: Any, b: Any, out: Any) -> None:
    buffer = np.empty(CHUNK_ENTRIES, K.dtype)
    for i in range(len(a)):
        for start in range(0, len(b), CHUNK_ENTRIES):
            column_terms, row_term = b[start : start + CHUNK_ENTRIES], a[i]
            row, t = K[i, start : start + CHUNK_ENTRIES], buffer[: len(column_terms)]
            to = out[i, start : start + CHUNK_ENTRIES]
            for j in range(len(t)):
                t[j] = (row_term + column_terms[j]) + factor * row[j]
            apply_map(kernel_map, t)
            for j in range(len(t)):
                to[j] = t[j]


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
