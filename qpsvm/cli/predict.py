"""``qpsvm predict``: labels or values of new points by a model file of LIBSVM's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from qpsvm.cli.options import DATA_ARGUMENT, ExampleCommand, FileToWrite, say
from qpsvm.errors import InputError

CHUNK_ENTRIES = 1 << 23
"""Entries of points that are predicted at a time, zeros included."""


@click.command(
    "predict",
    cls=ExampleCommand,
    short_help="predict labels or values by a model file",
    example="qpsvm predict test.txt train.model labels.txt",
)
@DATA_ARGUMENT
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("output", required=False, type=FileToWrite())
@click.option("-b", "--probability", type=click.IntRange(0, 1), default=0, show_default=True,
              help="1: write probabilities of the classes, and predict by them.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def predict(data: Path, model: Path, output: Path | None, probability: int, quiet: bool) -> int:
    """Predict the points of DATA by MODEL and write a label, or a value, a line to OUTPUT.

    MODEL is a file of qpsvm train or of LIBSVM's svm-train. The share of right labels, or the errors,
    are printed. Without OUTPUT nothing is written. With -b 1 the first line names the classes, and each
    other line ends with their probabilities.
    """
    from qpsvm.files.libsvm.probability import predicted_probabilities
    from qpsvm.files.libsvm.text import read_libsvm_text

    text = read_libsvm_text(model)
    if probability and not len(text.prob_a):
        raise InputError(f"-b 1 needs a model of qpsvm train -b 1; {model} has no probabilities")
    if text.has_probabilities and not probability:
        say("Model supports probability estimates, but they are not asked for.", quiet=quiet)
    of_classes = bool(probability) and text.is_classifier

    def evaluate(estimator: Any, X: Any) -> Any:
        return predicted_probabilities(estimator, text, X) if of_classes else estimator.predict(X)

    by_values = text.kernel_type == "precomputed"
    found, y = (_by_kernel_values if by_values else _by_points)(data, text, evaluate)
    predicted = text.label[found.argmax(axis=1)] if of_classes else found
    if output is not None:
        _write(output, predicted, text.label if of_classes else None, found)
    if probability and not of_classes:
        say("Prob. model for test data: target value = predicted value + z,", quiet=quiet)
        density = f"e^(-|z|/sigma)/(2sigma),sigma={float(text.prob_a[0]):g}"
        say(f"z: Laplace distribution {density}", quiet=quiet)
    _say_errors(text, predicted, y, quiet=quiet)
    return 0


def _write(output: Path, predicted: Any, classes: Any, probabilities: Any) -> None:
    """Write a prediction a line, as LIBSVM does; with the classes also their probabilities."""
    from qpsvm.files.libsvm.text import short

    rows, head = [[value] for value in predicted.tolist()], ""
    if classes is not None:
        head = f"labels {' '.join(map(str, classes.tolist()))}\n"
        rows = [row + own for row, own in zip(rows, probabilities.tolist(), strict=True)]
    lines = (" ".join(short(value) for value in row) for row in rows)
    output.write_text(head + "".join(f"{line}\n" for line in lines), "ascii")


def _say_errors(text: Any, predicted: Any, y: Any, *, quiet: bool) -> None:
    """Print LIBSVM's lines on the errors of the predictions."""
    from qpsvm.cli.cross_validation import regression_figures

    if text.svm_type.endswith("svr"):
        error, correlation = regression_figures(y, predicted)
        say(f"Mean squared error = {error:g} (regression)", quiet=quiet)
        say(f"Squared correlation coefficient = {correlation:g} (regression)", quiet=quiet)
    else:
        right, n = int((predicted == y).sum()), len(y)
        say(f"Accuracy = {100.0 * right / n:g}% ({right}/{n}) (classification)", quiet=quiet)


def _by_points(data: Path, text: Any, evaluate: Any) -> tuple[Any, Any]:
    """Return what is evaluated for the points of a file, and their labels."""
    import numpy as np
    import scipy.sparse as sp

    from qpsvm.data import first_index, read_by_index, without_index_zero
    from qpsvm.files.libsvm.model import estimator_of

    X, y = read_by_index(data)
    first = min(first_index(X), first_index(text.points))
    X = without_index_zero(X) if first else X
    d = max(X.shape[1], text.points.shape[1] - first)
    X.resize(X.shape[0], d)
    estimator = estimator_of(text, n_features=d, first_index=first)
    is_dense = not sp.issparse(estimator.support_vectors_)
    n = max(1, CHUNK_ENTRIES // d)
    parts = (X[begin : begin + n] for begin in range(0, X.shape[0], n))
    found = [evaluate(estimator, part.toarray() if is_dense else part) for part in parts]
    return np.concatenate(found), y


def _by_kernel_values(data: Path, text: Any, evaluate: Any) -> tuple[Any, Any]:
    """Return what is evaluated for points that are given by kernel values, and their labels."""
    from qpsvm.cli.options import read_kernel
    from qpsvm.files.libsvm.model import estimator_of

    values, _, y = read_kernel(data)
    largest = int(text.serial.max(initial=1))
    if values.shape[1] < largest:
        raise InputError(
            f"{data} must hold kernel values of the indices up to {largest}, as the model does; "
            f"got {values.shape[1]}"
        )
    return evaluate(estimator_of(text, n_features=values.shape[1]), values), y
