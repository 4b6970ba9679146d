"""The command ``qpsvm``: a demo on real data, the table of methods, and compilation ahead of use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import isabstract
from itertools import product
from pathlib import Path
from typing import Any

from qpsvm.errors import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the name of the command; those of the process by default.

    Returns
    -------
    int
        0 for success, 1 where a task failed, 2 for wrong arguments, 130 after Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except InputError as problem:
        print(f"qpsvm: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("qpsvm: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    """Return the parser; each command sets the function that runs it."""
    from qpsvm import __version__

    parser = argparse.ArgumentParser(
        prog="qpsvm", description="Quadratic programs of support vector machines, certified."
    )
    parser.add_argument("--version", action="version", version=f"qpsvm {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)

    demo = commands.add_parser(
        "demo",
        help="solve bundled real data by every method and draw a picture",
        description="Solve L2-SVM, hinge SVM, polytope distance and smallest ball on data that "
        "come with scikit-learn, by every method that fits; compare with cvxpy where it is "
        "installed.",
    )
    demo.add_argument("--output", metavar="FILE", type=Path, default=Path("qpsvm-demo.png"),
                      help="file of the picture (default: %(default)s)")  # fmt: skip
    demo.add_argument("--no-plot", action="store_true", help="draw no picture")
    demo.add_argument("--quick", action="store_true", help="take a quarter of the points")
    demo.add_argument("--time-limit", metavar="SECONDS", type=float, default=20.0,
                      help="time limit of each solve (default: %(default)g)")  # fmt: skip
    demo.set_defaults(run=_demo)

    methods = commands.add_parser("methods", help="list the methods and what each one promises")
    methods.set_defaults(run=_methods)

    compile_ = commands.add_parser(
        "compile",
        help="compile everything now, so that no solve has to",
        description="Compile every method for this processor, into the cache of this user "
        "(NUMBA_CACHE_DIR, where it is set), or into the installed package for all users: for "
        "images and CI. Code that exists already takes a second.",
    )
    compile_.add_argument("--into-package", action="store_true",
                          help="keep the code in the package, for all users")  # fmt: skip
    compile_.add_argument("--jobs", metavar="N", type=int, default=None,
                          help="processes (default: one for each processor)")  # fmt: skip
    compile_.set_defaults(run=_compile)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from qpsvm.demo.run import run
    from qpsvm.errors import check_number

    check_number("--time-limit", arguments.time_limit, low=0.0, open_low=True)
    if not arguments.no_plot and not arguments.output.resolve().parent.is_dir():
        raise InputError(f"--output must lie in a folder that exists; got {arguments.output}")
    return run(
        arguments.output,
        picture=not arguments.no_plot,
        quick=arguments.quick,
        time_limit=arguments.time_limit,
    )


def _methods(arguments: argparse.Namespace) -> int:
    from qpsvm.driver.selection import methods
    from qpsvm.solvers.methods import METHODS

    fitting = {
        name: {method for problem in problems for method in methods(problem)}
        for name, problems in _examples().items()
    }
    width = max(map(len, METHODS)) + 2
    for name, method in METHODS.items():
        solves = [formulation for formulation, names in fitting.items() if name in names]
        print(f"{name:<{width}}{method.summary}")
        print(f"{'':<{width}}solves    {', '.join(solves) or 'problems over other domains'}")
        print(f"{'':<{width}}promises  gap {method.gap:.0e} within {_budget(method.budget)}")
        print(f"{'':<{width}}source    {method.source}")
    return 0


def _compile(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from qpsvm.errors import check_number
    from qpsvm.precompile import ALL_GROUPS, compile_groups, compile_into_package
    from qpsvm.resources import processors

    n_processes = processors() if arguments.jobs is None else arguments.jobs
    check_number("--jobs", n_processes, low=1, integer=True)
    with tqdm(total=len(ALL_GROUPS), desc="compiling", unit="group", disable=None) as bar:

        def report(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update()

        if arguments.into_package:
            failures = compile_into_package(["native"], ALL_GROUPS, report, n_processes)
        else:
            failures = compile_groups(ALL_GROUPS, report, n_processes)
    for failure in failures:
        print(f"qpsvm: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _examples() -> dict[str, list[Any]]:
    """Return tiny problems of every exported formulation, by its name.

    With and without a factor and a bias, and over several domains, where these are arguments: some
    methods require one of them.
    """
    import numpy as np

    from qpsvm import domains, formulations
    from qpsvm.gram import Linear

    square, ones = np.eye(2), np.ones(2)
    arguments: dict[str, list[Any]] = {
        "K": [square, Linear(square)], "X": [square], "Q": [square], "A": [square],
        "y": [np.array([1.0, -1.0])], "b": [ones], "c": [ones],
        "bias": [True, False],
        "domain": [domains.simplex(2), domains.hypercube(2), domains.L2Ball(2)],
    }  # fmt: skip
    examples = {}
    for name in formulations.__all__:
        kind = getattr(formulations, name)
        if not isabstract(kind):
            names = [f.name for f in fields(kind) if f.default is MISSING or f.name in arguments]
            choices = product(*(arguments[argument] for argument in names))
            examples[name] = [kind(**dict(zip(names, values, strict=True))) for values in choices]
    return examples


def _budget(value: object) -> str:
    """Return a budget as text: a number of iterations, or the declared words."""
    return f"{value:,} iterations" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
