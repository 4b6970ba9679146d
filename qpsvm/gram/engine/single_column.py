"""One column of a kernel over many dense points.

BLAS takes as long for one column as for eight, where points have few features: these loops read them
once, as fast as the memory gives them, and write kernel values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.formula import Evaluator
from qpsvm.gram.engine.maps import apply_map
from qpsvm.gram.engine.sweep import mapping, summing
from qpsvm.numerics.parallel import alternating_starts, parallel_for
from qpsvm.numerics.row_products import read_only

CHUNK_POINTS = 1 << 17
"""Number of points that a thread works on before it takes another chunk."""

TILE_POINTS = 512
"""Number of points whose inner products stay in the nearest cache."""


class SingleColumn:
    """Columns of a Gram one at a time; made once for its points.

    Parameters
    ----------
    evaluator : Evaluator
        Of dense points, in any order; feature by feature, which is Fortran's, is fastest. The map is
        one of inner products.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._points, self._terms, factor, self._map = evaluator
        self._b, self._factor = read_only(self._terms), self._terms.dtype.type(factor)
        if self._points.flags.f_contiguous:
            self._sweep, self._arranged = _by_features, read_only(self._points.T)
        else:
            self._sweep, self._arranged = _by_points, read_only(np.ascontiguousarray(self._points))

    def write(self, i: int, out: NDArray[np.floating]) -> None:
        """Write k(x_i, x) for all points x to `out`, shape (m,), of many points in parallel."""
        own = self._points[i].copy(), self._terms[i], self._factor, self._map, out
        m = len(self._b)
        if m <= CHUNK_POINTS:
            self._sweep(self._arranged, self._b, *own, 0, m)
            return

        def chunk(start: int) -> None:
            self._sweep(self._arranged, self._b, *own, start, min(start + CHUNK_POINTS, m))

        parallel_for(chunk, alternating_starts(m, CHUNK_POINTS), with_blas=False)


@mapping
def _by_features(
    features: Any, b: Any, weight: Any, term: Any, factor: Any, kernel_map: Any, out: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    d, scratch = len(weight), np.empty(TILE_POINTS, features.dtype)
    for start in range(first, last, TILE_POINTS):
        stop = min(start + TILE_POINTS, last)
        total, norm = scratch[: stop - start], b[start:stop]
        total[:] = 0.0
        k = 0
        while k + 4 <= d:  # fewer passes over the sums
            w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
            r0, r1 = features[k, start:stop], features[k + 1, start:stop]
            r2, r3 = features[k + 2, start:stop], features[k + 3, start:stop]
            for j in range(len(total)):
                total[j] += (w0 * r0[j] + w1 * r1[j]) + (w2 * r2[j] + w3 * r3[j])
            k += 4
        while k < d:
            w0, r0 = weight[k], features[k, start:stop]
            for j in range(len(total)):
                total[j] += w0 * r0[j]
            k += 1
        for j in range(len(total)):
            total[j] = (term + norm[j]) + factor * total[j]
        apply_map(kernel_map, total)
        out[start:stop] = total


@summing
def _by_points(
    points: Any, b: Any, weight: Any, term: Any, factor: Any, kernel_map: Any, out: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    scratch = np.zeros(TILE_POINTS, points.dtype)
    zero = scratch[0]
    for start in range(first, last, TILE_POINTS):
        stop = min(start + TILE_POINTS, last)
        total, norm = scratch[: stop - start], b[start:stop]
        for j in range(len(total)):
            row, t = points[start + j], zero
            for k in range(len(weight)):
                t += row[k] * weight[k]
            total[j] = t
        for j in range(len(total)):
            total[j] = (term + norm[j]) + factor * total[j]
        apply_map(kernel_map, total)
        out[start:stop] = total
