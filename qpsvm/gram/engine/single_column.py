"""One column of the Gaussian kernel over many points.

BLAS takes as long for one column as for eight, where points have few features: these loops read them
once, as fast as the memory gives them, and write kernel values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.engine.sweep import LOG2E, summing, vectorised
from qpsvm.numerics.exp2 import exp2_32
from qpsvm.numerics.parallel import alternating_starts, parallel_for
from qpsvm.numerics.row_products import read_only

PIECE = 1 << 17
"""Points that a thread works on before it takes others."""

TILE = 512
"""Points whose inner products stay in the nearest cache."""


def fill_column(
    points: NDArray[np.float32],
    norms: NDArray[np.float64],
    i: int,
    gamma: float,
    out: NDArray[np.float32],
) -> None:
    """Write exp(-gamma |x_i - x|^2) for all points x to `out`, in parallel.

    Parameters
    ----------
    points : ndarray, shape (m, d)
        In any order; fastest feature by feature, which is Fortran's.
    norms : ndarray, shape (m,)
        Their squared norms.
    i : int
    gamma : float
    out : ndarray, shape (m,)
    """
    b, own, rate = read_only(norms), np.float32(norms[i]), np.float32(-gamma * LOG2E)
    weight = 2.0 * points[i]  # exact
    sweep: Any
    if points.flags.f_contiguous:
        sweep, held = _by_features, read_only(points.T)
    else:
        sweep, held = _by_points, read_only(np.ascontiguousarray(points))

    def piece(start: int) -> None:
        sweep(held, b, weight, own, rate, out, start, start + PIECE)

    parallel_for(piece, alternating_starts(len(norms), PIECE))


@vectorised
def _by_features(
    features: Any, b: Any, weight: Any, own: Any, rate: Any, out: Any, first: int, last: int
) -> None:
    d, last = len(weight), min(last, len(b))
    room = np.empty(TILE, np.float32)
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        total, to, norm = room[: stop - start], out[start:stop], b[start:stop]
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
            to[j] = exp2_32(rate * ((own + np.float32(norm[j])) - total[j]))


@summing
def _by_points(
    points: Any, b: Any, weight: Any, own: Any, rate: Any, out: Any, first: int, last: int
) -> None:
    last = min(last, len(b))
    room = np.empty(TILE, np.float32)
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        total, to, norm = room[: stop - start], out[start:stop], b[start:stop]
        for j in range(len(total)):
            row, t = points[start + j], np.float32(0.0)
            for k in range(len(weight)):
                t += row[k] * weight[k]
            total[j] = t
        for j in range(len(total)):
            to[j] = exp2_32(rate * ((own + np.float32(norm[j])) - total[j]))
