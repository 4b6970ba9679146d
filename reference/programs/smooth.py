"""Smooth convex functions over domains: accelerated projected gradients, judged by the linear gap.

A projection is a cvxpy problem over the explicit constraints of `general`, solved by Clarabel or OSQP;
nothing is taken from qpsvm's methods or domains. The user's functions are called at projected
points alone. An answer is believed after its gap by a linear problem, g'x - min g'y, which bounds the
error of its value where the function is convex and the gradient its own.
"""

from __future__ import annotations

from collections.abc import Callable
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

LOOSE_TOLERANCE = 1e-9
"""Tolerance of Clarabel for projections that it does not solve at tighter ones."""


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
        solve_or_loosen(self.nearest, self.solve)
        return np.array(self.x.value)

    def inside(self, target: np.ndarray) -> np.ndarray:
        """Return the nearest point by Clarabel, which leaves a domain by rounding alone."""
        self.target.value = target
        solve_or_loosen(self.nearest, clarabel)
        return np.array(self.x.value)

    def least(self, slope: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the least value of the linear function and where it is, by Clarabel."""
        self.slope.value = slope
        return clarabel(self.lowest), np.array(self.x.value)


def solve_or_loosen(problem: Any, solve: Callable[[Any], float]) -> None:
    """Solve a projection; where Clarabel fails at tight tolerances, at a loose one.

    The gap at the end, and no projection, is what an answer is believed by.
    """
    import cvxpy as cp

    try:
        solve(problem)
    except SolverError:
        if solve is not clarabel:
            raise
        # named, since cvxpy keeps a solver's settings from one call to the next
        loose = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), LOOSE_TOLERANCE)
        problem.solve(solver=cp.CLARABEL, **loose)
        if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            raise


class Function:
    """The user's value and gradient at a point as a vector, and the gap there."""

    def __init__(self, data: dict[str, Any], projection: Projection) -> None:
        self.data, self.projection = data, projection

    def value(self, x: np.ndarray) -> float:
        """Return f(x); raise ArithmeticError where it is not finite."""
        return float(finite("value", self.data["value"](x.reshape(self.data["shape"]))))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient; raise ArithmeticError where it is not finite."""
        return finite("gradient", self.data["gradient"](x.reshape(self.data["shape"]))).ravel()

    def gap(self, x: np.ndarray) -> float:
        """Return the largest g'(x - y) over the points y of the domain."""
        g = self.gradient(x)
        return abs(float(g @ x) - self.projection.least(g)[0])

    def scale(self, start: np.ndarray) -> float:
        """Return the largest gap at the start and halfway from it to two ends of the domain.

        The start alone may be a minimizer, where every gap is rounding. The ends themselves may lie
        outside by rounding.
        """
        slope = np.random.default_rng(0).standard_normal(len(start))
        ends = [self.projection.least(sign * slope)[1] for sign in (1.0, -1.0)]
        return max(self.gap(x) for x in (start, *(0.5 * (start + end) for end in ends)))


def finite(name: str, found: Any) -> np.ndarray:
    """Return what a user's function gave, as an array; raise ArithmeticError if it is not finite."""
    result = np.asarray(found, dtype=float)
    if not np.isfinite(result).all():
        raise ArithmeticError(f"the {name} is not finite at a projected point")
    return result


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
        If the solver does not project, as OSQP on a domain that is no polyhedron, if the functions are
        not finite, or if the gap remains.
    """
    import cvxpy as cp

    data = instance.data()
    try:
        f = Function(data, Projection(*data["domain"], data["m"], solver))
        x, scale = minimized(f, solver)
        if solver == "OSQP":  # only the value of a feasible point bounds the optimum from above
            x = f.projection.inside(x)
        value, gap = f.value(x), f.gap(x)
    except (ArithmeticError, SolverError, cp.SolverError) as error:
        raise UnverifiedError(f"{instance.name}: no answer by {solver}: {error}") from error
    slack = most_gap(solver) * max(abs(value), scale)
    if not gap <= slack:
        raise UnverifiedError(f"{instance.name}: gap {gap:.3g} at value {value:.6g}")
    return Reference(value, x, gap + 1e-9 * max(abs(value), scale), solver, gap)


def most_gap(solver: str) -> float:
    """Return the relative gap at which an answer is believed."""
    return MAX_RELATIVE_GAP_OF_OSQP if solver == "OSQP" else MAX_RELATIVE_GAP


def minimized(f: Function, solver: str) -> tuple[np.ndarray, float]:
    """Return a point after accelerated projected gradients, and the scale of the problem."""
    projection, smoothness = f.projection, f.data["smoothness"]
    x = y = projection.of(np.zeros(f.data["m"]))
    t, scale = 1.0, f.scale(x)
    for step in range(1, MAX_STEPS + 1):
        new = projection.of(y - f.gradient(y) / smoothness)
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        if (y - new) @ (new - x) > 0:  # the momentum increases the value: it is dropped
            following, ahead = 1.0, new
        else:
            ahead = projection.of(new + (t - 1.0) / following * (new - x))
        x, y, t = new, ahead, following
        if step % STEPS_PER_GAP == 0:
            most = 0.5 * most_gap(solver) * max(abs(f.value(x)), scale)
            if f.gap(x) <= most:
                break
    return x, scale


OTHER_FAMILIES.update(smooth_program=answer)
OTHER_FAMILIES_BY_OSQP.update(smooth_program=answer_osqp)
