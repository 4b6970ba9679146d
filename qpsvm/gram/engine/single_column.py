"""One column of a kernel over many points in float32.

For points of few features BLAS takes as long for one column as for eight. These loops read the points
once, at the bandwidth of the memory, and write kernel values.
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
"""Number of points of a chunk of a thread."""

TILE_POINTS = 512
"""Number of points of a tile, whose inner products stay in the first-level cache."""


def fill_column(evaluator: Evaluator, i: int, out: NDArray[np.float32]) -> None:
    """Write k(x_i, x) for all points x to `out`, in parallel.

    Parameters
    ----------
    evaluator : Evaluator
        Of dense points in float32, in any order; fastest in Fortran's, feature by feature.
    i : int
    out : ndarray, shape (m,)
    """
    points, terms, factor, kernel_map = evaluator
    b, term, weight = read_only(terms), terms[i], points[i].copy()
    sweep: Any
    if points.flags.f_contiguous:
        sweep, stored_points = _by_features, read_only(points.T)
    else:
        sweep, stored_points = _by_points, read_only(np.ascontiguousarray(points))

    def chunk(start: int) -> None:
        at = start, min(start + CHUNK_POINTS, len(b))
        sweep(stored_points, b, weight, term, np.float32(factor), kernel_map, out, *at)

    parallel_for(chunk, alternating_starts(len(b), CHUNK_POINTS))


@mapping
def _by_features(
    features: Any, b: Any, weight: Any, term: Any, factor: Any, kernel_map: Any, out: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    d, scratch = len(weight), np.empty((1, TILE_POINTS), np.float32)
    for start in range(first, last, TILE_POINTS):
        stop = min(start + TILE_POINTS, last)
        total, norm = scratch[0, : stop - start], b[start:stop]
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
        apply_map(kernel_map, scratch[:, : stop - start])
        out[start:stop] = total


@summing
def _by_points(
    points: Any, b: Any, weight: Any, term: Any, factor: Any, kernel_map: Any, out: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    scratch = np.empty((1, TILE_POINTS), np.float32)
    for start in range(first, last, TILE_POINTS):
        stop = min(start + TILE_POINTS, last)
        total, norm = scratch[0, : stop - start], b[start:stop]
        for j in range(len(total)):
            row, t = points[start + j], np.float32(0.0)
            for k in range(len(weight)):
                t += row[k] * weight[k]
            total[j] = t
        for j in range(len(total)):
            total[j] = (term + norm[j]) + factor * total[j]
        apply_map(kernel_map, scratch[:, : stop - start])
        out[start:stop] = total
