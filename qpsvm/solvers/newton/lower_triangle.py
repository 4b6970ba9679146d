"""A Gram matrix over chosen points as row panels of its lower triangle, for products with vectors.

Half of a symmetric matrix is evaluated and stored, and a product reads an entry once for both of its
positions. Panels that do not fit in memory are evaluated again in every product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.numerics.jit import njit
from qpsvm.numerics.parallel import parallel_for

PANEL_ROWS = 256
"""Number of rows of a panel."""

CHUNK_COLUMNS = 1024
"""Number of columns of a panel that are read at a time: their part of the vector remains in cache."""

Vector = NDArray[np.float64]


class LowerTriangle:
    """K over a growing list of points; panels are stored while memory lasts.

    Parameters
    ----------
    gram : Gram
    memory_limit : int
        Bytes for the panels.
    """

    def __init__(self, gram: Gram, memory_limit: int) -> None:
        self._gram = gram
        self._limit = memory_limit
        self._panels: list[tuple[int, int, NDArray[np.floating] | None]] = []
        self.rows: NDArray[np.int64] = np.empty(0, np.int64)
        self.n_bytes = 0

    @property
    def column_error(self) -> Vector | None:
        """Bound on the error of an entry, for each point of the Gram; None if unknown."""
        return self._gram.column_error

    def add(self, new: NDArray[np.int64]) -> None:
        """Add points; none of them may be present."""
        first = len(self.rows)
        self.rows = np.concatenate([self.rows, new])
        n, item = len(self.rows), self._gram.dtype.itemsize
        for start in range(first, n, PANEL_ROWS):
            stop = min(start + PANEL_ROWS, n)
            n_bytes = (stop - start) * stop * item
            entries = None
            if self.n_bytes + n_bytes <= self._limit:
                self.n_bytes += n_bytes
                entries = np.empty((stop - start, stop), self._gram.dtype)
                self._fill(start, stop, entries)
            self._panels.append((start, stop, entries))

    def _fill(self, start: int, stop: int, out: NDArray[np.floating]) -> None:
        self._gram.fill(self.rows[start:stop], out, np.arange(stop - start), self.rows[:stop])

    def product(self, v: Vector, wanted: NDArray[np.bool_] | None = None) -> Vector:
        """Return K v in the order of `rows`, with float64 sums.

        Given `wanted`, true wherever v is not 0, only the wanted entries are correct: entries of K
        are not read where neither row nor column is wanted.
        """
        out = np.zeros(len(v))
        wanted = np.ones(len(v), np.bool_) if wanted is None else wanted
        above: list[Vector] = [np.empty(0)] * len(self._panels)

        def add_panel(k: int, entries: NDArray[np.floating]) -> None:
            start, stop, _ = self._panels[k]
            above[k] = np.zeros(start)
            _add_panel(entries, v, wanted, start, above[k], out[start:stop])

        stored = [k for k, (_, _, entries) in enumerate(self._panels) if entries is not None]
        parallel_for(lambda k: add_panel(k, self._panels[k][2]), stored[::-1])
        scratch = np.empty(0, self._gram.dtype)
        for k, (start, stop, entries) in enumerate(self._panels):
            if entries is None:
                if not len(scratch):
                    scratch = np.empty(PANEL_ROWS * len(v), self._gram.dtype)
                evaluated = scratch[: (stop - start) * stop].reshape(stop - start, stop)
                self._fill(start, stop, evaluated)
                add_panel(k, evaluated)
        for transposed in above:
            out[: len(transposed)] += transposed
        return out


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "reassoc"})
def _add_panel(K: Any, v: Any, wanted: Any, start: int, above: Any, out: Any) -> None:
    """Add the panel times v to `out`, and the transpose of its part left of the diagonal to `above`."""
    b, n_unrolled = K.shape[0], K.shape[0] // 4 * 4
    for left in range(0, start, CHUNK_COLUMNS):
        right = min(left + CHUNK_COLUMNS, start)
        v_part, above_part = v[left:right], above[left:right]
        for i in range(0, n_unrolled, 4):
            r0, r1 = K[i, left:right], K[i + 1, left:right]
            r2, r3 = K[i + 2, left:right], K[i + 3, left:right]
            if not wanted[start + i : start + i + 4].any():
                continue
            v0, v1, v2, v3 = v[start + i], v[start + i + 1], v[start + i + 2], v[start + i + 3]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(len(v_part)):
                a, w = v_part[j], above_part[j]
                k0, k1 = np.float64(r0[j]), np.float64(r1[j])
                k2, k3 = np.float64(r2[j]), np.float64(r3[j])
                t0 += a * k0
                t1 += a * k1
                t2 += a * k2
                t3 += a * k3
                above_part[j] = w + ((v0 * k0 + v1 * k1) + (v2 * k2 + v3 * k3))
            out[i] += t0
            out[i + 1] += t1
            out[i + 2] += t2
            out[i + 3] += t3
        for i in range(n_unrolled, b):
            r0, v0, t0 = K[i, left:right], v[start + i], 0.0
            for j in range(len(v_part)):
                k0 = np.float64(r0[j])
                t0 += v_part[j] * k0
                above_part[j] += v0 * k0
            out[i] += t0
    v_part = v[start:]
    for i in range(b):
        if not wanted[start + i]:
            continue
        r0, t0 = K[i, start:], 0.0
        for j in range(len(r0)):
            t0 += v_part[j] * np.float64(r0[j])
        out[i] += t0
