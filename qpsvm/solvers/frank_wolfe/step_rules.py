"""The step rules of Frank-Wolfe: which step is taken, from the slopes of the candidates."""

from __future__ import annotations

from typing import Any

from qpsvm.numerics.jit import compiled

TOWARD, AWAY, PAIR, TRIANGLE, DROP = 0, 1, 2, 3, 4
STEP_KINDS = ("toward", "away", "pair", "triangle", "drop")
RULES = {"toward": 0, "away": 1, "pairwise": 2, "blended": 3, "swap": 4, "triangle": 5}


@compiled
def choose(rule: int, toward: float, away: float, pair: float, inner: float) -> int:
    """Return the kind of step from the slopes of the candidates; ties go toward.

    `pair` is the steepest pair of all, `inner` the steepest one inside the support.
    """
    if rule == 1 and away > toward:
        return AWAY
    if rule == 2 or (rule == 3 and 2.0 * inner >= toward and inner > 0.0):
        return PAIR
    if rule == 5 and away > 0.0:
        return TRIANGLE
    return TOWARD


@compiled
def decrease(slope: float, curvature: float, cap: float) -> float:
    """Return by how much a step of at most `cap` decreases the value."""
    length = min(slope / curvature, cap) if curvature > 0.0 else min(cap, 1.0)
    return length * slope - 0.5 * length * length * curvature


@compiled
def best_of_triangle(pp: float, qq: float, pq: float, p: float, q: float) -> Any:
    """Minimize (p a + q b) + 1/2 (pp a^2 + 2 pq ab + qq b^2) over a, b >= 0, a + b <= 1.

    p and q are the slopes of the two edges at the corner, both <= 0.
    """
    determinant = pp * qq - pq * pq
    if determinant > 1e-12 * pp * qq:
        a = (pq * q - qq * p) / determinant
        b = (pq * p - pp * q) / determinant
        if a >= 0.0 and b >= 0.0 and a + b <= 1.0:
            return a, b
    best, best_a, best_b = 0.0, 0.0, 0.0
    for edge in range(3):
        if edge == 0:  # b = 0
            a = min(1.0, -p / pp) if pp > 0.0 else 1.0
            b = 0.0
        elif edge == 1:  # a = 0
            a = 0.0
            b = min(1.0, -q / qq) if qq > 0.0 else 1.0
        else:  # a + b = 1
            bend = pp + qq - 2.0 * pq
            a = (q - p + qq - pq) / bend if bend > 0.0 else 0.0
            a = min(1.0, max(0.0, a))
            b = 1.0 - a
        value = p * a + q * b + 0.5 * (pp * a * a + qq * b * b) + pq * a * b
        if value < best:
            best, best_a, best_b = value, a, b
    return best_a, best_b
