"""The step rules of Frank-Wolfe: they choose a step by the slopes of the candidates.

========  ==========================================================================================
toward    Frandi et al., Algorithm 2; on two simplices it is Gilbert's algorithm
away      Frandi et al., Algorithm 3; on two simplices Kumar and Yildirim, Algorithm 1
pairwise  Lacoste-Julien and Jaggi (2015); on two simplices the method of Mitchell, Demyanov and
          Malozemov, in the simplex where the pair is steeper
blended   Tsuji, Tanaka and Pokutta (2022): pairs inside the support while they are steep enough,
          which needs no new column, and toward steps otherwise
swap      Allende, Frandi, Nanculef and Sartori (2013): toward step or pair, whichever decreases
          the value more
triangle  Keerthi et al. (2000), the nearest point algorithm: the best point of the triangle spanned
          by the point, the toward vertex and the far end of the away step
========  ==========================================================================================
"""

from __future__ import annotations

from typing import Any

from qpsvm.numerics.jit import compiled

TOWARD_STEP, AWAY_STEP, PAIR_STEP, TRIANGLE_STEP, DROP_STEP = 0, 1, 2, 3, 4
"""Kinds of steps. A drop step is an away or pair step that sets a weight to zero."""

STEP_KINDS = ("toward", "away", "pair", "triangle", "drop")
"""Their names, as counters show them."""

TOWARD_RULE, AWAY_RULE, PAIRWISE_RULE, BLENDED_RULE, SWAP_RULE, TRIANGLE_RULE = 0, 1, 2, 3, 4, 5
"""Step rules in compiled code."""

STEP_RULES = {
    "toward": TOWARD_RULE,
    "away": AWAY_RULE,
    "pairwise": PAIRWISE_RULE,
    "blended": BLENDED_RULE,
    "swap": SWAP_RULE,
    "triangle": TRIANGLE_RULE,
}
"""The rules by name."""

VERTEX_STEP_RULES = ("toward", "away", "pairwise", "blended")
"""Names of the rules that need no coordinates: those of the vertex driver."""


@compiled
def choose(rule: int, toward: float, away: float, pair: float, inner: float) -> int:
    """Return the kind of step from the slopes of the candidates; a tie gives a toward step.

    `pair` is the slope of the steepest pair, `inner` that of the steepest pair inside the support.
    """
    if rule == AWAY_RULE and away > toward:
        return AWAY_STEP
    if rule == PAIRWISE_RULE or (rule == BLENDED_RULE and 2.0 * inner >= toward and inner > 0.0):
        return PAIR_STEP
    if rule == TRIANGLE_RULE and away > 0.0:
        return TRIANGLE_STEP
    return TOWARD_STEP


@compiled
def decrease(slope: float, curvature: float, cap: float) -> float:
    """Return the decrease of the value along a step of length at most `cap`."""
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
