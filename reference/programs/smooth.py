"""Smooth convex functions over domains: accelerated projected gradients, judged by the linear gap.

A projection is a cvxpy problem over the explicit constraints of `general`, solved by Clarabel or OSQP;
nothing is taken from qpsvm's methods or domains. The user's functions are called at projected
points alone. An answer is believed after its gap by a linear problem, g'x - min g'y, which bounds the
error of its value where the function is convex and the gradient its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from problems.instance import Instance
from reference.answer import OTHER_FAMILIES, OTHER_FAMILIES_BY_OSQP, Reference, UnverifiedError
from reference.programs.general import MAX_RELATIVE_GAP, MAX_RELATIVE_GAP_OF_OSQP, constraints
from reference.solving.pairs import SOLVER_FUNCTIONS
from reference.textbook import SolverError, clarabel

MAX_STEPS, STEPS_PER_GAP = 3000, 10
"""Most projected gradient steps, and the number of them from one linear problem to the next."""


class Projection:
    """The nearest point of a domain, and the least value of a linear function over it."""

    def __init__(self, name: str, p: dict[str, Any], m: int, solver: str) -> None:
        import cvxpy as cp

        self.x, self.target, self.slope = cp.Variable(m), cp.Parameter(m), cp.Parameter(m)
        rows = constraints(name, p, self.x)
        self.nearest = cp.Problem(cp.Minimize(cp.sum_squares(self.x - self.target)), rows)
        self.lowest = cp.Problem(cp.Minimize(self.slope @ self.x), rows)
        self.solve = SOLVER_FUNCTIONS[solver]

    def of(self, target: np.ndarray) -> np.ndarray:
        """Return the nearest point."""
        self.target.value = target
        self.solve(self.nearest)
        return np.array(self.x.value)

    def least(self, slope: np.ndarray) -> float:
        """Return the least value of the linear function, by Clarabel."""
        self.slope.value = slope
        return clarabel(self.lowest)


@cache
def answer(instance: Instance) -> Reference:
    """Return the answer to an instance, with projections by Clarabel."""
    return answer_by(instance, "Clarabel")


@cache
def answer_osqp(instance: Instance) -> Reference:
    """Return the answer with projections by OSQP, on polyhedra."""
    return answer_by(instance, "OSQP")


def answer_by(instance: Instance, solver: str) -> Reference:
    """Return the answer with projections by a solver of `SOLVER_FUNCTIONS`.

    Raises
    ------
    UnverifiedError
        If the solver does not project, as OSQP on a domain that is no polyhedron, or if the gap remains.
    """
    import cvxpy as cp

    data = instance.data()
    try:
        projection = Projection(*data["domain"], data["m"], solver)
        x, gap, scale = minimized(data, projection, solver)
    except (SolverError, cp.SolverError) as error:
        raise UnverifiedError(f"{instance.name}: {solver} gives no answer: {error}") from error
    value = float(data["value"](x.reshape(data["shape"])))
    slack = most_gap(solver) * max(abs(value), scale)
    if gap > slack:
        raise UnverifiedError(f"{instance.name}: gap {gap:.3g} at value {value:.6g}")
    return Reference(value, x, gap + 1e-9 * max(abs(value), scale), solver, gap)


def most_gap(solver: str) -> float:
    """Return the relative gap at which an answer is believed."""
    return MAX_RELATIVE_GAP_OF_OSQP if solver == "OSQP" else MAX_RELATIVE_GAP


def minimized(
    data: dict[str, Any], projection: Projection, solver: str
) -> tuple[np.ndarray, float, float]:
    """Return a point, its gap, and the gap at the start, which is the scale of the problem."""

    def gradient(x: np.ndarray) -> np.ndarray:
        return np.asarray(data["gradient"](x.reshape(data["shape"])), dtype=float).ravel()

    def gap_at(x: np.ndarray) -> float:
        g = gradient(x)
        return abs(float(g @ x) - projection.least(g))

    x = y = projection.of(np.zeros(data["m"]))
    t, scale = 1.0, gap_at(x)
    gap = scale
    for step in range(1, MAX_STEPS + 1):
        new = projection.of(y - gradient(y) / data["smoothness"])
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        if (y - new) @ (new - x) > 0:  # the momentum increases the value: it is dropped
            following, ahead = 1.0, new
        else:
            ahead = projection.of(new + (t - 1.0) / following * (new - x))
        x, y, t = new, ahead, following
        if step % STEPS_PER_GAP == 0:
            gap = gap_at(x)
            value = abs(float(data["value"](x.reshape(data["shape"]))))
            if gap <= 0.5 * most_gap(solver) * max(value, scale):
                break
    return x, gap, scale


OTHER_FAMILIES.update(smooth_program=answer)
OTHER_FAMILIES_BY_OSQP.update(smooth_program=answer_osqp)
