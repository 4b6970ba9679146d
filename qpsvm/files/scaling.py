"""Linear scaling of features and values, and the files of LIBSVM's ``svm-scale`` that keep it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.data import MAX_INDEX
from qpsvm.errors import InputError
from qpsvm.files.libsvm.text import short

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Ranges of features and where they are moved to.

    A feature of one value alone is removed, as svm-scale does.

    Attributes
    ----------
    lower, upper : float
        Ends of all features after scaling.
    low, high : ndarray, shape (1 + d,)
        Ends of the feature of each index before scaling; equal where it is removed.
    y_ends : tuple of float or None
        Ends of the values after scaling, and before it.
    """

    lower: float
    upper: float
    low: Vector
    high: Vector
    y_ends: tuple[float, float, float, float] | None = None

    @classmethod
    def of(
        cls,
        X: sp.csr_matrix,
        y: Vector,
        ends: tuple[float, float],
        y_ends: tuple[float, float] | None = None,
    ) -> Scaling:
        """Return the scaling that moves points to some ends.

        Parameters
        ----------
        X : csr_matrix, shape (m, 1 + d)
            Column j for the index j.
        y : ndarray, shape (m,)
        ends : tuple of float
            The lower and the upper end.
        y_ends : tuple of float, optional
            Those of y.
        """
        low, high = (np.asarray(one.toarray()).ravel() for one in (X.min(axis=0), X.max(axis=0)))
        before = None if y_ends is None else (*y_ends, float(y.min()), float(y.max()))
        return cls(*ends, low, high, before)

    def values(self, y: Vector) -> Vector:
        """Return scaled values, shape (m,)."""
        return y if self.y_ends is None else _moved(y, *self.y_ends)

    def rows(self, X: sp.csr_matrix) -> Iterator[tuple[list[int], list[float]]]:
        """Yield the indices and the values of each scaled point that are not zero.

        Parameters
        ----------
        X : csr_matrix, shape (m, 1 + n)
            Column j for the index j; the others are features of value 0.
        """
        d = max(len(self.low), X.shape[1])
        low, high = (np.append(ends, np.zeros(d - len(ends))) for ends in (self.low, self.high))
        kept = low < high
        zeros = np.zeros(d)
        zeros[kept] = _moved(
            np.zeros(int(kept.sum())), self.lower, self.upper, low[kept], high[kept]
        )
        for r in range(X.shape[0]):
            own = slice(X.indptr[r], X.indptr[r + 1])
            at, row = X.indices[own], zeros.copy()
            inside = kept[at]
            at, given = at[inside], X.data[own][inside]
            row[at] = _moved(given, self.lower, self.upper, low[at], high[at])
            found = np.flatnonzero(row)
            yield found.tolist(), row[found].tolist()

    def unknown(self, X: sp.csr_matrix) -> list[int]:
        """Return the indices of features that vary and are not in the scaling: they are removed."""
        d = X.shape[1]
        known = np.zeros(d, bool)
        n = min(d, len(self.low))
        known[:n] = self.low[:n] < self.high[:n]
        varies = np.asarray((X.max(axis=0) != X.min(axis=0)).toarray()).ravel()
        return np.flatnonzero(varies & ~known).tolist()


def _moved(value: Any, lower: float, upper: float, low: Any, high: Any) -> Any:
    """Return values moved from [low, high] to [lower, upper]; the ends exactly to the ends."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = lower + (upper - lower) * (value - low) / (high - low)
    return np.where(value == low, lower, np.where(value == high, upper, inner))


def write_scaling(path: str | Path, scaling: Scaling) -> None:
    """Write the ranges as svm-scale's option -s does.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    lines = []
    if scaling.y_ends is not None:
        ends = [short(end) for end in scaling.y_ends]
        lines += ["y", " ".join(ends[:2]), " ".join(ends[2:])]
    lines += ["x", f"{short(scaling.lower)} {short(scaling.upper)}"]
    lines += [
        f"{j} {short(low)} {short(high)}"
        for j, (low, high) in enumerate(zip(scaling.low, scaling.high, strict=True))
        if low < high
    ]
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="ascii")
    except OSError as problem:
        raise InputError(f"path must be a file that can be written; got {problem}") from None


def read_scaling(path: str | Path) -> Scaling:
    """Read a file of ranges, of svm-scale or of `write_scaling`.

    Raises
    ------
    InputError
        If the file cannot be read or is no file of ranges; the message names the line.
    """
    try:
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as problem:
        raise InputError(f"path must be a file that can be read; got {problem}") from None
    y_ends, at = None, 0
    if lines[:1] == ["y"]:
        to, before = _numbers(path, lines, 1, 2), _numbers(path, lines, 2, 2)
        y_ends, at = (to[0], to[1], before[0], before[1]), 3
    if lines[at : at + 1] != ["x"]:
        got = lines[at] if at < len(lines) else "the end of the file"
        raise InputError(f"{path}, line {at + 1}: expected x, or y first; got {got!r}")
    lower, upper = _numbers(path, lines, at + 1, 2)
    ranges = {}
    for number in range(at + 2, len(lines)):
        j, low, high = _numbers(path, lines, number, 3)
        if not 0 <= j <= MAX_INDEX or j != int(j) or not low <= high:
            raise InputError(
                f"{path}, line {number + 1}: expected an index and its least and largest value; "
                f"got {lines[number]!r}"
            )
        ranges[int(j)] = low, high
    ends = np.zeros((2, max(ranges, default=0) + 1))
    for j, found in ranges.items():
        ends[:, j] = found
    return Scaling(lower, upper, ends[0], ends[1], y_ends)


def _numbers(path: str | Path, lines: list[str], at: int, n: int) -> list[float]:
    """Return the numbers of a line, counted from 0."""
    line = lines[at] if at < len(lines) else "the end of the file"
    try:
        values = [float(word) for word in line.split()]
    except ValueError:
        values = []
    if len(values) != n or not np.isfinite(values).all():
        raise InputError(f"{path}, line {at + 1}: expected {n} numbers; got {line!r}")
    return values
