"""``qpsvm info`` and ``qpsvm verify``: what a file holds, and whether a proof holds."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import click

from qpsvm.cli.options import (
    DATA_ARGUMENT,
    ExampleCommand,
    read_points,
    read_training,
    say,
)
from qpsvm.errors import InputError

MAX_LABELS_SHOWN = 12
"""Classes whose numbers of points are shown."""


@click.command(
    "info",
    cls=ExampleCommand,
    short_help="say what a data, model or result file holds",
    example="qpsvm info train.txt",
)
@click.argument("file", type=click.Path(path_type=Path))
def info(file: Path) -> int:
    """Say what FILE holds: points of LIBSVM's format, a model of it, or a result of qpsvm."""
    from qpsvm.data import open_by_content
    from qpsvm.files.libsvm.text import FIRST_WORD

    if file.is_file():
        if zipfile.is_zipfile(file):
            return _say_result(file)
        try:
            with open_by_content(file) as opened:
                begin = opened.read(len(FIRST_WORD))
        except (OSError, EOFError) as problem:
            raise InputError(f"FILE must be a file that can be read; got {problem}") from None
        if begin == FIRST_WORD:
            return _say_model(file)
    return _say_data(file)


def _say_data(path: Path) -> int:
    import numpy as np

    from qpsvm.data import first_index, read_by_index, without_index_zero

    X, y = read_by_index(path)
    first = first_index(X)
    X = without_index_zero(X) if first else X
    (m, d), n = X.shape, X.count_nonzero()
    say(f"{path}: points in LIBSVM's format")
    say(f"points    {m:,}")
    say(f"features  {d:,}, counted from {first}")
    say(f"nonzeros  {n:,} ({n / (m * d):.2%})")
    if n:
        say(f"values    {X.data.min():g} to {X.data.max():g}")
    classes, counts = np.unique(y, return_counts=True)
    if np.all(y == np.round(y)) and len(classes) <= max(MAX_LABELS_SHOWN, m // 10):
        shown = [f"{label:g}: {count:,}" for label, count in zip(classes, counts, strict=True)]
        more = ", ..." if len(shown) > MAX_LABELS_SHOWN else ""
        say(f"labels    {len(classes)} ({', '.join(shown[:MAX_LABELS_SHOWN])}{more})")
    else:
        say(f"labels    {y.min():g} to {y.max():g}, mean {y.mean():g}")
    return 0


def _say_model(path: Path) -> int:
    from qpsvm.files.libsvm.text import KERNEL_PARAMETERS, read_libsvm_text

    model = read_libsvm_text(path)
    parameters = [
        f"{name} {getattr(model, name):g}" for name in KERNEL_PARAMETERS[model.kernel_type]
    ]
    say(f"{path}: a model in LIBSVM's format")
    say(f"type      {model.svm_type}")
    say(f"kernel    {', '.join([model.kernel_type, *parameters])}")
    if len(model.label):
        pairs = zip(model.label.tolist(), model.n_support.tolist(), strict=True)
        shown = [f"{label}: {count:,}" for label, count in pairs]
        more = ", ..." if len(shown) > MAX_LABELS_SHOWN else ""
        say(f"classes   {len(shown)}")
        say(f"support   {model.coef.shape[1]:,} ({', '.join(shown[:MAX_LABELS_SHOWN])}{more})")
    else:
        say(f"support   {model.coef.shape[1]:,}")
    say(f"machines  {len(model.rho):,}, rho {', '.join(f'{r:g}' for r in model.rho[:5])}"
        f"{', ...' if len(model.rho) > 5 else ''}")  # fmt: skip
    if model.has_probabilities:
        say("probabilities are in the file: qpsvm predict -b 1")
    return 0


def _say_result(path: Path) -> int:
    from qpsvm.files.result_file import load

    stored = load(path)
    results = [problem.result for problem in stored.problems]
    kernel = ", ".join(f"{name} {value}" for name, value in stored.kernel.items())
    worst = max(result.certificate.relative_gap for result in results)
    statuses = sorted({result.status.name for result in results})
    n = len(results)
    say(f"{path}: a result file of qpsvm {stored.versions.get('qpsvm', 'of an unknown version')}")
    say(f"holds     {stored.kind}, {stored.name}")
    say(f"kernel    {kernel}")
    say(f"problems  {n:,} ({', '.join(sorted({one.formulation for one in stored.problems}))})")
    say(f"gap       {worst:.3g}{'' if n == 1 else ', the largest'}; {', '.join(statuses)}")
    say("qpsvm verify recomputes the bounds from the data")
    return 0


@click.command(
    "verify",
    cls=ExampleCommand,
    short_help="check a result file against its data",
    example="qpsvm verify proof.npz train.txt",
)
@click.argument("file", type=click.Path(path_type=Path))
@DATA_ARGUMENT
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code says it.")
def verify(file: Path, data: Path, quiet: bool) -> int:
    """Check FILE, of qpsvm train --proof or qpsvm.save, against the points of DATA.

    The bounds of every problem are recomputed by code that shares nothing with the solvers. The exit code
    is 0 where every claim holds and 1 where one does not.
    """
    from qpsvm.files.result_file import load
    from qpsvm.files.verification import verify as verify_file

    if not file.is_file():
        raise InputError(f"FILE must be a result file of qpsvm; there is no file {file}")
    stored = load(file)
    is_matrix = stored.kernel.get("name") == "precomputed"
    points = read_training(data, "precomputed") if is_matrix else read_points(data)
    has_labels = stored.name not in ("OneClassSVM", "SVDD", "MEBDual", "OneClassDual", "SVDDDual")
    X = points.X if is_matrix else _as_stored(points.X, stored.data.get("X", {}))
    report = verify_file(file, X, points.y if has_labels else None)
    say(str(report), quiet=quiet)
    return 0 if report.ok else 1


def _as_stored(X: Any, claimed: dict[str, Any]) -> Any:
    """Return points in the form of a file, dense or CSR, and with its number of features.

    A data file has neither: features that no point has are not in it.
    """
    import numpy as np
    import scipy.sparse as sp

    d = max(X.shape[1], claimed.get("shape", [0, 0])[1])
    if claimed.get("form") == "csr":
        X = sp.csr_matrix(X)
        X.resize(X.shape[0], d)
        return X
    if claimed.get("form") == "dense":
        X = X.toarray() if sp.issparse(X) else X
        return np.pad(X, ((0, 0), (0, d - X.shape[1])))
    return X
