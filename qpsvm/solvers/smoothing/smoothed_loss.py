"""The smoothed loss in compiled passes over the points: weights, best bias, Bregman divergence.

With q_i = 1 - y_i (f_i + b) and the width mu d_i of the middle zone of each point, the loss is the
maximum over u of u q - width (u - center)^2 / 2. For 0 <= u <= 1 and center 0 it is the smoothed hinge
(Zhou, Tao and Wu, (5) and (6)); with u not clipped, center 0 and width 1/2 it is q^2.
"""

from __future__ import annotations

import numpy as np

from qpsvm.numerics.jit import njit, reassociating


@njit(cache=True, nogil=True, error_model="numpy")
def smoothed(values, y, C, width, center, clipped, bias, b, a):  # type: ignore[no-untyped-def]
    """Write C_i u_i of (6) to `a` at the b that minimizes the smoothed loss; return that b.

    The derivative in b, -sum y_i a_i, is piecewise linear and does not decrease: its zero is found
    by Newton steps within the interval in which its sign changes.
    """
    if bias:
        low, high = -np.inf, np.inf
        stride = 1.0
        for _ in range(200):
            excess, slope, size = imbalance(values, y, C, width, center, clipped, b)
            if abs(excess) <= 1e-14 * size:
                break
            if excess > 0.0:
                low = b
            else:
                high = b
            step = excess / slope if slope > 0.0 else np.inf
            trial = b + step
            if not low < trial < high:
                if np.isinf(low) or np.isinf(high):
                    trial = b + (stride if excess > 0.0 else -stride)
                    stride *= 2.0
                else:
                    trial = 0.5 * (low + high)
            if trial in (b, low, high):
                break
            b = trial
    for i in range(len(y)):
        u = center[i] + (1.0 - y[i] * (values[i] + b)) / width[i]
        if clipped:
            u = min(max(u, 0.0), 1.0)
        a[i] = C[i] * u
    return b


@reassociating
def imbalance(values, y, C, width, center, clipped, b):  # type: ignore[no-untyped-def]
    """Return sum y_i a_i, minus its derivative in b, and sum |a_i|."""
    excess = slope = size = 0.0
    for i in range(len(y)):
        u = center[i] + (1.0 - y[i] * (values[i] + b)) / width[i]
        if not clipped or 0.0 < u < 1.0:
            slope += C[i] / width[i]
        if clipped:
            u = min(max(u, 0.0), 1.0)
        excess += C[i] * y[i] * u
        size += C[i] * abs(u)
    return excess, slope, size


@reassociating
def divergence(values, ahead, y, C, width, center, clipped, b):  # type: ignore[no-untyped-def]
    """Return the distance of the smoothed loss at `ahead` above its tangent at `values`.

    Term by term (u' - u) (q' - width (u' + u) / 2), never negative, without cancellation.
    """
    total = 0.0
    for i in range(len(y)):
        q = 1.0 - y[i] * (ahead[i] + b)
        u = center[i] + (1.0 - y[i] * (values[i] + b)) / width[i]
        u_ahead = center[i] + q / width[i]
        if clipped:
            u = min(max(u, 0.0), 1.0)
            u_ahead = min(max(u_ahead, 0.0), 1.0)
        total += C[i] * (u_ahead - u) * (q - width[i] * (0.5 * (u_ahead + u) - center[i]))
    return total
