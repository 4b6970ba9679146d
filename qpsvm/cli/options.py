"""What the commands share: help with an example, parameters of machines in LIBSVM's letters, files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from qpsvm.errors import InputError

TYPE_CHOICES = ("c-svc", "nu-svc", "one-class", "epsilon-svr", "nu-svr")
"""Types of machines, in the order of LIBSVM's numbers."""

KERNEL_CHOICES = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")
"""Kernels, in the order of LIBSVM's numbers."""

MIN_DENSITY = 2.0 / 3.0
"""Share of entries from which points are stored densely: CSR then takes more memory."""


class ExampleCommand(click.Command):
    """A command whose help ends with an example; the tests run it."""

    def __init__(self, *args: Any, example: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, on a line of its own so that it can be copied."""
        with formatter.section("Example"):
            formatter.write(f"{'':>{formatter.current_indent}}{self.example}\n")


class NumberedChoice(click.Choice[str]):
    """A choice by name, or by the number that LIBSVM gives it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name."""
        names = list(self.choices)
        if isinstance(value, str) and value.isdigit() and int(value) < len(names):
            return names[int(value)]
        return str(super().convert(value, param, ctx))

    def get_metavar(self, param: Any, ctx: Any = None) -> str:
        """Return the names with their numbers."""
        return "[" + "|".join(f"{k}:{name}" for k, name in enumerate(self.choices)) + "]"


class FileToWrite(click.ParamType):
    """A file in a folder that exists: else a long fit would end without its answer."""

    name = "file"

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        """Return the path."""
        path = Path(value)
        if not path.resolve().parent.is_dir() or path.is_dir():
            named = "file" if param is None else param.get_error_hint(ctx).strip("'[]")
            raise InputError(f"{named} must lie in a folder that exists; got {value}")
        return path


class Gamma(click.ParamType):
    """A number, or the name of a rule; 0 stands for 1/d, as in LIBSVM."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Return a number, 0 for 1/d, or "scale"."""
        if value in ("scale", "auto"):
            return 0.0 if value == "auto" else "scale"
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0.0 <= number < float("inf"):
            self.fail(f'{value!r} is neither a number >= 0 nor "scale" or "auto".', param, ctx)
        return number


class KernelChoice(NamedTuple):
    """A kernel with its parameters, as options give them."""

    name: str
    gamma: float | str
    degree: int
    coef0: float


TYPE_OPTION = click.option(
    "-s", "--type", "svm_type", type=NumberedChoice(TYPE_CHOICES), default="c-svc",
    show_default=True, help="Type of machine.",
)  # fmt: skip
"""The option -s."""

KERNEL_OPTIONS = (
    click.option(
        "-t", "--kernel", type=NumberedChoice(KERNEL_CHOICES), default="rbf", show_default=True,
        help="x'z; (gamma x'z + coef0)^degree; exp(-gamma |x-z|^2); tanh(gamma x'z + coef0); "
        "kernel values in the data file, each line beginning with 0:number.",
    ),
    click.option("-d", "--degree", type=click.IntRange(min=1), default=3, show_default=True,
                 help="Degree of the polynomial kernel."),
    click.option("-g", "--gamma", type=Gamma(), default=0.0, metavar="NUMBER",
                 help='Of the kernel; "scale" is 1/(d var X).  [default: 1/d]'),
    click.option("-r", "--coef0", type=float, default=0.0, show_default=True,
                 help="Of the polynomial and the sigmoid kernel."),
)  # fmt: skip
"""The options -t, -d, -g and -r."""

PENALTY_OPTIONS = (
    click.option("-c", "--cost", type=click.FloatRange(min=0, min_open=True), default=1.0,
                 show_default=True, help="C of c-svc, epsilon-svr and nu-svr."),
    click.option("-n", "--nu", type=click.FloatRange(0, 1, min_open=True), default=0.5,
                 show_default=True, help="nu of nu-svc, one-class and nu-svr."),
    click.option("-p", "--epsilon", type=click.FloatRange(min=0), default=0.1,
                 show_default=True, help="Half the width of the tube of epsilon-svr."),
)  # fmt: skip
"""The options -c, -n and -p."""

TOLERANCE_OPTION = click.option(
    "-e", "--tolerance", type=click.FloatRange(0, 1, min_open=True), default=1e-3,
    show_default=True, help="Relative duality gap to be certified: of each problem, as a share of "
    "its value. (LIBSVM's -e is a violation of optimality.)",
)  # fmt: skip
"""The option -e."""

DATA_ARGUMENT = click.argument("data", type=click.Path(path_type=Path))
"""A data file in LIBSVM's format."""


def options(*given: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds options in the order in which they stand."""

    def add(function: Any) -> Any:
        for option in reversed(given):
            function = option(function)
        return function

    return add


def say(text: str, *, quiet: bool = False) -> None:
    """Print a line, unless silence was asked for."""
    if not quiet:
        click.echo(text)


def warn(text: str) -> None:
    """Print a warning on the stream of errors."""
    click.echo(f"qpsvm: warning: {text}", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings as lines; that of a missed gap is left to the closing lines."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(
        str(one.message)
        for one in caught
        if issubclass(one.category, (UserWarning, RuntimeWarning))
        and not issubclass(one.category, ConvergenceWarning)
    ):
        warn(text)


@dataclass(frozen=True, eq=False)
class DataFile:
    """The points of a data file.

    Attributes
    ----------
    X : csr_matrix or ndarray, shape (m, d)
        The points; of a precomputed kernel the matrix of their kernel values.
    y : ndarray, shape (m,)
    first_index : int
        Index of the first feature in the file, 1 or 0.
    serial : ndarray of int, shape (m,), or None
        Serial numbers, of a precomputed kernel.
    """

    X: Any
    y: Any
    first_index: int = 1
    serial: Any = None

    @property
    def gamma(self) -> float:
        """The value 1/d, d being the largest index of a feature, as in LIBSVM."""
        return 1.0 / max(1, self.X.shape[1] - 1 + self.first_index)


def read_points(path: Path) -> DataFile:
    """Return the points of a data file."""
    from qpsvm.data import first_index, read_by_index, without_index_zero

    X, y = read_by_index(path)
    first = first_index(X)
    return DataFile(compact(without_index_zero(X) if first else X), y, first)


def compact(X: Any) -> Any:
    """Return points densely where that takes no more memory."""
    return X.toarray() if X.nnz >= MIN_DENSITY * X.shape[0] * X.shape[1] else X


def read_training(path: Path, kernel: str) -> DataFile:
    """Return the points that a machine is to be fitted to; of a precomputed kernel its matrix.

    Raises
    ------
    InputError
        If the file is wrong.
    """
    if kernel != "precomputed":
        return read_points(path)
    values, serial, y = read_kernel(path)
    wrong = (serial < 1) | (serial > values.shape[1])
    if wrong.any():
        line = int(wrong.argmax()) + 1
        raise InputError(
            f"{path}, point {line}: expected 0:number, the column of the point's own kernel "
            f"values, from 1 to {values.shape[1]}; got {serial[line - 1]}"
        )
    return DataFile(values[:, serial - 1], y, serial=serial)


def read_kernel(path: Path) -> tuple[Any, Any, Any]:
    """Return kernel values, column j - 1 for the index j, serial numbers and labels."""
    import numpy as np

    from qpsvm.data import read_by_index

    X, y = read_by_index(path)
    dense = X.toarray()
    return dense[:, 1:], dense[:, 0].astype(np.int64), y


def two_classes(y: Any) -> Any:
    """Return labels -1 and +1, +1 for the larger of two classes.

    Raises
    ------
    InputError
        If there are not two.
    """
    import numpy as np

    classes = np.unique(y)
    if len(classes) != 2:
        raise InputError(f"the data must have two classes; got {len(classes)}")
    return np.where(y == classes[1], 1.0, -1.0)
