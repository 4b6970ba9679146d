"""Exact minima that lower bounds need: linear functions over simple sets, best biases, water levels.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`. Each function is a sort and a pass over the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.files.kernel_values import exact_sum

Vector = NDArray[np.float64]


def filled(slope: Vector, upper: Vector, total: float) -> Vector:
    """Return the a with 0 <= a <= upper and sum `total` that minimizes slope'a, shape (m,)."""
    order = np.argsort(slope, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(upper[order])[:-1]])
    a = np.empty(len(slope))
    a[order] = np.clip(total - before, 0.0, upper[order])
    return a


def capped_minimum(slope: Vector, upper: Vector, total: float) -> float:
    """Return a lower bound of slope'a over 0 <= a <= upper with sum `total`: its dual at the best level.

    Every level t bounds it by total t - sum upper_i max(0, t - slope_i).
    """
    order = np.argsort(slope, kind="stable")
    at = int(np.searchsorted(np.cumsum(upper[order]), total))
    t = float(slope[order[min(at, len(order) - 1)]])
    return total * t - exact_sum(upper * np.maximum(t - slope, 0.0))


def ridged_minimum(slope: Vector, ridge: Vector) -> float:
    """Return a lower bound of slope'a + 1/2 sum ridge_i a_i^2 over the simplex, by its dual.

    Every level t bounds it by t - 1/2 sum max(0, t - slope_i)^2 / ridge_i, where t is at most the slope
    of each point without a ridge. The best one makes the sum of max(0, t - slope_i) / ridge_i 1.
    """
    free, least = ridge == 0.0, float(np.min(slope))
    top = float(np.min(slope[free])) if free.any() else np.inf
    rest = np.flatnonzero(~free)
    if not len(rest):
        return top
    s, weight = np.sort(slope[rest]) - least, 1.0 / ridge[rest][np.argsort(slope[rest])]
    levels = (1.0 + np.cumsum(s * weight)) / np.cumsum(weight)
    at = np.flatnonzero(levels > s)
    t = min(least + float(levels[at[-1]]), top)
    over = np.maximum(t - slope[rest], 0.0)
    return t - 0.5 * exact_sum(over * over / ridge[rest])


def best_bias(breaks: Vector, slopes: Vector, start: float) -> float:
    """Return a b that minimizes a convex, piecewise linear function: a break where its slope is 0.

    `start` is its slope below all `breaks`; at a break it rises by the entry of `slopes`.
    """
    order = np.argsort(breaks, kind="stable")
    slope = start + np.cumsum(slopes[order])
    turns = np.flatnonzero(slope >= -1e-12 * np.sum(slopes))
    return float(breaks[order[turns[0] if len(turns) else -1]])


def hinge_bias(g: Vector, y: Vector, C: Vector) -> float:
    """Return a b that minimizes sum C_i max(0, 1 - y_i (g_i + b)); each loss ends at y_i - g_i."""
    return best_bias(y - g, C, -float(np.sum(C[y > 0])))


def tube_bias(residual: Vector, C: Vector, epsilon: float) -> float:
    """Return a b that minimizes sum C_i max(0, |residual_i - b| - epsilon)."""
    breaks = np.concatenate([residual - epsilon, residual + epsilon])
    return best_bias(breaks, np.concatenate([C, C]), -float(np.sum(C)))


def vertex(slope: Vector, domain: dict[str, Any]) -> Vector:
    """Return a point of a domain that minimizes slope'a.

    `domain` has its name and its numbers, as a result file names them: see `violation`.
    """
    name = domain["name"]
    if name in ("SimplexProduct", "CappedSimplex"):
        a = np.zeros(len(slope))
        upper = domain.get("upper")
        totals = np.broadcast_to(domain.get("total", 1.0), int(domain["group"].max()) + 1)
        for group, total in enumerate(totals):
            at = np.flatnonzero(domain["group"] == group)
            top = np.full(len(at), float(total)) if upper is None else upper[at]
            a[at] = filled(slope[at], top, float(total))
        return a
    if name == "Box":
        return np.where(slope > 0, domain["lower"], domain["upper"])
    a, radius = np.zeros(len(slope)), float(domain["radius"])
    if name == "L2Ball":
        length = float(np.linalg.norm(slope))
        return -radius / length * slope if length > 0 else a
    if name == "L1Ball":
        i = int(np.argmax(np.abs(slope)))
        a[i] = -radius * np.sign(slope[i])
        return a
    i = int(np.argmin(slope))  # a scaled simplex
    a[i] = 0.0 if domain["solid"] and slope[i] > 0 else radius
    return a


def violation(x: Vector, domain: dict[str, Any]) -> float:
    """Return the largest amount by which x breaks a constraint of a domain."""
    name = domain["name"]
    if name in ("SimplexProduct", "CappedSimplex"):
        sums = np.bincount(domain["group"], weights=x)
        worst = [float(np.max(-x)), float(np.max(np.abs(sums - domain.get("total", 1.0))))]
        if domain.get("upper") is not None:
            worst.append(float(np.max(x - domain["upper"])))
        return max(0.0, *worst)
    if name == "Box":
        return max(0.0, float(np.max(domain["lower"] - x)), float(np.max(x - domain["upper"])))
    radius = float(domain["radius"])
    if name == "L2Ball":
        return max(0.0, float(np.linalg.norm(x)) - radius)
    if name == "L1Ball":
        return max(0.0, float(np.sum(np.abs(x))) - radius)
    excess = float(np.sum(x)) - radius
    return max(0.0, float(np.max(-x)), excess if domain["solid"] else abs(excess))
