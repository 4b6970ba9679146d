"""The solving of random problems in a process of its own, which is ended where one hangs."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz.problem import GENERAL_FAMILIES, Problem, arrays_of, gram_of, stored

SECONDS_FOR_SOLVE = 1.0
"""Limit of time that each solve is given."""

SECONDS_OF_HANG = 60.0
"""Seconds after which a solve with that limit counts as one that hangs."""

SECONDS_TO_COMPILE = 240.0
"""Seconds that compilation may take before, where no compiled code is cached and other work runs."""

LENGTH_LIMITS = {"float32": 2.0**120, "float64": 2.0**500}
"""Squared lengths and kernel values from which the library may refuse points, by precision."""


@dataclass
class Outcome:
    """What became of one problem."""

    problem: Problem
    status: str = ""
    method: str = ""
    failures: list[tuple[str, str]] = field(default_factory=list)
    error: float = np.inf
    enclosed: bool | None = None
    optimal: bool | None = None
    feasible: bool = True
    seconds: float = 0.0
    solving: float = 0.0  # seconds of the two solves, without compilation and judge
    repeated: bool | None = None  # whether a second call gave the same bits

    @property
    def kinds(self) -> set[str]:
        """Kinds of failures."""
        return {kind for kind, _ in self.failures}


def solved(problem: Problem, seconds: float = SECONDS_FOR_SOLVE) -> Outcome:
    """Solve a problem twice and judge the answer; nothing is raised."""
    outcome = Outcome(problem)
    begun = time.perf_counter()
    try:
        _solve_and_judge(problem, outcome, seconds)
    except Exception:
        outcome.failures.append(("judge", traceback.format_exc(limit=-4)))
    outcome.seconds = time.perf_counter() - begun
    return outcome


def _solve_and_judge(problem: Problem, outcome: Outcome, seconds: float) -> None:
    import qpsvm
    from tests.fuzz.judge import judge

    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        try:
            declared, given = handed_over(problem)
            before = [_hash(part) for part in given]
            if problem.method.startswith("#"):
                problem = problem.with_method(method_of(problem.method, qpsvm.methods(declared)))
                outcome.problem = problem
            call = {"tol": problem.tol, "time_limit": seconds, **problem.options}
            warm = {"tol": problem.tol, "max_iter": 1}  # compiles, which the limit of time counts
            qpsvm.solve(declared, problem.method, **warm)
            begun = time.perf_counter()
            result = qpsvm.solve(declared, problem.method, **call)
            again = qpsvm.solve(declared, problem.method, **call)
            outcome.solving = time.perf_counter() - begun
        except qpsvm.InputError as refusal:
            outcome.status = "refused"
            if not may_be_refused(problem):
                outcome.failures.append(("refused", str(refusal)))
            return
        except Exception as problem_met:
            outcome.status = "exception"
            where = traceback.extract_tb(problem_met.__traceback__)[-1]
            outcome.failures.append((
                "exception",
                f"{type(problem_met).__name__}: {problem_met} ({where.filename}:{where.lineno})",
            ))  # fmt: skip
            return
        finally:
            for one in leaked:
                outcome.failures.append(
                    (
                        "warning",
                        f"{one.category.__name__}: {one.message} ({one.filename}:{one.lineno})",
                    )
                )
    outcome.status, outcome.method = result.status.name, result.method
    if [_hash(part) for part in given] != before:
        outcome.failures.append(("input changed", "an array that was given has other values"))
    longest = max(result.timings["total"], again.timings["total"])
    statuses = result.status.name, again.status.name
    if longest < 0.9 * seconds and "TIME_LIMIT" not in statuses:  # a limit ends anywhere
        outcome.repeated = _bits(result) == _bits(again)
        if not outcome.repeated:
            outcome.failures.append(("other bits", f"{result.status} and then {again.status}"))
    verdict = judge(problem, result)
    outcome.failures += verdict.failures
    outcome.error, outcome.enclosed = verdict.error, verdict.enclosed
    outcome.optimal, outcome.feasible = verdict.optimal, verdict.feasible


def method_of(number: str, fitting: Iterable[str]) -> str:
    """Return "auto" for one number of four, else the one of these names that a hash puts first.

    A method that is added later takes its share of the numbers; all others keep their method.
    """
    if int(number[1:]) % 4 == 0:
        return "auto"
    return min(fitting, key=lambda name: hashlib.sha256(f"{number} {name}".encode()).digest())


def handed_over(problem: Problem) -> tuple[Any, list[np.ndarray]]:
    """Return the formulation, and the arrays that the library was given for it."""
    import qpsvm
    from tests.fuzz.problem import CLASS_OF_FAMILY, GENERAL_DOMAINS

    given = stored(problem.X, problem.storage)
    arguments = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in problem.parameters.items()
    }
    kind = getattr(qpsvm, CLASS_OF_FAMILY[problem.family])
    others = (*arguments.values(), *problem.options.values())
    arrays = arrays_of(given) + [v for v in others if isinstance(v, np.ndarray)]
    if problem.family in GENERAL_FAMILIES:
        return kind(given, **arguments, domain=GENERAL_DOMAINS[problem.domain](problem.m)), arrays
    return kind(given if problem.takes_points else gram_of(problem, given), **arguments), arrays


def _hash(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _bits(result: Any) -> tuple[Any, ...]:
    dual = b"" if result.dual is None else np.asarray(result.dual).tobytes()
    return result.x.tobytes(), dual, repr(result.certificate), result.n_iter


def may_be_refused(problem: Problem) -> bool:
    """Return whether the library states that it does not take such numbers."""
    X = problem.X.astype(np.longdouble)
    limit = LENGTH_LIMITS[str(problem.X.dtype)]
    size = float(np.abs(X).max()) if problem.kernel == "precomputed" else (
        float((X * X).sum(axis=1).max())
    )  # fmt: skip
    if size >= limit / 4 or "x0" in problem.options:  # x0 needs a positive weight in each simplex
        return True
    settings, y = problem.settings, problem.parameters.get("y")
    weight = np.asarray(problem.parameters.get("sample_weight", np.ones(problem.m)))
    if y is not None and problem.family in ("polytope_distance", "nu_svc"):
        if len(set(y[weight > 0])) < 2:  # a class is missing
            return True
    if (
        settings.get("gamma", 0.0) > float(np.finfo(problem.X.dtype).max) / 4
        and "coef0" in settings
    ):
        return True
    if problem.kernel == "polynomial":
        inner = settings["gamma"] * size + settings["coef0"]
        return inner > 1 and settings["degree"] * np.log(inner) >= np.log(limit / 4)
    if problem.kernel == "custom":
        return (1.0 + size) ** 2 >= limit / 4
    if problem.kernel == "sigmoid":
        return settings["gamma"] * size >= limit / 4
    return False


def _serve(connection: Any, seconds: float) -> None:
    """Solve what arrives until there is nothing more."""
    while True:
        problem = connection.recv()
        if problem is None:
            return
        connection.send(solved(problem, seconds))


class Solver:
    """A process that solves; another takes its place where it hangs or dies."""

    def __init__(self, seconds: float = SECONDS_FOR_SOLVE) -> None:
        self.seconds = seconds
        self.context = multiprocessing.get_context("spawn")
        self._begin()

    def _begin(self) -> None:
        self.connection, theirs = self.context.Pipe()
        self.process = self.context.Process(target=_serve, args=(theirs, self.seconds), daemon=True)
        self.process.start()
        theirs.close()

    def solve(self, problem: Problem) -> Outcome:
        """Return what became of a problem."""
        self.connection.send(problem)
        limit = 2 * SECONDS_OF_HANG + SECONDS_TO_COMPILE
        failure = "hang", f"no answer after {limit:g} seconds"
        try:
            if self.connection.poll(limit):
                outcome: Outcome = self.connection.recv()
                if outcome.solving > SECONDS_OF_HANG:
                    outcome.failures.append(("hang", f"{outcome.solving:.0f} seconds"))
                return outcome
        except (EOFError, ConnectionResetError):
            self.process.join()
            failure = "crash", f"the process ended with {self.process.exitcode}"
        self.process.kill()
        self.process.join()
        self._begin()
        return Outcome(problem, status=failure[0], failures=[failure])

    def close(self) -> None:
        """End the process."""
        self.connection.send(None)
        self.process.join(10)
        self.process.kill()


def solved_side_by_side(
    problems: Iterable[Problem], solvers: Sequence[Solver]
) -> Iterator[tuple[int, Outcome, Solver]]:
    """Yield the number and the outcome of each problem as it ends, and the solver that had it."""
    numbered = enumerate(problems)
    with ThreadPoolExecutor(len(solvers)) as pool:

        def begin(which: int) -> None:
            for number, problem in numbered:
                begun[pool.submit(solvers[which].solve, problem)] = number, which
                return

        begun: dict[Future[Outcome], tuple[int, int]] = {}
        for which in range(len(solvers)):
            begin(which)
        while begun:
            for ended in wait(begun, return_when=FIRST_COMPLETED).done:
                number, which = begun.pop(ended)
                yield number, ended.result(), solvers[which]
                begin(which)


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the counts of a campaign."""
    optimal = [o for o in outcomes if o.status == "OPTIMAL"]
    answered = [o for o in outcomes if o.method]
    return {
        "problems": len(outcomes),
        "answered": len(answered),
        "statuses": dict(Counter(o.status for o in outcomes).most_common()),
        "optimal": {
            f"{tol:g}": {
                "number": len(own := [o for o in optimal if o.problem.tol == tol]),
                "proved": sum(o.optimal is True for o in own),
                "open": sum(o.optimal is None for o in own),
                "false": sum(o.optimal is False for o in own),
            }
            for tol in sorted({o.problem.tol for o in optimal}, reverse=True)
        },
        "enclosed": dict(Counter(str(o.enclosed) for o in answered)),
        "feasible": sum(o.feasible for o in answered),
        "repeated": dict(Counter(str(o.repeated) for o in answered)),
        "failures": dict(Counter(kind for o in outcomes for kind in o.kinds).most_common()),
        "seconds": round(sum(o.seconds for o in outcomes), 1),
    }
