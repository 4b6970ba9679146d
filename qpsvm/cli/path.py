"""``qpsvm path``: a classifier for many values of C."""

from __future__ import annotations

from pathlib import Path

import click

from qpsvm.cli.options import (
    DATA_ARGUMENT,
    KERNEL_OPTIONS,
    TOLERANCE_OPTION,
    ExampleCommand,
    FileToWrite,
    KernelChoice,
    options,
    read_training,
    say,
    two_classes,
)
from qpsvm.errors import InputError

INTERRUPTED_CODE = 130
"""Exit code after Ctrl-C."""

DEFAULT_RANGE = "0.01:100:9"
"""Values of C, where none are given."""


def values_of(text: str) -> list[float]:
    """Return the numbers of ``0.1,1,10``, or of ``0.1:10:3``, which stands in equal ratios.

    Raises
    ------
    InputError
        If the text is neither.

    Examples
    --------
    >>> values_of("1:100:3")
    [1.0, 10.0, 100.0]
    """
    expected = "-c must be numbers > 0 such as 0.1,1,10, or a range FROM:TO:COUNT such as 0.1:10:3"
    try:
        if ":" in text:
            first, last, count = text.split(":")
            low, high, n = float(first), float(last), int(count)
            if not (0.0 < low < high < float("inf") and n >= 2):
                raise ValueError
            # the ends are exact
            inner = [low * (high / low) ** (k / (n - 1)) for k in range(1, n - 1)]
            return [low, *inner, high]
        values = [float(word) for word in text.split(",")]
        if not all(0.0 < value < float("inf") for value in values):
            raise ValueError
    except ValueError:
        raise InputError(f"{expected}; got {text!r}") from None
    return values


@click.command(
    "path",
    cls=ExampleCommand,
    short_help="fit a classifier for many values of C",
    example="qpsvm path -t 2 -c 0.1:10:5 train.txt --picture path.png",
)
@DATA_ARGUMENT
@click.option("-c", "--costs", default=DEFAULT_RANGE, show_default=True, metavar="VALUES",
              help="Values of C: 0.1,1,10, or FROM:TO:COUNT in equal ratios.")  # fmt: skip
@options(*KERNEL_OPTIONS, TOLERANCE_OPTION)
@click.option("--method", default="auto", show_default=True, help="See qpsvm methods.")
@click.option("--time-limit", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End then: values that are left are not solved.")  # fmt: skip
@click.option("--picture", type=FileToWrite(), metavar="FILE",
              help="Draw accuracy and support against C.")  # fmt: skip
def path(
    data: Path, costs: str, kernel: str, degree: int, gamma: float | str, coef0: float,
    tolerance: float, method: str, time_limit: float | None, picture: Path | None,
) -> int:  # fmt: skip
    """Fit a classifier of two classes to DATA for each C, and print a table.

    Each fit starts from the one before, and kernel values are kept. The gap is certified.
    """
    values = values_of(costs)
    import numpy as np

    from qpsvm.cli.machines import gram_for
    from qpsvm.cli.pictures import check_drawing, draw_path
    from qpsvm.formulations import HingeDual
    from qpsvm.path import solve_path
    from qpsvm.result import Status

    check_drawing(picture)
    points = read_training(data, kernel)
    y = two_classes(points.y)
    problem = HingeDual(gram_for(KernelChoice(kernel, gamma, degree, coef0), points), y)
    done = solve_path(problem, "C", values, method, tol=tolerance, time_limit=time_limit)
    say(f"{'C':>12}{'gap':>10}{'support':>10}{'accuracy':>10}{'seconds':>10}")
    accuracies, supports = [], []
    for C, result in zip(done.values, done, strict=True):
        accuracies.append(float(np.mean(result.model.predict(points.X) == y)))
        supports.append(len(result.support))
        mark = "" if result.converged else f"  {result.status.name}"
        say(
            f"{C:>12g}{result.certificate.relative_gap:>10.1e}{supports[-1]:>10,}"
            f"{accuracies[-1]:>10.2%}{result.timings['total']:>10.3f}{mark}"
        )
    say("gap: certified relative duality gap; accuracy: on the points of the fit")
    if picture is not None:
        draw_path(picture, list(done.values), accuracies, supports)
    if any(result.status is Status.INTERRUPTED for result in done):
        return INTERRUPTED_CODE
    return int(len(done) < len(values) or not all(result.converged for result in done))
