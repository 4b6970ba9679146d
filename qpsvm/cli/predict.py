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
@click.option("-b", "--probability", type=click.IntRange(0, 1), default=0,
              help="0 alone: probabilities of a model are not used.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def predict(data: Path, model: Path, output: Path | None, probability: int, quiet: bool) -> int:
    """Predict the points of DATA by MODEL and write a label, or a value, a line to OUTPUT.

    MODEL is a file of qpsvm train or of LIBSVM's svm-train. The share of right labels, or the errors,
    are printed. Without OUTPUT nothing is written.
    """
    if probability:
        raise InputError("-b must be 0: LIBSVM's svm-predict -b 1 reads the model file, too; got 1")
    from qpsvm.cli.cross_validation import regression_figures
    from qpsvm.files.libsvm_text import read_libsvm_text, short

    text = read_libsvm_text(model)
    if text.has_probabilities:
        say("Model supports probability estimates, but they are not used here.", quiet=quiet)
    if text.kernel_type == "precomputed":
        predicted, y = _by_kernel_values(data, text)
    else:
        predicted, y = _by_points(data, text)
    if output is not None:
        output.write_text("".join(f"{short(value)}\n" for value in predicted.tolist()), "ascii")
    if text.svm_type.endswith("svr"):
        error, correlation = regression_figures(y, predicted)
        say(f"Mean squared error = {error:g} (regression)", quiet=quiet)
        say(f"Squared correlation coefficient = {correlation:g} (regression)", quiet=quiet)
    else:
        right, n = int((predicted == y).sum()), len(y)
        say(f"Accuracy = {100.0 * right / n:g}% ({right}/{n}) (classification)", quiet=quiet)
    return 0


def _by_points(data: Path, text: Any) -> tuple[Any, Any]:
    """Return predictions and labels of the points of a file."""
    import numpy as np
    import scipy.sparse as sp

    from qpsvm.data import first_index, read_by_index, without_index_zero
    from qpsvm.files.libsvm_model import estimator_of

    X, y = read_by_index(data)
    first = min(first_index(X), first_index(text.points))
    X = without_index_zero(X) if first else X
    d = max(X.shape[1], text.points.shape[1] - first)
    X.resize(X.shape[0], d)
    estimator = estimator_of(text, n_features=d, first_index=first)
    is_dense = not sp.issparse(estimator.support_vectors_)
    n = max(1, CHUNK_ENTRIES // d)
    parts = (X[begin : begin + n] for begin in range(0, X.shape[0], n))
    found = [estimator.predict(part.toarray() if is_dense else part) for part in parts]
    return np.concatenate(found), y


def _by_kernel_values(data: Path, text: Any) -> tuple[Any, Any]:
    """Return predictions and labels of points that are given by kernel values."""
    from qpsvm.cli.options import read_kernel
    from qpsvm.files.libsvm_model import estimator_of

    values, _, y = read_kernel(data)
    largest = int(text.serial.max(initial=1))
    if values.shape[1] < largest:
        raise InputError(
            f"{data} must hold kernel values of the indices up to {largest}, as the model does; "
            f"got {values.shape[1]}"
        )
    return estimator_of(text, n_features=values.shape[1]).predict(values), y
