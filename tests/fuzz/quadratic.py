"""The dual problems as quadratic programs in extended precision: value, violation, lower bound.

Minimize 1/2 x'(G + D)x + c'x + constant where 0 <= x <= u and s'x = t over each group of
coordinates, or over a ball. By convexity

    1/2 a'Ga >= (Gx)'a - 1/2 x'Gx  for any a,

so that any x gives a lower bound of the optimum: the minimum of a separable function. Each bound is
lowered by its own rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz.kernels import EPS, EPS64, Kernel, matrix_of
from tests.fuzz.problem import Problem

N_BISECTIONS = 130
"""Halvings of the interval of a multiplier: more than the digits that it has."""


class Group(NamedTuple):
    """An equality s'x = t over some coordinates."""

    where: np.ndarray  # indices
    sign: np.ndarray
    total: float


class Value(NamedTuple):
    """A number and a bound on its error."""

    value: float
    error: float


@dataclass
class Quadratic:
    """A quadratic program over points, each of which may occur in several coordinates."""

    kernel: Kernel
    factor: float  # of G: 2 for balls
    sign: np.ndarray  # of a coordinate in G
    point: np.ndarray  # index of its point
    ridge: np.ndarray
    linear: np.ndarray
    linear_error: np.ndarray
    upper: np.ndarray
    groups: list[Group]
    constant: float = 0.0
    radius: tuple[str, float] | None = None  # of a ball in place of bounds and groups
    kept: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    known: float = -np.inf  # a lower bound known in advance
    is_hinge: bool = False
    rows: tuple[np.ndarray, np.ndarray] | None = None  # A and b of |Ax - b|^2 / 2

    def product(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return G x, and bounds on the errors of its entries."""
        x = np.asarray(x, dtype=np.longdouble)
        weights = np.zeros(len(self.kernel.K), np.longdouble)
        np.add.at(weights, self.point, self.sign * x)
        size = np.zeros_like(weights)
        np.add.at(size, self.point, np.abs(x))
        h = self.factor * self.sign * (self.kernel.K @ weights)[self.point]
        error = self.factor * self.kernel.error_of_product(size)[self.point]
        return h[: len(x)], error[: len(x)]

    def value(self, x: np.ndarray) -> Value:
        """Return the value of x with a bound on its error."""
        x = np.asarray(x, dtype=np.longdouble)
        if self.rows is not None:
            A, b = self.rows
            r = A @ x - b
            error = (len(x) + 4) * EPS * (np.abs(A) @ np.abs(x) + np.abs(b))
            return Value(float(0.5 * (r @ r)), _up(np.abs(r) @ error + error @ error))
        h, error = self.product(x)
        found = 0.5 * (x @ h) + 0.5 * (self.ridge @ (x * x)) + self.linear @ x + self.constant
        size = np.abs(x) @ np.abs(h) + self.ridge @ (x * x) + np.abs(self.linear) @ np.abs(x)
        rounding = (len(x) + 8) * EPS * (size + abs(self.constant))
        loss = 0.5 * (error @ np.abs(x)) + self.linear_error @ np.abs(x) + rounding
        return Value(float(found), _up(loss))

    def violation(self, x: np.ndarray) -> float:
        """Return the largest violation of a constraint."""
        x = np.asarray(x, dtype=np.longdouble)
        if self.radius is not None:
            size = np.abs(x).sum() if self.radius[0] == "l1" else np.sqrt((x * x).sum())
            return float(max(size - self.radius[1], 0.0))
        worst = max(float((-x).max()), float((x - self.upper).max()), 0.0)
        for group in self.groups:
            worst = max(worst, float(abs((group.sign * x[group.where]).sum() - group.total)))
        return worst

    def price_of_rounding(self, x: np.ndarray) -> float:
        """Return how far the value at x is below that of K + s I, s = 8 eps |K|_F, for a matrix as given.

        The bounds are those of K + s I: negative eigenvalues within the rounding of K count as 0.
        """
        K, weights = self.kernel.K, np.zeros(len(self.kernel.K), np.longdouble)
        np.add.at(weights, self.point[: len(x)], (self.sign * x)[: len(x)])
        return float(4.0 * EPS64 * self.factor * np.sqrt((K * K).sum()) * (weights @ weights))

    def price_of_violation(self, x: np.ndarray) -> float:
        """Return about how much the value may fall short of that of a feasible point beside x."""
        x = np.asarray(x, dtype=np.longdouble)
        g = self.product(x)[0] + self.linear + self.ridge * x
        outside = np.maximum(-x, 0.0) + np.maximum(x - self.upper, 0.0)
        price = float(np.abs(g) @ outside) if self.radius is None else 0.0
        for group in self.groups:
            missed = abs((group.sign * x[group.where]).sum() - group.total)
            price += float(missed * np.abs(g[group.where]).max(initial=0.0))
        if self.radius is not None:
            price = self.violation(x) * float(np.sqrt((g * g).sum()))
        return 4.0 * price

    def lower(self, x: np.ndarray) -> float:
        """Return a lower bound of the optimal value that x proves; rounding errors are subtracted."""
        x = np.asarray(x, dtype=np.longdouble)
        h, error = self.product(x)
        half = 0.5 * (x @ h)
        lost = 0.5 * float(error @ np.abs(x)) + (len(x) + 8) * EPS * float(np.abs(x) @ np.abs(h))
        g = h + self.linear - error - self.linear_error
        if self.radius is not None:
            largest = np.abs(g).max() if self.radius[0] == "l1" else np.sqrt((g * g).sum())
            least = -float(largest) * self.radius[1]
            lost += float(np.abs(error).sum()) * self.radius[1]
        else:
            least = self._least(g)
        least *= 1.0 + np.sign(-least) * 64 * EPS * len(x)
        found = least - float(half) - lost + self.constant - 4 * EPS * abs(self.constant)
        if self.is_hinge:
            found = max(found, self._stretched(x, h, error, float(half), lost))
        return max(found, self.known)

    def _stretched(self, x: Any, h: Any, error: Any, half: float, lost: float) -> float:
        """Return minus the value of w, stretched until no margin is below 1; -inf where it cannot be."""
        margins = h - error
        if self.groups:
            ends = [margins[self.sign == s].min(initial=np.inf) for s in (1.0, -1.0)]
            least = 0.5 * (float(ends[0]) + float(ends[1]))
        else:
            least = float(margins.min(initial=np.inf))
        if not 0.0 < least < np.inf:
            return 0.0 if least == np.inf else -np.inf
        with np.errstate(over="ignore"):  # in extended precision the square of least stays above 0
            return -float((half + lost) / np.longdouble(least) ** 2 * (1.0 + 1e-17))

    def _least(self, g: np.ndarray) -> float:
        """Return a lower bound of min g'a + 1/2 a'Da over the domain."""
        free = np.ones(len(g), bool)
        total = 0.0
        for group in self.groups:
            free[group.where] = False
            total += self._least_of_group(g[group.where], group)
        return total + float(self._terms(g[free], free).sum())

    def _terms(self, g: np.ndarray, where: Any) -> np.ndarray:
        """Return min g a + d/2 a^2 where 0 <= a <= u, coordinate by coordinate."""
        upper, d = self.upper[where], self.ridge[where]
        down = np.maximum(-g, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = np.where(d > 0, np.minimum(down / np.where(d > 0, d, 1.0), upper), upper)
            terms = np.where(down > 0, -down * a + 0.5 * np.where(d > 0, d * a * a, 0.0), 0.0)
        return terms

    def _least_of_group(self, g: np.ndarray, group: Group) -> float:
        """Return the maximum over the multiplier rho of rho t + sum of terms; any rho gives a bound."""
        s, where = group.sign, group.where
        kinks = np.sort(np.unique(g * s))
        spread = kinks[-1] - kinks[0]
        low, high = kinks[0] - spread, kinks[-1] + spread
        infinite = np.isinf(self.upper[where]) & (self.ridge[where] == 0)
        if infinite.any():
            high = min(high, (g[infinite & (s > 0)]).min(initial=np.inf))
            low = max(low, (-g[infinite & (s < 0)]).max(initial=-np.inf))
            if low > high:
                return -np.inf
        soft = self.ridge[where] > 0
        if soft.any():  # a single coordinate may take the whole weight
            assert s.min() > 0, "ridges are on simplices alone"
            hard = g[infinite].min(initial=np.inf)
            high = min(hard, (g + self.ridge[where] * group.total)[soft].min())
        ends = low, high
        for _ in range(N_BISECTIONS):
            rho = 0.5 * (low + high)
            if self._mass(g - rho * s, where, s) < group.total:
                low = rho
            else:
                high = rho
        at = int(np.searchsorted(kinks, rho))
        near = kinks[max(at - 3, 0) : at + 3]
        near = near[(near >= ends[0]) & (near <= ends[1])]
        best = -np.inf
        for rho in (low, high, *near, *ends):
            if np.isfinite(rho):
                best = max(best, float(rho * group.total + self._terms(g - rho * s, where).sum()))
        return best

    def _mass(self, g: np.ndarray, where: Any, s: np.ndarray) -> float:
        """Return s'a of the minimizing a."""
        upper, d = self.upper[where], self.ridge[where]
        down = np.maximum(-g, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = np.where(d > 0, np.minimum(down / np.where(d > 0, d, 1.0), upper), upper)
            return float((s * np.where(down > 0, a, 0.0)).sum())


def _up(value: Any) -> float:
    return float(value) * (1.0 + 1e-15)


def translated(problem: Problem) -> bool:
    """Return whether the problem stays the same when all points of a linear kernel move."""
    if problem.family in ("meb", "svdd", "polytope_distance", "nu_svc", "nu_svr"):
        return True
    return problem.family not in ("l2_svm", "l2_svr", "one_class") and problem.parameters.get(
        "bias", False
    )


def penalties(problem: Problem) -> np.ndarray:
    """Return the penalties of all points."""
    C = np.asarray(problem.parameters["C"], dtype=np.float64)
    return np.broadcast_to(C, problem.m).astype(np.longdouble)


def quadratic_of(problem: Problem, family: str = "") -> Quadratic:
    """Return the program of a dual family, or of the dual of `hinge_primal`."""
    family, given = family or problem.family, problem.parameters
    if family in ("quadratic_program", "least_squares"):
        return _general(problem)
    m = problem.m
    kernel = matrix_of(problem.kernel, problem.settings, problem.X, translated(problem))
    ones, zeros = np.ones(m, np.longdouble), np.zeros(m, np.longdouble)
    every, infinite = np.arange(m), np.full(m, np.inf, np.longdouble)
    kept = np.ones(m, bool)
    y = np.asarray(given.get("y", ones), dtype=np.longdouble)
    if "sample_weight" in given:
        kept = given["sample_weight"] > 0
    elif "C" in given:
        kept = np.asarray(penalties(problem) > 0)
    rows, whole = np.flatnonzero(kept), not kept.all()

    def taken(program: Quadratic) -> Quadratic:
        program.kept = kept
        return program

    if whole:
        kernel = Kernel(kernel.K[np.ix_(rows, rows)], kernel.unit, kernel.size[rows])
        y, ones, zeros, infinite = y[rows], ones[rows], zeros[rows], infinite[rows]
        every = np.arange(len(rows))
    n = len(rows)
    if family in ("meb", "svdd"):
        upper = infinite if family == "meb" else penalties(problem)[rows]
        diagonal = np.diagonal(kernel.K).copy()
        error = kernel.unit + kernel.size**2
        group = [Group(every, ones, 1.0)]
        return taken(Quadratic(
            kernel, 2.0, ones, every, zeros, -diagonal, error, upper, group
        ))  # fmt: skip
    if family == "l2_svm":
        plus = 1.0 if given["bias"] else 0.0
        kernel = kernel._replace(K=kernel.K + plus, unit=kernel.unit + plus * 2 * EPS)
        ridge = 1.0 / penalties(problem)[rows]
        group = [Group(every, ones, 1.0)]
        least = 0.5 / float((1.0 / ridge).sum()) if ridge.all() else 0.0  # of the ridge alone
        return taken(Quadratic(
            kernel, 1.0, y, every, ridge, zeros, zeros, infinite, group, known=least
        ))  # fmt: skip
    if family == "polytope_distance":
        chi = given["chi"]
        ridge = zeros if chi is None else zeros + 1.0 / np.longdouble(chi)
        groups = [Group(np.flatnonzero(y == s), ones[y == s], 1.0) for s in (1.0, -1.0)]
        least = sum(0.5 * float(ridge[0]) / len(group.where) for group in groups)
        return taken(Quadratic(
            kernel, 1.0, y, every, ridge, zeros, zeros, infinite, groups, known=least * (1 - 1e-15)
        ))  # fmt: skip
    if family in ("one_class", "nu_svc"):
        w = np.asarray(given.get("sample_weight", np.ones(m)), dtype=np.longdouble)[rows]
        share = 1.0 if family == "one_class" else 2.0
        upper = share * w / w.sum() / np.longdouble(given["nu"])
        if family == "one_class":
            y, groups = ones, [Group(every, ones, 1.0)]
        else:
            groups = [Group(np.flatnonzero(y == s), ones[y == s], 1.0) for s in (1.0, -1.0)]
        return taken(Quadratic(
            kernel, 1.0, y, every, zeros, zeros, zeros, upper, groups, known=0.0
        ))  # fmt: skip
    C = penalties(problem)[rows]
    if family in ("hinge", "hinge_primal"):
        groups = [Group(every, y, 0.0)] if given["bias"] else []
        return taken(Quadratic(
            kernel, 1.0, y, every, zeros, -ones, zeros, C, groups, is_hinge=True
        ))  # fmt: skip
    assert family in ("svr", "nu_svr", "l2_svr")
    both, sign = np.tile(every, 2), np.repeat([1.0, -1.0], n).astype(np.longdouble)
    level = 0.0
    if translated(problem):
        level = 0.5 * (y.min() + y.max())
    linear = -sign * np.tile(y - level, 2)
    if family != "nu_svr":
        linear = linear + np.longdouble(given["epsilon"])
        groups = [Group(np.arange(2 * n), sign, 0.0)] if translated(problem) else []
    else:
        total = 0.5 * np.longdouble(given["nu"]) * C.sum()
        groups = [
            Group(np.arange(n) + part, ones, total) for part in (0, n)
        ]  # fmt: skip
    error = 4 * EPS * np.abs(linear)
    ridge, upper = np.zeros(2 * n, np.longdouble), np.tile(C, 2)
    if family == "l2_svr":
        plus = 1.0 if given["bias"] else 0.0
        kernel = kernel._replace(K=kernel.K + plus, unit=kernel.unit + plus * 2 * EPS)
        ridge, upper = np.tile(1.0 / C, 2), np.full(2 * n, np.inf, np.longdouble)
    return taken(Quadratic(
        kernel, 1.0, sign, both, ridge, linear, error, upper, groups
    ))  # fmt: skip


def _general(problem: Problem) -> Quadratic:
    A = np.asarray(problem.X, dtype=np.longdouble)
    m = problem.m
    ones, zeros = np.ones(m, np.longdouble), np.zeros(m, np.longdouble)
    if problem.family == "least_squares":
        b = np.asarray(problem.parameters["b"], dtype=np.longdouble)
        kernel = Kernel(A.T @ A, 0.0, np.sqrt((A * A).sum(axis=0)) * np.sqrt((len(A) + 4) * EPS))
        linear, constant, known = -(A.T @ b), 0.5 * (b @ b), 0.0
        error = (len(A) + 4) * EPS * (np.abs(A).T @ np.abs(b))
    else:
        kernel = Kernel(A, 0.0, zeros)
        linear = np.asarray(problem.parameters["c"], dtype=np.longdouble)
        constant, known, error = 0.0, -np.inf, zeros
    groups = [Group(np.arange(m), ones, 1.0)] if problem.domain == "simplex" else []
    upper = ones if problem.domain == "hypercube" else np.full(m, np.inf, np.longdouble)
    radius = {"l1_ball": ("l1", 2.0), "l2_ball": ("l2", 1.5)}.get(problem.domain)
    program = Quadratic(
        kernel, 1.0, ones, np.arange(m), zeros, linear, error, upper, groups, float(constant),
        radius, np.ones(m, bool), known,
    )  # fmt: skip
    if problem.family == "least_squares":
        program.rows = A, b
    return program
