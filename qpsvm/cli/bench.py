"""``qpsvm bench``: the methods that fit a problem, timed on a data file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from qpsvm.cli.options import (
    DATA_ARGUMENT,
    KERNEL_OPTIONS,
    PENALTY_OPTIONS,
    TOLERANCE_OPTION,
    TYPE_OPTION,
    ExampleCommand,
    KernelChoice,
    options,
    read_training,
    say,
)
from qpsvm.errors import InputError

INTERRUPTED_CODE = 130
"""Exit code after Ctrl-C."""

MAX_TIMED_SOLVES = 3
"""Maximum number of solves of a method: another one where code was compiled in the one before."""

N_WARM_UP_POINTS = 60
"""Number of points of the small problem that compiles the code of a method."""

MAX_WARM_UP_ITER = 1000
"""Maximum number of iterations on that problem."""


@click.command(
    "bench",
    cls=ExampleCommand,
    short_help="time the methods that fit on a data file",
    example="qpsvm bench -c 10 --methods smo,decomposition --time-limit 5 train.txt",
)
@DATA_ARGUMENT
@options(TYPE_OPTION, *KERNEL_OPTIONS, *PENALTY_OPTIONS, TOLERANCE_OPTION)
@click.option("--methods", "names", metavar="NAMES",
              help="Some of them, between commas.  [default: all that fit]")  # fmt: skip
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), default=10.0,
              show_default=True, metavar="SECONDS", help="Of each solve.")  # fmt: skip
def bench(
    data: Path, svm_type: str, kernel: str, degree: int, gamma: float | str, coef0: float,
    cost: float, nu: float, epsilon: float, tolerance: float, names: str | None,
    time_limit: float,
) -> int:  # fmt: skip
    """Solve the problem of a machine on DATA by each method that fits, and print a table.

    Seconds are of the whole solve, certificate included, on an otherwise idle machine, once, without
    compilation: a solve in which code was compiled is repeated.
    """
    from qpsvm.cli.machines import gram_for, problem_for
    from qpsvm.driver.selection import methods
    from qpsvm.result import Status

    points = read_training(data, kernel)
    gram = gram_for(KernelChoice(kernel, gamma, degree, coef0), points)
    terms = {"cost": cost, "nu": nu, "epsilon": epsilon}
    problem = problem_for(svm_type, gram, points.y, **terms)
    few = _some_of_each(points.y)
    small = problem_for(svm_type, gram.take(few), points.y[few], **terms)
    fitting = list(methods(problem))
    chosen = fitting if names is None else [name.strip() for name in names.split(",")]
    wrong = [name for name in chosen if name not in fitting]
    if wrong:
        raise InputError(f"--methods must be among {', '.join(fitting)}; got {wrong[0]!r}")
    say(f"{points.X.shape[0]:,} points, {points.X.shape[1]:,} features, {svm_type}, {kernel}")
    say(f"{'method':<16}{'seconds':>10}{'gap':>10}{'support':>10}{'iterations':>12}  status")
    missed = 0
    for name in chosen:
        result = _timed(problem, small, name, tolerance, time_limit)
        missed += not result.converged
        say(
            f"{name:<16}{result.timings['total']:>10.3f}{result.certificate.relative_gap:>10.1e}"
            f"{len(result.support):>10,}{result.n_iter:>12,}  {result.status.name}"
        )
        if result.status is Status.INTERRUPTED:
            return INTERRUPTED_CODE
    say("gap: certified relative duality gap")
    return int(missed > 0)


def _some_of_each(y: Any) -> Any:
    """Return indices of a few points, half of them with each of the first and the last label."""
    import numpy as np

    first = np.argsort(y, kind="stable")
    half = N_WARM_UP_POINTS // 2
    return np.unique(np.concatenate([first[:half], first[-half:]]))


def _timed(problem: Any, small: Any, name: str, tol: float, time_limit: float) -> Any:
    """Return the result of a solve in which nothing was compiled.

    The small problem of the same types is solved first; where code is still compiled in the timed solve,
    that is repeated.
    """
    from numba.core.event import TimingListener, install_listener

    from qpsvm.api import solve
    from qpsvm.result import Status

    solve(small, name, tol=tol, max_iter=MAX_WARM_UP_ITER)
    for _ in range(MAX_TIMED_SOLVES):
        with install_listener("numba:compiler_lock", TimingListener()) as clock:
            result = solve(problem, name, tol=tol, time_limit=time_limit)
        if not clock.done or result.status is Status.INTERRUPTED:
            break
    return result
