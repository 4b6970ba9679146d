"""Other solvers on the same problems, judged in the same way: ``python -m tests.fuzz.peers``.

Clarabel, OSQP, PIQP and SCS get the quadratic program that the judge forms, in float64;
scikit-learn, which is LIBSVM inside, gets the points. Each is asked for the tolerance of the problem.
Their points are moved into the domain before they are judged, which is in their favor. An answer
counts as true where its distance from the optimum, relative to the value, is proved to be at most
that tolerance beyond the judge's own error, as false where a feasible point is better by more.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tests.fuzz.campaign import handed_over
from tests.fuzz.candidates import LARGEST_FOR_CLARABEL, clarabel_point, repaired
from tests.fuzz.judge import taken
from tests.fuzz.kernels import is_psd
from tests.fuzz.problem import DUAL_FAMILIES, Problem
from tests.fuzz.quadratic import Quadratic, quadratic_of
from tests.fuzz.random_problems.generator import problems_of_seed

MAX_ITERATIONS = 20_000
"""Iterations that the first-order methods are given; at its default OSQP has 4,000."""

PEER_SECONDS = 5.0
"""Seconds that each solver is given, where it has such a limit."""

Answer = tuple[bool, Any]
"""Whether a solver said that it had solved the problem, and its point."""


def matrices(program: Quadratic) -> tuple[Any, ...]:
    """Return P, q, A, t, upper of min x'Px/2 + q'x, Ax = t, 0 <= x <= upper."""
    at = program.point
    G = program.factor * np.outer(program.sign, program.sign) * program.kernel.K[np.ix_(at, at)]
    P = (G + np.diag(program.ridge)).astype(np.float64)
    A = np.zeros((len(program.groups), len(at)))
    for row, group in zip(A, program.groups, strict=True):
        row[group.where] = group.sign
    t = np.array([float(group.total) for group in program.groups])
    return P, program.linear.astype(np.float64), A, t, program.upper.astype(np.float64)


def by_clarabel(program: Quadratic, tol: float) -> Answer:
    import clarabel

    P, q, A, t, upper = matrices(program)
    n, bounded = len(q), np.isfinite(upper)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, PEER_SECONDS
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, tol)
    rows = sp.csc_matrix(np.vstack([A, -np.eye(n), np.eye(n)[bounded]]))
    right = np.concatenate([t, np.zeros(n), upper[bounded]])
    cones = [clarabel.ZeroConeT(len(t))] if len(t) else []
    cones.append(clarabel.NonnegativeConeT(n + int(bounded.sum())))
    found = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(P)), q, rows, right, cones, settings
    ).solve()
    return str(found.status) == "Solved", np.array(found.x)


def by_osqp(program: Quadratic, tol: float) -> Answer:
    import osqp

    P, q, A, t, upper = matrices(program)
    rows = sp.csc_matrix(np.vstack([A, np.eye(len(q))]))
    solver = osqp.OSQP()
    solver.setup(
        sp.csc_matrix(np.triu(P)), q, rows, np.append(t, np.zeros(len(q))), np.append(t, upper),
        verbose=False, eps_abs=tol, eps_rel=tol, max_iter=MAX_ITERATIONS, polishing=True,
        time_limit=PEER_SECONDS,
    )  # fmt: skip
    found = solver.solve(raise_error=False)
    return found.info.status == "solved", np.asarray(found.x)


def by_piqp(program: Quadratic, tol: float) -> Answer:
    import piqp

    P, q, A, t, upper = matrices(program)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = tol
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = tol
    solver.setup(P, q, A, t, None, None, None, np.zeros(len(q)), upper)
    status = solver.solve()
    return status == piqp.PIQP_SOLVED, np.array(solver.result.x)


def by_scs(program: Quadratic, tol: float) -> Answer:
    import scs

    P, q, A, t, upper = matrices(program)
    n, bounded = len(q), np.isfinite(upper)
    rows = sp.csc_matrix(np.vstack([A, -np.eye(n), np.eye(n)[bounded]]))
    right = np.concatenate([t, np.zeros(n), upper[bounded]])
    data = {"P": sp.csc_matrix(np.triu(P)), "A": rows, "b": right, "c": q}
    found = scs.SCS(
        data, {"z": len(t), "l": n + int(bounded.sum())}, verbose=False, eps_abs=tol, eps_rel=tol,
        max_iters=MAX_ITERATIONS, time_limit_secs=PEER_SECONDS,
    ).solve()  # fmt: skip
    return found["info"]["status"] == "solved", np.asarray(found["x"])


def by_sklearn(problem: Problem, program: Quadratic) -> Answer | None:
    """Return the answer of SVC, OneClassSVM, SVR, NuSVC or NuSVR; None of what they cannot state."""
    from sklearn import svm
    from sklearn.exceptions import ConvergenceWarning

    given, family = problem.parameters, problem.family
    kernels = {"linear": "linear", "rbf": "rbf", "polynomial": "poly", "precomputed": "precomputed"}
    if problem.kernel not in kernels or not program.kept.all() or not given.get("bias", True):
        return None
    common = {"kernel": kernels[problem.kernel], "tol": problem.tol, "max_iter": 10_000_000}
    common |= {name: value for name, value in problem.settings.items()}
    C = np.asarray(given.get("C", 1.0))
    if C.ndim or not np.isfinite(C) or "sample_weight" in given:
        return None
    X, m, y = problem.X.astype(np.float64), problem.m, given.get("y")
    if family == "hinge" and len(set(y)) == 2:
        fitted = svm.SVC(C=float(C), **common)
    elif family == "one_class":
        fitted = svm.OneClassSVM(nu=given["nu"], **common)
    elif family == "svr":
        fitted = svm.SVR(C=float(C), epsilon=given["epsilon"], **common)
    else:
        return None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted.fit(X) if y is None else fitted.fit(X, y)
    is_solved = not any(issubclass(one.category, ConvergenceWarning) for one in said)
    weights = np.zeros(m)
    weights[fitted.support_] = np.asarray(fitted.dual_coef_).ravel()
    if family == "one_class":
        return is_solved, weights / (given["nu"] * m)
    if family == "hinge":
        return is_solved, weights * y
    return is_solved, np.append(np.maximum(weights, 0.0), np.maximum(-weights, 0.0))


PEER_SOLVERS: dict[str, Callable[[Quadratic, float], Answer]] = {
    "Clarabel": by_clarabel, "OSQP": by_osqp, "PIQP": by_piqp, "SCS": by_scs,
}  # fmt: skip
"""Solvers of quadratic programs."""


def compared(problem: Problem, counts: dict[str, Counter[str]]) -> None:
    """Solve a problem by all and add to the counts of each."""
    import qpsvm

    if (
        problem.family not in DUAL_FAMILIES
        or problem.m > LARGEST_FOR_CLARABEL
        or not is_psd(problem.kernel, problem.settings)
    ):
        return
    try:
        declared, _ = handed_over(problem)
        qpsvm.solve(
            declared, tol=problem.tol, max_iter=1
        )  # compiles, which the limit of time counts
        result = qpsvm.solve(declared, tol=problem.tol, time_limit=PEER_SECONDS)
    except qpsvm.InputError:
        return
    program = quadratic_of(problem)
    answers: dict[str, Answer | None] = {}
    answers["qpsvm"] = result.converged, taken(problem, program, result.x)
    if result.status.name == "INFEASIBLE":
        return  # there is no optimum
    for name, solve in PEER_SOLVERS.items():
        answers[name] = _guarded(lambda solve=solve: solve(program, problem.tol))
    answers["scikit-learn"] = _guarded(lambda: by_sklearn(problem, program))
    points = {}
    for name, answer in answers.items():
        if answer is not None and answer[1] is not None and np.isfinite(answer[1]).all():
            points[name] = answer[1] if name == "qpsvm" else repaired(program, answer[1])
    best = clarabel_point(program)
    feasible = [x for x in (*points.values(), best) if x is not None]
    low = max((program.lower(x) for x in feasible), default=-np.inf)
    values = [(program.value(x), program.price_of_violation(x)) for x in feasible]
    high = min((v.value + v.error + price for v, price in values), default=np.inf)
    for name, answer in answers.items():
        if answer is None:
            continue
        counts[name]["asked"] += 1
        if not answer[0]:
            continue
        counts[name]["solved"] += 1
        x = points.get(name)
        if x is None:
            counts[name]["false"] += 1
            continue
        value = program.value(x)
        error = value.error + program.price_of_violation(x)
        allowed = problem.tol * max(abs(value.value), abs(low)) + 2 * error
        if name == "qpsvm" and result.certificate.test == "absolute":
            allowed = result.certificate.floor + 2 * error
        elif abs(value.value) <= 1e-14 * float(np.abs(np.diagonal(program.kernel.K)).max()):
            allowed = np.inf  # an optimum of zero: the same floor for all
        kind = "true" if value.value - low <= allowed else "open"
        counts[name]["false" if value.value - error - high > allowed else kind] += 1
        if name == "qpsvm" and kind != "true":
            print(f"{kind}: {problem.describe()}\n    {result.certificate} {low=} {high=}")


def _guarded(solve: Callable[[], Answer | None]) -> Answer | None:
    """Return an answer; an exception of a solver counts as a problem that it did not solve."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return solve()
        except Exception:
            return False, None


def main() -> None:
    """Compare, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.peers", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    by_tol: dict[str, dict[str, Counter[str]]] = {}
    begun, n = time.monotonic(), 0
    for problem in problems_of_seed(options.problems, options.seed, LARGEST_FOR_CLARABEL):
        names = ("qpsvm", *PEER_SOLVERS, "scikit-learn")
        own = by_tol.setdefault(f"{problem.tol:g}", {name: Counter() for name in names})
        compared(problem, own)
        n += 1
        if time.monotonic() - begun > options.seconds:
            break
    text = json.dumps({"problems": n, "seed": options.seed, "by_tol": by_tol}, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
