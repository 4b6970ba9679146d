"""``qpsvm train``: a model of LIBSVM's kinds from a data file, certified."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from qpsvm.cli.options import (
    DATA_ARGUMENT,
    KERNEL_OPTIONS,
    PENALTY_OPTIONS,
    TOLERANCE_OPTION,
    TYPE_OPTION,
    DataFile,
    ExampleCommand,
    FileToWrite,
    KernelChoice,
    options,
    read_training,
    say,
    warn,
    warnings_as_lines,
)
from qpsvm.errors import InputError

INTERRUPTED_CODE = 130
"""Exit code after Ctrl-C."""


class TrainCommand(ExampleCommand):
    """A command that also takes LIBSVM's ``-wLABEL VALUE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``-w1 5`` as ``--class-weight 1 5``."""
        rewritten: list[str] = []
        for word in args:
            label = re.fullmatch(r"-w([+-]?\d+)", word)
            rewritten += ["--class-weight", label[1]] if label else [word]
        return super().parse_args(ctx, rewritten)


@click.command(
    "train",
    cls=TrainCommand,
    short_help="fit a machine to a data file and write its model",
    example="qpsvm train -s 0 -t 2 -c 10 train.txt train.model --picture gap.png",
)
@DATA_ARGUMENT
@click.argument("model", required=False, type=FileToWrite())
@options(TYPE_OPTION, *KERNEL_OPTIONS, *PENALTY_OPTIONS, TOLERANCE_OPTION)
@click.option("-w", "--class-weight", "class_weights", type=(int, float), multiple=True,
              metavar="LABEL WEIGHT", help="Factor of C for a class; also -wLABEL WEIGHT.")  # fmt: skip
@click.option("-v", "--folds", type=click.IntRange(min=2), metavar="N",
              help="Cross-validate in N parts; no model is written.")  # fmt: skip
@click.option("-b", "--probability", type=click.IntRange(0, 1), default=0, show_default=True,
              help="1: with parameters of probabilities, by cross-validated fits.")  # fmt: skip
@click.option("-h", "--shrinking", type=click.IntRange(0, 1), default=1,
              help="Accepted, without effect: the method decides.")  # fmt: skip
@click.option("-m", "--cache-size", type=click.FloatRange(min=0, min_open=True), default=100.0,
              show_default=True, help="Megabytes for kernel columns.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--method", default="auto", show_default=True, help="See qpsvm methods.")
@click.option("--time-limit", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End then, with the model so far.")  # fmt: skip
@click.option("--proof", type=FileToWrite(), metavar="FILE",
              help="Write a result file, which qpsvm verify checks.")  # fmt: skip
@click.option("--picture", type=FileToWrite(), metavar="FILE",
              help="Draw the gap of each problem against time.")  # fmt: skip
def train(
    data: Path, model: Path | None, svm_type: str, kernel: str, degree: int, gamma: float | str,
    coef0: float, cost: float, nu: float, epsilon: float, tolerance: float,
    class_weights: tuple[tuple[int, float], ...], folds: int | None, probability: int,
    shrinking: int, cache_size: float, quiet: bool, method: str, time_limit: float | None,
    proof: Path | None, picture: Path | None,
) -> int:  # fmt: skip
    """Fit a machine to DATA, a file in LIBSVM's format (plain, gz, bz2 or xz), and write MODEL.

    MODEL is a file of LIBSVM's format, which its svm-predict reads; by default DATA.model in the
    current folder. The last line is the certified relative gap: the value of the answer is proven to
    be that close to the optimum. Ctrl-C ends the fit; the model so far is written, with its gap.
    """
    from qpsvm.cli.machines import estimator_for, labels_for
    from qpsvm.cli.pictures import check_drawing

    check_drawing(picture)
    is_classifier = svm_type in ("c-svc", "nu-svc")
    if class_weights and svm_type != "c-svc":
        raise InputError(f"-w is for the type c-svc; got it with {svm_type}")
    if probability and svm_type == "one-class":
        raise InputError("-b 1 is for classes and regressions; got it with the type one-class")
    choice = KernelChoice(kernel, gamma, degree, coef0)
    points = read_training(data, kernel)
    y = labels_for(svm_type, points.y)
    settings: dict[str, Any] = {
        "tol": tolerance, "cache_size": cache_size, "method": method, "time_limit": time_limit,
        "shrinking": bool(shrinking),
    }  # fmt: skip
    if is_classifier:
        settings["class_weight"] = _factors(class_weights, y)
    estimator = estimator_for(
        svm_type, choice, points, cost=cost, nu=nu, epsilon=epsilon, **settings
    )
    if folds is not None:
        from qpsvm.cli.cross_validation import cross_validate

        return cross_validate(svm_type, estimator, points.X, y, folds, quiet=quiet)
    path = Path(f"{data.name}.model") if model is None else model
    was_interrupted = _fit(estimator, points, y, quiet=quiet)
    _write_model(path, estimator, points)
    if probability and not was_interrupted:
        _write_model(path, estimator, points, y)
    if proof is not None:
        from qpsvm.files.result_file import save

        save(proof, estimator, X=points.X, y=None if svm_type == "one-class" else y)
    return _report(svm_type, estimator, points, y, picture, was_interrupted, quiet=quiet)


def _factors(class_weights: tuple[tuple[int, float], ...], y: Any) -> dict[int, float] | None:
    """Return factors of C by class; those of classes that are missing are left out, with a warning."""
    known = set(y.tolist())
    for label, weight in class_weights:
        if not 0.0 < weight < float("inf"):
            raise InputError(f"-w{label} must be a finite number > 0; got {weight:g}")
        if label not in known:
            warn(f"class label {label} specified in weight is not found")
    return {label: weight for label, weight in class_weights if label in known} or None


def _fit(estimator: Any, points: DataFile, y: Any, *, quiet: bool) -> bool:
    """Fit; return whether Ctrl-C ended it."""
    from qpsvm.cli.progress import GapBar
    from qpsvm.estimators.training import returning_answers

    with returning_answers() as clock, GapBar(quiet=quiet) as bar, warnings_as_lines():
        if not is_of_small_pairs(estimator, y):
            estimator.set_params(callback=bar)
        estimator.fit(points.X, y)
    estimator.set_params(callback=None)
    return clock.interrupted


def is_of_small_pairs(estimator: Any, y: Any) -> bool:
    """Return whether the machines of more than two classes are solved together, without checks."""
    import numpy as np

    from qpsvm.estimators.grid.pairs import MAX_PAIR_POINTS

    if not hasattr(estimator, "class_weight"):
        return False
    sizes = np.sort(np.unique(y, return_counts=True)[1])
    return len(sizes) > 2 and int(sizes[-2:].sum()) <= MAX_PAIR_POINTS


def _write_model(path: Path, estimator: Any, points: DataFile, y: Any = None) -> None:
    """Write the model; given labels, with probabilities, which takes further fits."""
    from dataclasses import replace

    from qpsvm.files.libsvm.model import libsvm_model_of
    from qpsvm.files.libsvm.probability import with_probabilities
    from qpsvm.files.libsvm.text import write_libsvm_text

    model = libsvm_model_of(estimator, points.first_index)
    if y is not None:
        with warnings_as_lines():
            model = with_probabilities(model, estimator, points.X, y)
    if points.serial is not None:  # the estimator counts points in the order of the file
        model = replace(model, serial=points.serial[model.serial - 1])
    write_libsvm_text(path, model)


def _report(
    svm_type: str, estimator: Any, points: DataFile, y: Any, picture: Path | None,
    was_interrupted: bool, *, quiet: bool,
) -> int:  # fmt: skip
    """Print the closing lines, draw the picture; return the exit code."""
    from qpsvm.cli.closing import closing_lines, gap_line

    if not quiet:
        for line in closing_lines(svm_type, estimator, points.X, y):
            say(line)
    line, is_missed = gap_line(estimator), bool(estimator.fit_status_)
    if is_missed:
        click.echo(line, err=quiet)
    else:
        say(line, quiet=quiet)
    if picture is not None:
        from qpsvm.cli.pictures import draw_gaps

        draw_gaps(picture, estimator)
    if was_interrupted:
        return INTERRUPTED_CODE
    return int(is_missed)
