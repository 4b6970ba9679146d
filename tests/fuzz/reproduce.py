"""Failures made small, and written as scripts that need the library alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.campaign import Outcome, Solver
from tests.fuzz.problem import CLASS_OF_FAMILY, GENERAL_DOMAINS, GENERAL_FAMILIES, Problem

SECONDS_TO_SHRINK = 60.0
"""Seconds after which a failure is small enough."""

MAX_LITERAL_ENTRIES = 600
"""Entries of an array up to which a script holds it as text; a larger one is kept beside it."""

DOMAIN_TEXTS = {
    "simplex": "simplex({m})", "hypercube": "hypercube({m})", "l1_ball": "L1Ball({m}, 2.0)",
    "l2_ball": "L2Ball({m}, 1.5)",
}  # fmt: skip
"""How a script makes a domain."""


def shrunk(problem: Problem, kinds: set[str], solver: Solver) -> Problem:
    """Return a smaller problem with a failure of one of these kinds."""
    begun = time.monotonic()
    while True:
        for smaller in simpler(problem):
            if time.monotonic() - begun > SECONDS_TO_SHRINK:
                return problem
            if solver.solve(smaller).kinds & kinds:
                problem = smaller
                break
        else:
            return problem


def simpler(problem: Problem) -> Iterator[Problem]:
    """Yield problems with fewer points or features, or with plainer settings, the largest cuts first."""
    if problem.storage != "C":
        yield problem.with_storage("C")
    if problem.options:
        yield replace(problem, options={})
    for name, plain in (("sample_weight", None), ("C", 1.0), ("epsilon", 0.1), ("chi", None)):
        value = problem.parameters.get(name)
        if value is not None and np.ndim(value) and plain is None:
            left = {k: v for k, v in problem.parameters.items() if k != name}
            yield replace(problem, parameters=left)
        elif np.ndim(value):
            yield replace(problem, parameters={**problem.parameters, name: float(np.max(value))})
    if problem.family in GENERAL_FAMILIES:
        return
    m, size = problem.m, problem.m // 2
    while size >= 1 and m > 1:
        for at in range(0, m, size):
            kept = np.delete(np.arange(m), slice(at, at + size))
            if len(kept):
                yield of_rows(problem, kept)
        size //= 2
    if problem.kernel != "precomputed":
        d = problem.X.shape[1]
        for at in range(d if d > 1 else 0):
            yield replace(problem, X=np.delete(problem.X, at, axis=1))
        if problem.X.dtype == np.float64:
            for digits in (1, 3, 6):
                scale = float(np.abs(problem.X).max()) or 1.0
                rounded = np.round(problem.X / scale, digits) * scale
                if not np.array_equal(rounded, problem.X):
                    yield replace(problem, X=rounded)


def of_rows(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem over some of its points."""
    X = problem.X[np.ix_(rows, rows)] if problem.kernel == "precomputed" else problem.X[rows]
    parameters = {
        name: value[rows] if np.ndim(value) else value for name, value in problem.parameters.items()
    }
    options = dict(problem.options)
    if "x0" in options:
        parts = np.reshape(options["x0"], (-1, problem.m))
        options["x0"] = parts[:, rows].ravel()
    return replace(problem, X=X, parameters=parameters, options=options)


def write_script(folder: Path, number: int, outcome: Outcome, solver: Solver) -> Path:
    """Write a script of a failure, made small first; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    problem = outcome.problem
    if "hang" not in outcome.kinds:
        problem = shrunk(problem, outcome.kinds, solver)
    path = folder / f"failure_{number}.py"
    path.write_text(script(problem, outcome, path), encoding="utf-8")
    return path


def script(problem: Problem, outcome: Outcome, path: Path) -> str:
    """Return a script that solves a problem and prints the answer."""
    lines = [f'"""{"; ".join(sorted(outcome.kinds))}: {problem.describe()}', ""]
    lines += [f"{kind}: {message}" for kind, message in outcome.failures]
    lines += ['"""', "", "import numpy as np", "import scipy.sparse as sp", "", "import qpsvm", ""]
    beside: dict[str, Any] = {}
    arrays = {"X": problem.X, **problem.parameters}
    for name, value in arrays.items():
        if np.ndim(value) == 0:
            lines.append(f"{name} = {value!r}".replace("inf", "np.inf"))
        elif np.size(value) <= MAX_LITERAL_ENTRIES:
            text = repr(value.tolist()).replace("inf", "np.inf")
            lines.append(f"{name} = np.array({text}, dtype=np.{value.dtype})")
        else:
            beside[name] = value
    if beside:
        data = path.with_suffix(".npz")
        np.savez(data, **beside)
        lines.append(f"data = np.load({data.name!r})  # beside this script")
        lines += [f"{name} = data[{name!r}]" for name in beside]
    lines += [f"given = {_storage_text(problem.storage)}", f"K = {_gram_text(problem)}"]
    names = [f"{name}={name}" for name in problem.parameters]
    if problem.family in GENERAL_FAMILIES:
        names.append(f"domain=qpsvm.domains.{DOMAIN_TEXTS[problem.domain].format(m=problem.m)}")
    lines.append(f"problem = qpsvm.{CLASS_OF_FAMILY[problem.family]}({', '.join(['K', *names])})")
    call = [f"{problem.method!r}, tol={problem.tol!r}"]
    for name, value in problem.options.items():
        call.append(f"{name}={np.asarray(value).tolist()!r}")
    lines.append(f"result = qpsvm.solve(problem, {', '.join(call)})")
    return "\n".join([*lines, "print(result.status, result.certificate)", ""])


def _storage_text(storage: str) -> str:
    return {
        "F": "np.asfortranarray(X)", "strided": "np.repeat(X, 2, axis=0)[::2]",
        "lists": "X.tolist()", "int8": "X.astype(np.int8)", "CSR": "sp.csr_matrix(X)",
        "CSC": "sp.csc_matrix(X)", "unsorted CSR": "sp.csr_matrix(X)  # rows were not in order",
    }.get(storage, "X")  # fmt: skip


def _gram_text(problem: Problem) -> str:
    if problem.takes_points or problem.family in GENERAL_FAMILIES:
        return "given"
    if problem.kernel == "precomputed":
        return "qpsvm.Precomputed(given)"
    if problem.kernel == "custom":
        return "qpsvm.CustomKernel(given, lambda A, B: np.asarray(1.0 + A @ B.T) ** 2)"
    name = {"rbf": "RBF"}.get(problem.kernel, problem.kernel.capitalize())
    settings = "".join(f", {key}={value!r}" for key, value in problem.settings.items())
    return f"qpsvm.{name}(given{settings})"


assert set(DOMAIN_TEXTS) == set(GENERAL_DOMAINS)
