"""``qpsvm methods`` and ``qpsvm compile``: what is there, and code for this processor."""

from __future__ import annotations

from dataclasses import MISSING, fields
from inspect import isabstract
from itertools import product
from typing import Any

import click

from qpsvm.cli.options import ExampleCommand, say


@click.command(
    "methods",
    cls=ExampleCommand,
    short_help="list the methods and what each one promises",
    example="qpsvm methods",
)
def methods() -> int:
    """List the methods: what each solves, the gap that it promises, and its source."""
    from qpsvm.driver.selection import methods as methods_for
    from qpsvm.solvers.methods import METHODS

    fitting = {
        name: {method for problem in problems for method in methods_for(problem)}
        for name, problems in examples().items()
    }
    width = max(map(len, METHODS)) + 2
    for name, method in METHODS.items():
        solves = [formulation for formulation, names in fitting.items() if name in names]
        say(f"{name:<{width}}{method.summary}")
        say(f"{'':<{width}}solves    {', '.join(solves) or 'problems over other domains'}")
        say(f"{'':<{width}}promises  gap {method.gap:.0e} within {budget_text(method.budget)}")
        say(f"{'':<{width}}source    {method.source}")
    return 0


@click.command(
    "compile",
    cls=ExampleCommand,
    short_help="compile everything now, so that no solve has to",
    example="qpsvm compile --jobs 2",
)
@click.option("--into-package", is_flag=True, help="Keep the code in the package, for all users.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1),
              help="Processes.  [default: one for each processor]")  # fmt: skip
def compile_all(into_package: bool, jobs: int | None) -> int:
    """Compile every method for this processor, for images and CI.

    The code goes into the cache of this user (NUMBA_CACHE_DIR, where it is set), or into the installed
    package for all users. Code that exists already is not compiled again.
    """
    from tqdm import tqdm

    from qpsvm.precompile import ALL_GROUPS, compile_groups, compile_into_package
    from qpsvm.resources import processors

    n_processes = processors() if jobs is None else jobs
    with tqdm(total=len(ALL_GROUPS), desc="compiling", unit="group", disable=None) as bar:

        def report(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update()

        if into_package:
            failures = compile_into_package(["native"], ALL_GROUPS, report, n_processes)
        else:
            failures = compile_groups(ALL_GROUPS, report, n_processes)
    for failure in failures:
        click.echo(f"qpsvm: {failure}", err=True)
    return 1 if failures else 0


def examples() -> dict[str, list[Any]]:
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
        "value": [lambda x: 0.5 * float(x @ x)], "gradient": [np.copy], "smoothness": [1.0],
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


def budget_text(value: object) -> str:
    """Return a budget as text: a number of iterations, or the declared words."""
    return f"{value:,} iterations" if isinstance(value, int) else str(value)
