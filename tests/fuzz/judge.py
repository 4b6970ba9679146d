"""What docs/certificate.md and docs/statuses.md promise of an answer, checked from the raw data.

Of every answer: the bounds enclose the optimum, `upper` is the value of x, x is feasible, the
certificate agrees with itself, the model predicts what it stores. Of OPTIMAL: the gap is within the
tolerance. A statement that the judge can neither prove nor refute is counted as open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz import rational
from tests.fuzz.candidates import LARGEST_FOR_CLARABEL, clarabel_point
from tests.fuzz.kernels import EPS, EPS64, is_psd, matrix_of
from tests.fuzz.primal import linear_machine, machine_of
from tests.fuzz.problem import GENERAL_FAMILIES, PRIMAL_FAMILIES, TUBE_FAMILIES, Problem
from tests.fuzz.quadratic import Quadratic, quadratic_of, translated

MAX_VIOLATION = 1e-12
"""Violation of a constraint that counts as rounding, relative to the size of the variable, at least 1."""

MAX_FLOOR = 1e-13
"""Largest floor of the absolute test, relative to the diagonal, beyond four times the roundoff."""

LARGEST_SHARE_OF_ZERO = 2.0**-20
"""Share of the largest value that an answer may call zero."""


@dataclass
class Verdict:
    """What the judge found of one answer.

    `error` is a bound of the relative distance from the optimum that the judge proves itself;
    `enclosed` and `optimal` are True where proved, False where refuted and None where open.
    """

    failures: list[tuple[str, str]] = field(default_factory=list)
    error: float = np.inf
    enclosed: bool | None = None
    optimal: bool | None = None
    feasible: bool = True

    def fail(self, kind: str, message: str) -> None:
        """Note a broken promise."""
        self.failures.append((kind, message))


def judge(problem: Problem, result: Any) -> Verdict:
    """Return the verdict on a result of the library."""
    verdict = Verdict()
    _certificate(problem, result, verdict)
    if result.status.name == "NONCONVEX":
        if is_psd(problem.kernel, problem.settings) and problem.family not in GENERAL_FAMILIES:
            verdict.fail("status", f"NONCONVEX on the kernel {problem.kernel}")
        if problem.kernel == "precomputed" and problem.X.dtype == np.float32:
            K = problem.X.astype(np.float64)
            least, largest = np.linalg.eigvalsh(K)[0], float(np.diagonal(K).max(initial=0.0))
            if least >= -0.5 * float(np.finfo(np.float32).eps) * largest:
                verdict.fail("status", f"NONCONVEX of a K with the least eigenvalue {least:.3g}")
        if np.isfinite(result.certificate.lower):
            verdict.fail("bounds", "NONCONVEX with a lower bound")
    if result.certificate.lower == -np.inf:
        verdict.enclosed = True
    if result.status.name == "INFEASIBLE":
        _direction(problem, result, verdict)
    with np.errstate(over="ignore", under="ignore"):
        if problem.family in PRIMAL_FAMILIES:
            _primal(problem, result, verdict)
        else:
            _dual(problem, result, verdict)
        _predictions(problem, result, verdict)
    return verdict


def _certificate(problem: Problem, result: Any, verdict: Verdict) -> None:
    """Check that the certificate agrees with itself."""
    c = result.certificate
    numbers = [c.upper, c.lower, c.gap, c.violation, c.roundoff, c.floor]
    if np.isnan(numbers).any():
        verdict.fail("certificate", f"NaN in {c}")
    if not np.isfinite(result.x).all():
        verdict.fail("certificate", f"x is not finite, status {result.status.name}")
    if c.gap < c.roundoff or c.lower > c.upper:
        verdict.fail("certificate", f"gap {c.gap} below roundoff, or lower above upper: {c}")
    if c.gap < (c.upper - c.lower) * (1 - 4 * EPS64) - c.roundoff and np.isfinite(c.gap):
        verdict.fail("certificate", f"gap {c.gap} is below upper - lower {c.upper - c.lower}")
    relative = c.gap <= problem.tol * max(abs(c.upper), abs(c.lower)) < np.inf
    small = c.gap <= c.floor and min(abs(c.upper), abs(c.lower)) <= c.floor
    passed = {"relative": relative, "absolute": small, "none": not relative}.get(c.test, False)
    if not passed or (result.status.name == "OPTIMAL" and c.test == "none"):
        verdict.fail("certificate", f"status {result.status.name} by test {c.test!r}: {c}")


def _dual(problem: Problem, result: Any, verdict: Verdict) -> None:
    program = quadratic_of(problem)
    x = taken(problem, program, result.x)
    if x is None:
        verdict.fail("infeasible", "a point of weight 0 has a weight")
        return
    if not np.isfinite(x).all():
        return
    c, size = result.certificate, max(1.0, float(np.abs(x).sum()))
    violation = program.violation(x)
    verdict.feasible = violation <= MAX_VIOLATION * size
    if not verdict.feasible:
        verdict.fail("infeasible", f"violation {violation:.3g} of weights of sum {size:.3g}")
    if violation > c.violation + 1e-14 * size:
        verdict.fail("infeasible", f"violation {violation:.3g}; stated are {c.violation:.3g}")
    f = program.value(x)
    error = f.error + program.price_of_violation(x)
    _value(f.value, error, c, verdict)
    low, high = program.lower(x), max(f.value + error, program.known)
    if result.status.name == "NONCONVEX" or not np.isfinite(f.value):
        return
    if program.radius is None and problem.m <= LARGEST_FOR_CLARABEL:
        z = clarabel_point(program)
        if z is not None:
            other = program.value(z)
            price = program.price_of_violation(z)
            if problem.kernel == "precomputed":
                price += program.price_of_rounding(z)
            high = min(high, other.value + other.error + price)
            low = max(low, program.lower(z))
    if rational.fits(problem):
        exact = float(rational.value(problem, program, x))
        if abs(exact - f.value) > 1e-9 * abs(exact) + 2 * error:
            raise AssertionError(f"the judges disagree: {exact!r} and {f}")
    if problem.kernel == "linear" and problem.family in ("hinge", "meb", *TUBE_FAMILIES):
        low = max(low, _stored(problem, result, verdict))
    _bounds(problem, result, verdict, f.value, error, low, high)


def taken(problem: Problem, program: Quadratic, x: Any) -> Any:
    """Return the weights of the points in the solve; None where another point has one."""
    kept = program.kept
    kept = np.tile(kept, 2) if problem.family in TUBE_FAMILIES else kept
    return None if x[~kept].any() else x[kept]


def _value(value: float, error: float, c: Any, verdict: Verdict) -> None:
    """Check that upper is the value of the answer up to roundoff."""
    if np.isfinite(value) and not abs(c.upper - value) <= c.roundoff + error + 1e-300:
        verdict.fail(
            "value", f"upper {c.upper!r}, the value is {value!r} +- {error:.2g}, {c.roundoff=:.2g}"
        )


def _bounds(
    problem: Problem, result: Any, verdict: Verdict, value: float, error: float, low: float,
    high: float,
) -> None:  # fmt: skip
    """Compare the certificate with what the judge knows: low <= optimum <= high."""
    c = result.certificate
    scale = max(abs(c.upper), abs(c.lower))
    slack = 8 * EPS64 * min(abs(high), abs(c.lower)) if np.isfinite(c.lower) else 0.0
    if c.lower > high + slack:
        verdict.enclosed = False
        verdict.fail("bounds", f"lower {c.lower!r} is above the optimum, at most {high!r}")
    elif low - slack <= value + error:
        verdict.enclosed = True if c.lower <= low + slack + 2 * error else None
    if value - error - high > c.gap + slack:
        verdict.enclosed = False
        verdict.fail("gap", f"the value exceeds the optimum by {value - high:.3g}: {c}")
    distance = max(value + error - low, 0.0)
    known = max(abs(value), abs(low))
    verdict.error = 0.0 if distance == 0.0 else distance / known if 0 < known < np.inf else np.inf
    if result.status.name != "OPTIMAL":
        return
    allowed = problem.tol * scale + 2 * error + slack
    if c.test == "absolute":
        allowed = c.floor + 2 * error
        weight = float(np.abs(result.x).sum())
        diagonal = float(np.abs(problem.X.astype(np.longdouble)).max() ** 2) * problem.X.shape[1]
        if problem.kernel not in ("linear", "polynomial") or problem.family in GENERAL_FAMILIES:
            diagonal = np.inf  # another scale
        eps = float(np.finfo(problem.X.dtype).eps)
        limit = max(4 * c.roundoff, 64 * problem.m * eps * diagonal * max(weight, 1.0) ** 2)
        if problem.kernel in ("rbf", "laplacian"):  # values are at most 1, of a ball twice that
            limit = LARGEST_SHARE_OF_ZERO * 2.0 * max(weight, 1.0) ** 2
        is_limited = problem.kernel in ("linear", "rbf", "laplacian")
        if is_limited and c.floor > limit * (1 + 1e-9):
            verdict.fail("certificate", f"floor {c.floor:.3g} exceeds {limit:.3g}")
    if value - error - high > allowed:
        verdict.optimal = False
        verdict.fail("optimal", f"OPTIMAL at {value!r}, the optimum is at most {high!r}: {c}")
    else:
        verdict.optimal = True if distance <= allowed else None


def _direction(problem: Problem, result: Any, verdict: Verdict) -> None:
    """Check the proof that no hyperplane separates the classes."""
    program = quadratic_of(problem, "hinge")
    y, a = program.sign, np.asarray(result.direction, dtype=np.longdouble)[program.kept]
    bias = problem.parameters["bias"]
    sums = [a[y > 0].sum(), a[y < 0].sum()] if bias else [a.sum()]
    square = float(a @ program.product(a)[0])
    size = float(np.diagonal(program.kernel.K).max())
    eps = float(np.finfo(problem.X.dtype).eps)
    if a.min() < 0 or max(abs(float(total) - 1.0) for total in sums) > 1e-12:
        verdict.fail("direction", f"weights from {float(a.min()):.3g}, sums {sums}")
    X = np.asarray(problem.X, dtype=np.longdouble)
    far = float((X * X).sum(axis=1).max()) if problem.kernel == "linear" else size
    if problem.kernel == "rbf":  # squared distances are computed from norms of centered points
        size += 0.25 * problem.settings["gamma"] * float(((X - X.mean(axis=0)) ** 2).sum(1).max())
    if square > 64 * eps * size + (16 * eps) ** 2 * far + 64 * program.value(a).error:
        verdict.fail("direction", f"the common point is {square:.3g} off, of size {size:.3g}")


def _primal(problem: Problem, result: Any, verdict: Verdict) -> None:
    machine = machine_of(problem)
    v, b = machine.split(result.x)
    c = result.certificate
    if not np.isfinite(result.x).all() or result.status.name == "NONCONVEX":
        return
    f = machine.value(v, b)
    is_hard = bool(np.isinf(machine.C).any())
    if np.isfinite(f.value) and np.isfinite(c.upper):
        # of coefficients that a dual weighs, the bound of the dual's w may be a little above
        spare = c.gap if problem.family == "hinge_primal" else 0.0
        if not -f.error - c.roundoff <= c.upper - f.value <= c.roundoff + f.error + spare:
            verdict.fail("value", f"upper {c.upper!r}, the objective is {f.value!r}: {c}")
    elif is_hard and np.isfinite(c.upper):
        verdict.fail("value", f"upper is {c.upper!r}, but a hard margin is violated")
    a = result.dual
    if problem.family != "ls_svm":
        outside = float(np.maximum(-a, 0).max() + np.maximum(a - np.asarray(machine.C), 0).max())
        verdict.feasible = outside <= MAX_VIOLATION * max(1.0, float(np.abs(a).sum()))
        if not verdict.feasible:
            verdict.fail("infeasible", f"dual weights leave their bounds by {outside:.3g}")
    if is_hard and not np.isfinite(f.value):
        return
    low, high = machine.lower(a), f.value + f.error
    if problem.family == "hinge_primal":
        program = quadratic_of(problem)
        own = program.value(taken_dual(program, a))
        low = max(low, -own.value - own.error - program.price_of_violation(taken_dual(program, a)))
        if problem.m <= LARGEST_FOR_CLARABEL:
            z = clarabel_point(program)
            if z is not None:
                other = program.value(z)
                low = max(low, -other.value - other.error - program.price_of_violation(z))
                high = min(high, -program.lower(z))
    elif problem.family == "ls_svm" and problem.m <= LARGEST_FOR_CLARABEL:
        for other in _least_squares(machine):
            found = machine.value(*other)
            high = min(high, found.value + found.error)
            q = 1.0 - machine.y * (machine.F @ other[0] + other[1])
            low = max(low, machine.lower(2 * machine.C * q))
    if result.status.name != "INFEASIBLE":
        _bounds(problem, result, verdict, f.value, f.error, low, high)


def taken_dual(program: Quadratic, a: Any) -> Any:
    """Return the dual weights of the points in the solve, clipped to their bounds."""
    return np.clip(np.asarray(a, dtype=np.longdouble)[program.kept], 0.0, program.upper)


def _least_squares(machine: Any) -> list[tuple[Any, Any]]:
    """Return a minimizer of the least-squares machine from a linear system in float64, refined once."""
    here = machine.C > 0
    F, y, C = (
        np.asarray(part[here], dtype=np.float64) for part in (machine.F, machine.y, machine.C)
    )
    G = F[:, np.asarray(here)] if machine.penalty == "gram" else F @ F.T
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = np.outer(y, y) * G + np.diag(0.5 / C)
    right = np.append(np.ones(n), 0.0)
    if machine.bias:
        system[:n, n] = system[n, :n] = y
    else:
        system[n, n] = 1.0
    if not np.isfinite(system).all():
        return []
    try:
        found = np.linalg.lstsq(system, right, rcond=None)[0]
    except np.linalg.LinAlgError:
        return []
    s = np.zeros(len(machine.y), np.longdouble)
    s[here] = y * found[:n]
    v = s if machine.penalty == "gram" else machine.F.T @ s
    return [(v, np.longdouble(found[n] if machine.bias else 0.0))]


def _stored(problem: Problem, result: Any, verdict: Verdict) -> float:
    """Check that -lower is no less than the objective of the primal point that the model stores.

    Minus this objective is a lower bound, which is returned.
    """
    c, model = result.certificate, result.model
    if not np.isfinite(c.lower) or result.status.name in ("INFEASIBLE", "NONCONVEX"):
        return -np.inf
    if problem.family == "meb":
        if not is_sparse(problem):
            center = np.asarray(model.center, dtype=np.longdouble)
            away = ((np.asarray(problem.X, dtype=np.longdouble) - center) ** 2).sum(axis=1).max()
            if float(away) > -c.lower * (1 + 16 * EPS64) + c.roundoff * EPS64:
                verdict.fail("stored", f"a point at {float(away)!r}, the ball has {-c.lower!r}")
        return -np.inf
    if problem.family == "hinge" and model.separable is not True:
        return -np.inf
    machine = linear_machine(problem)
    w = np.asarray(model.w, dtype=np.longdouble)
    b = np.longdouble(model.b)
    if problem.family == "nu_svr":
        machine.epsilon = float(model.epsilon)
    f = machine.value(w, machine.at_origin(w, b))
    value = f.value
    if problem.family == "nu_svr":
        value += float(problem.parameters["nu"] * machine.C.sum() * machine.epsilon)
    if np.isinf(machine.C).any() and not np.isfinite(value):
        f32 = machine.F @ w + machine.at_origin(w, b)
        short = float((1.0 - machine.y * f32)[machine.C > 0].max())
        if short > 1e-9:
            verdict.fail("stored", f"a hard margin is short by {short:.3g}")
        return -np.inf
    if value - f.error > -c.lower * (1 + np.sign(-c.lower) * 16 * EPS64) + 1e-300:
        verdict.fail("stored", f"the model's objective is {value!r}, -lower is {-c.lower!r}")
    return -value - f.error


def _predictions(problem: Problem, result: Any, verdict: Verdict) -> None:
    """Check that the model's values at its points are those of what it stores."""
    model, family = result.model, problem.family
    if family in (*GENERAL_FAMILIES, "meb", "svdd"):
        return
    rows = np.unique(np.linspace(0, problem.m - 1, 12).astype(int))
    Z = problem.X[rows]
    call = model.predict if family in TUBE_FAMILIES else model.decision_function
    found = np.asarray(call(Z), dtype=np.longdouble)
    b = -model.rho if family == "one_class" else model.b
    if (problem.kernel == "linear" and family != "lp_svm") or problem.takes_points:
        X = np.asarray(problem.X, dtype=np.longdouble)
        w = np.asarray(model.w, dtype=np.longdouble)
        is_moved = translated(problem) and not is_sparse(problem)
        origin = X.mean(axis=0) if is_moved else np.zeros(X.shape[1])
        own = X[rows] @ w + b
        size = np.abs(X[rows] - origin) @ np.abs(w) + abs(origin @ w + b)
        if not translated(problem):  # the library may measure from the mean
            size = size + np.abs(X[rows] - X.mean(axis=0)) @ np.abs(w)
        error = 32 * (X.shape[1] + 8) * EPS64 * size
        error = error + (X.shape[1] + 8) * EPS * (np.abs(X[rows]) @ np.abs(w) + abs(b))
    else:
        parts = _expansions(model)
        own, error = np.full(len(rows), np.longdouble(b)), np.full(len(rows), 64 * EPS64 * abs(b))
        X = np.asarray(problem.X, dtype=np.longdouble)
        for sign, expansion in parts:
            at, coef = expansion.indices, np.asarray(expansion.coef, dtype=np.longdouble)
            if problem.kernel == "precomputed":
                K = X[np.ix_(rows, at)]
                size = np.abs(K)
            else:
                kernel = matrix_of(problem.kernel, problem.settings, problem.X, False, Z)
                K, size = kernel.K[:, at], _size_of_value(problem, rows, at, kernel.K[:, at])
            own = own + sign * (K @ coef)
            error = error + 64 * (len(at) + X.shape[1] + 8) * EPS64 * (size @ np.abs(coef))
    wrong = np.abs(found - own) > error + 1e-300
    if np.isfinite(own).all() and wrong.any():
        i = int(np.argmax(np.abs(found - own) - error))
        verdict.fail(
            "prediction", f"{float(found[i])!r} at point {rows[i]}, the model is {float(own[i])!r} "
            f"+- {float(error[i]):.2g}",
        )  # fmt: skip


def is_sparse(problem: Problem) -> bool:
    """Return whether points were handed over as a sparse matrix, which is not moved to its mean."""
    return "CS" in problem.storage


def _expansions(model: Any) -> list[tuple[float, Any]]:
    if hasattr(model, "u"):
        return [(1.0, model.u), (-1.0, model.v)]
    return [(1.0, model.expansion)]


def _size_of_value(problem: Problem, rows: Any, at: Any, K: np.ndarray) -> np.ndarray:
    """Return the size of the numbers from which float64 computes a kernel value."""
    X = np.asarray(problem.X, dtype=np.longdouble)
    if problem.kernel in ("rbf", "laplacian"):
        centered = X if is_sparse(problem) else X - X.mean(axis=0)
        gamma = problem.settings["gamma"]
        square = (centered * centered).sum(axis=1)
        if problem.kernel == "laplacian":
            square = np.abs(centered).sum(axis=1)
        return K * (1.0 + gamma * (square[rows][:, None] + square[at]))
    lengths = np.sqrt((X * X).sum(axis=1))
    products = lengths[rows][:, None] * lengths[at]
    if problem.kernel == "linear":  # the library may measure from the mean
        middle = X.mean(axis=0)
        return (lengths[rows] + np.sqrt(middle @ middle))[:, None] * lengths[at]
    if problem.kernel == "custom":
        return (1.0 + products) ** 2
    inner = problem.settings["gamma"] * products + abs(problem.settings["coef0"])
    if problem.kernel == "sigmoid":
        return np.maximum(inner, 1.0)
    return inner ** int(problem.settings["degree"])
