"""``qpsvm scale``: features moved to common ends, as LIBSVM's svm-scale does."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import click

from qpsvm.cli.options import DATA_ARGUMENT, ExampleCommand, FileToWrite, warn
from qpsvm.errors import InputError

MAX_UNKNOWN_SHOWN = 5
"""Indices of unknown features that a warning names."""


@click.command(
    "scale",
    cls=ExampleCommand,
    short_help="move features to common ends",
    example="qpsvm scale -l 0 -u 1 -s ranges.txt -o scaled.txt train.txt",
)
@DATA_ARGUMENT
@click.option("-l", "--lower", type=float, default=-1.0, show_default=True,
              help="Lower end of the features.")  # fmt: skip
@click.option("-u", "--upper", type=float, default=1.0, show_default=True,
              help="Upper end of the features.")  # fmt: skip
@click.option("-y", "--y-ends", type=(float, float), metavar="LOWER UPPER",
              help="Ends of the values of a regression.  [default: as they are]")  # fmt: skip
@click.option("-s", "--save", type=FileToWrite(), metavar="FILE",
              help="Write the ranges, for other data.")  # fmt: skip
@click.option("-r", "--restore", type=click.Path(path_type=Path), metavar="FILE",
              help="Take the ranges of a file, of -s or of svm-scale.")  # fmt: skip
@click.option("-o", "--output", type=FileToWrite(), metavar="FILE",
              help="Write the scaled points there.  [default: print them]")  # fmt: skip
def scale(
    data: Path, lower: float, upper: float, y_ends: tuple[float, float] | None,
    save: Path | None, restore: Path | None, output: Path | None,
) -> int:  # fmt: skip
    """Scale the features of DATA linearly, and print it in LIBSVM's format.

    Test data must be scaled by the ranges of the training data: -s writes them, -r reads them. A
    feature of one value alone is removed.
    """
    if save is not None and restore is not None:
        raise InputError("-s and -r exclude each other; got both")
    if not lower < upper:
        raise InputError(f"-l must be below -u; got {lower:g} and {upper:g}")
    if y_ends is not None and not y_ends[0] < y_ends[1]:
        raise InputError(f"-y needs a lower and an upper end; got {y_ends[0]:g} and {y_ends[1]:g}")
    from qpsvm.data import read_by_index
    from qpsvm.files.libsvm.text import short
    from qpsvm.files.scaling import Scaling, read_scaling, write_scaling

    X, y = read_by_index(data)
    if restore is None:
        scaling = Scaling.of(X, y, (lower, upper), y_ends)
    else:
        scaling = read_scaling(restore)
        unknown = scaling.unknown(X)
        if unknown:
            shown = ", ".join(map(str, unknown[:MAX_UNKNOWN_SHOWN]))
            more = ", ..." if len(unknown) > MAX_UNKNOWN_SHOWN else ""
            warn(f"features of {data} that {restore} does not have are removed: {shown}{more}")
    if save is not None:
        write_scaling(save, scaling)
    n_entries = 0
    opened = nullcontext(sys.stdout) if output is None else open(output, "w", encoding="ascii")
    with opened as file:
        for label, (indices, values) in zip(scaling.values(y), scaling.rows(X), strict=True):
            n_entries += len(indices)
            pairs = zip(indices, values, strict=True)
            file.write(f"{short(label)} {''.join(f'{j}:{short(v)} ' for j, v in pairs)}\n")
    if n_entries > X.count_nonzero() and scaling.lower != 0.0:
        warn(
            f"{n_entries} entries in place of {X.count_nonzero()}; "
            "where features are nonnegative and sparse, -l 0 keeps zeros"
        )
    return 0
