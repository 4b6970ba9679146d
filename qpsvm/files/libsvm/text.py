"""The text of LIBSVM's model files, read and written line by line; no estimator is known here."""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.data import MAX_INDEX, open_by_content
from qpsvm.errors import InputError

TYPE_NAMES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
"""Types of machines, in the order of the option -s."""

KERNEL_NAMES = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")
"""Kernels, in the order of the option -t."""

KERNEL_PARAMETERS = {
    "linear": (), "polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"), "precomputed": (),
}  # fmt: skip
"""Lines of the header that a kernel has."""

VECTOR_NAMES = ("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv")
"""Lines of the header that hold several numbers."""

FIRST_WORD = b"svm_type"
"""How a model file begins."""


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """What a model file of LIBSVM holds.

    The machine of the classes ``label[i]`` and ``label[j]``, i < j, has the value
    sum_s coef[s] k(x_s, x) - rho, and decides for the first where it is positive.

    Attributes
    ----------
    svm_type : str
        One of `TYPE_NAMES`.
    kernel_type : str
        One of `KERNEL_NAMES`.
    rho : ndarray, shape (n_machines,)
    coef : ndarray, shape (n_classes - 1, n_support)
        Coefficients in the layout of LIBSVM: row j - 1 of a support vector of class i < j, or row j of
        one of class i > j, belongs to the machine of i and j.
    points : csr_matrix, shape (n_support, 1 + largest index)
        The support vectors, column j for the index j; empty for a precomputed kernel.
    serial : ndarray of int, shape (n_support,)
        Serial numbers of the support vectors of a precomputed kernel; else empty.
    degree : int
    gamma, coef0 : float
    label : ndarray of int, shape (n_classes,)
        The classes, in the order of the machines; empty of one class and of regression.
    n_support : ndarray of int, shape (n_classes,)
        Number of support vectors of each class, whose points follow each other in this order.
    prob_a, prob_b : ndarray
        Parameters of probabilities, one for each machine; empty where there are none.
    density_marks : ndarray
        Marks of the density of one class; empty where there are none.
    """

    svm_type: str
    kernel_type: str
    rho: NDArray[np.float64]
    coef: NDArray[np.float64]
    points: sp.csr_matrix
    serial: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    degree: int = 3
    gamma: float = 0.0
    coef0: float = 0.0
    label: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    n_support: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    prob_a: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    prob_b: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    density_marks: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def is_classifier(self) -> bool:
        """Whether it decides between classes."""
        return self.svm_type in TYPE_NAMES[:2]

    @property
    def has_probabilities(self) -> bool:
        """Whether the file holds parameters of probabilities."""
        return bool(len(self.prob_a) or len(self.density_marks))


def write_libsvm_text(path: str | Path, model: LibsvmModel) -> None:
    """Write a model file; each number has the digits that give the same float64 back.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    header: list[tuple[str, object]] = [
        ("svm_type", model.svm_type),
        ("kernel_type", model.kernel_type),
        *((name, short(getattr(model, name))) for name in KERNEL_PARAMETERS[model.kernel_type]),
        ("nr_class", max(2, len(model.label))),
        ("total_sv", model.coef.shape[1]),
        ("rho", _row(model.rho)),
    ]
    for name, values in (
        ("label", model.label), ("probA", model.prob_a), ("probB", model.prob_b),
        ("prob_density_marks", model.density_marks), ("nr_sv", model.n_support),
    ):  # fmt: skip
        if len(values):
            header.append((name, _row(values)))
    try:
        with open(path, "w", encoding="ascii", newline="\n") as file:
            file.writelines(f"{name} {value}\n" for name, value in header)
            file.write("SV\n")
            file.writelines(_support_lines(model))
    except OSError as problem:
        raise InputError(f"path must be a file that can be written; got {problem}") from None


def _support_lines(model: LibsvmModel) -> Iterator[str]:
    points = model.points
    for s in range(model.coef.shape[1]):
        coef = _row(model.coef[:, s])
        if model.kernel_type == "precomputed":
            yield f"{coef} 0:{model.serial[s]}\n"
            continue
        own = slice(points.indptr[s], points.indptr[s + 1])
        pairs = zip(points.indices[own].tolist(), points.data[own].tolist(), strict=True)
        entries = (f"{j}:{short(value)} " for j, value in pairs if value)
        yield f"{coef} {''.join(entries)}\n"


def short(value: float) -> str:
    """Return a number with the fewest digits that give the same float64 back."""
    return repr(float(value)).removesuffix(".0")


def _row(values: NDArray) -> str:
    return " ".join(map(short, values.tolist()))


def read_libsvm_text(path: str | Path) -> LibsvmModel:
    """Read a model file, of LIBSVM or of `write_libsvm_text`, plain or compressed.

    Raises
    ------
    InputError
        If the file cannot be read or is none of LIBSVM's models; the message names the line.
    """
    try:
        with open_by_content(Path(path)) as file:
            lines = file.read().decode("ascii", errors="replace").splitlines()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        raise InputError(f"path must be a file that can be read; got {problem}") from None
    return _Reader(str(path), lines).model()


class _Reader:
    """The lines of a file, and the place of an error."""

    def __init__(self, path: str, lines: list[str]) -> None:
        self.path, self.lines = path, lines
        self.header: dict[str, list[str]] = {}
        self.line_of_name: dict[str, int] = {}

    def fail(self, line: int, expected: str, got: str) -> NoReturn:
        raise InputError(
            f"{self.path}, line {line}: expected {expected}; got {got[:60]!r}"
        ) from None

    def model(self) -> LibsvmModel:
        """Return what the file holds."""
        begin = self.read_header()
        svm_type = self.choice("svm_type", TYPE_NAMES)
        kernel = self.choice("kernel_type", KERNEL_NAMES)
        is_classifier = svm_type in TYPE_NAMES[:2]
        k, n = self.count("nr_class"), self.count("total_sv")
        if k < 2 and is_classifier:
            self.fail(self.line_of_name["nr_class"], "at least 2 classes", str(k))
        n_machines = k * (k - 1) // 2 if is_classifier else 1
        parameters: dict[str, Any] = {
            name: self.integers(name, 1)[0] if name == "degree" else self.numbers(name, 1)[0]
            for name in KERNEL_PARAMETERS[kernel]
        }  # fmt: skip
        for name in ("degree", "gamma"):
            if parameters.get(name, 0.0) < 0.0:
                self.fail(self.line_of_name[name], f"{name} >= 0", str(parameters[name]))
        label = self.integers("label", k) if is_classifier else np.zeros(0, np.int64)
        if len(set(label.tolist())) < len(label):
            self.fail(self.line_of_name["label"], "different labels", str(label))
        n_support = self.integers("nr_sv", k) if is_classifier else np.zeros(0, np.int64)
        if is_classifier and (n_support.min() < 0 or n_support.sum() != n):
            self.fail(self.line_of_name["nr_sv"], f"numbers >= 0 of sum {n}", str(n_support))
        coef, points = self.support(begin, n, k - 1 if is_classifier else 1)
        serial = np.zeros(0, np.int64)
        if kernel == "precomputed":
            if len(points[2]) != n or any(points[1]) or not all(map(_is_serial, points[2])):
                self.fail(begin, "one entry 0:number for each support vector", "others")
            serial = np.array(points[2], dtype=np.int64)
            points = [0] * (n + 1), [], []
        ends, indices, values = points
        shape = n, max(indices, default=0) + 1
        return LibsvmModel(
            svm_type,
            kernel,
            self.numbers("rho", n_machines),
            coef,
            sp.csr_matrix((np.array(values, dtype=np.float64), indices, ends), shape),
            serial,
            label=label,
            n_support=n_support,
            prob_a=self.optional("probA"),
            prob_b=self.optional("probB"),
            density_marks=self.optional("prob_density_marks"),
            **parameters,
        )

    def read_header(self) -> int:
        """Read up to the line SV; return the number of lines up to it."""
        known = {"svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv"}
        for number, line in enumerate(self.lines, start=1):
            name, *values = line.split() or [""]
            if name == "SV":
                return number
            if name not in known.union(VECTOR_NAMES) or (number == 1 and name != "svm_type"):
                expected = "svm_type, as LIBSVM's model files begin" if number == 1 else (
                    "a line of the header, or SV"
                )  # fmt: skip
                self.fail(number, expected, line)
            self.header[name], self.line_of_name[name] = values, number
        self.fail(len(self.lines) + 1, "the line SV", "the end of the file")

    def values(self, name: str) -> list[str]:
        if name not in self.header:
            self.fail(len(self.header) + 1, f"a line {name}", "SV")
        return self.header[name]

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        values = self.values(name)
        if len(values) != 1 or values[0] not in allowed:
            self.fail(self.line_of_name[name], f"one of {', '.join(allowed)}", " ".join(values))
        return values[0]

    def count(self, name: str) -> int:
        values = self.values(name)
        count = _index(values[0]) if len(values) == 1 else None
        if count is None:
            self.fail(self.line_of_name[name], f"{name} and a number", " ".join(values))
        return count

    def numbers(self, name: str, n: int) -> NDArray[np.float64]:
        values = self.values(name)
        found = [_finite(value) for value in values]
        if len(found) != n or None in found:
            self.fail(self.line_of_name[name], f"{name} and {n} numbers", " ".join(values))
        return np.array(found, dtype=np.float64)

    def integers(self, name: str, n: int) -> NDArray[np.int64]:
        values = self.numbers(name, n)
        if np.any(values != np.round(values)) or np.any(np.abs(values) > MAX_INDEX):
            self.fail(self.line_of_name[name], f"{name} and {n} integers", str(values))
        return values.astype(np.int64)

    def optional(self, name: str) -> NDArray[np.float64]:
        return self.numbers(name, len(self.header[name])) if name in self.header else np.zeros(0)

    def support(
        self, begin: int, n: int, n_coef: int
    ) -> tuple[NDArray[np.float64], tuple[list[int], list[int], list[float]]]:
        """Return the coefficients, and the points as arrays of a CSR matrix."""
        rows = [line for line in self.lines[begin:] if line.strip()]
        if len(rows) != n:
            self.fail(begin + len(rows), f"{n} support vectors", f"{len(rows)} lines after SV")
        coef = np.empty((n_coef, n))
        ends, indices, values = [0], list[int](), list[float]()
        for s, row in enumerate(rows):
            words = row.split()
            numbers = [_finite(word) for word in words[:n_coef]]
            if len(numbers) != n_coef or None in numbers:
                self.fail(begin + s + 1, f"{n_coef} coefficients", row)
            coef[:, s] = numbers
            before = -1
            for word in words[n_coef:]:
                name, _, text = word.partition(":")
                value, index = _finite(text), _index(name)
                if value is None or index is None or index <= before:
                    self.fail(begin + s + 1, "index:value, indices ascending", word)
                before = index
                indices.append(before)
                values.append(value)
            ends.append(len(indices))
        return coef, (ends, indices, values)


def _index(text: str) -> int | None:
    """Return the index or the number of something that a word stands for, if it is in range."""
    digits = text.lstrip("0") or text[-1:]
    if not digits.isdigit() or len(digits) > len(
        str(MAX_INDEX)
    ):  # int() refuses thousands of digits
        return None
    index = int(digits)
    return index if index <= MAX_INDEX else None


def _is_serial(value: float) -> bool:
    return value == round(value) and 1.0 <= value <= MAX_INDEX


def _finite(text: str) -> float | None:
    """Return the number that a word stands for, if it is finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
