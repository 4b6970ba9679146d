"""Data sets in LIBSVM's format, in the folder given by QPSVM_DATA."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import re
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from qpsvm.errors import InputError, check_number

__all__ = ["folder", "load_libsvm"]

FOLDER_VARIABLE = "QPSVM_DATA"
"""Environment variable that names the folder of data sets."""

COMPRESSED_ENDINGS = (".bz2", ".gz", ".xz")
"""Endings that may follow the name of a data set."""

OPENER_OF_FIRST_BYTES: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open,
}  # fmt: skip
"""What opens a compressed file, by its first bytes."""

MAX_INDEX = 2**31 - 2
"""Largest index of a feature, as in LIBSVM."""

MAX_SHOWN_CHARACTERS = 30
"""Characters of a wrong entry that a message shows."""


def folder() -> Path:
    """Return the folder of data sets: that of QPSVM_DATA, or the current folder where it is unset.

    Examples
    --------
    >>> from qpsvm import data
    >>> data.folder()  # doctest: +SKIP
    PosixPath('datasets')
    """
    return Path(os.environ.get(FOLDER_VARIABLE, ".")).expanduser()


def load_libsvm(
    path: str | Path, dtype: DTypeLike = np.float64, *, n_features: int | None = None
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Read points and labels from a file in LIBSVM's format, plain or compressed (gz, bz2, xz).

    Comments after ``#``, empty lines and a ``qid`` are skipped, as scikit-learn does. Where an index is 0
    the features are counted from 0.

    Parameters
    ----------
    path : str or Path
        A file, or the name of a data set in `folder`, such as ``"a9a"`` or ``"a9a.bz2"``.
    dtype : dtype
        float32 or float64, of the points.
    n_features : int, optional
        Number of features d. By default the largest index in the file; the test part of a data set
        needs that of its training part, as it may lack the last features.

    Returns
    -------
    X : csr_matrix of shape (m, d)
    y : ndarray of shape (m,)

    Raises
    ------
    InputError
        If there is no such file, if it has more features than `n_features`, or if an entry is wrong: the
        message names its line and column.

    Examples
    --------
    >>> X, y = load_libsvm("a9a")  # doctest: +SKIP
    >>> Z, z = load_libsvm("a9a.t", n_features=X.shape[1])  # doctest: +SKIP
    """
    if n_features is not None:
        check_number("n_features", n_features, low=1, integer=True)
    X, y = read_by_index(path, dtype)
    if first_index(X) == 1:
        X = without_index_zero(X)
    if n_features is not None and n_features < X.shape[1]:
        raise InputError(
            f"n_features must be at least {X.shape[1]}, the largest index in {str(path)!r}; "
            f"got {n_features}"
        )
    X.resize(X.shape[0], n_features or X.shape[1])
    return X, y


def read_by_index(
    path: str | Path, dtype: DTypeLike = np.float64
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Read points and labels; column j of X, shape (m, 1 + largest index), has the index j in the file.

    Raises
    ------
    InputError
        As `load_libsvm` does.
    """
    from sklearn.datasets import load_svmlight_file

    found = _find(Path(path))
    try:
        with open_by_content(found) as file:
            X, y = load_svmlight_file(file, dtype=dtype, zero_based=True)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as problem:
        raise InputError(f"path must be a whole file; {found} is damaged: {problem}") from None
    except (ValueError, OverflowError) as problem:  # also of an empty file
        check_lines(found)
        raise InputError(f"{found} must be in LIBSVM's format; got {problem}") from None
    except OSError as problem:
        raise InputError(f"path must be a file that can be read; got {problem}") from None
    if not X.shape[0]:
        raise InputError(f"{found} must hold at least one point; got none")
    # a file without an entry has the shape (m, 0)
    X.resize(X.shape[0], max(2, X.shape[1]))
    y = y.astype(np.float64, copy=False)
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        check_lines(found)
    return X, y


def first_index(X: sp.csr_matrix) -> int:
    """Return 0 where a point of `read_by_index`, shape (m, 1 + d), has an entry of index 0, else 1."""
    return 0 if X.nnz and int(X.indices.min()) == 0 else 1


def without_index_zero(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return points of shape (m, d) from those of `read_by_index`, whose column 0 is empty."""
    return sp.csr_matrix((X.data, X.indices - 1, X.indptr), (X.shape[0], X.shape[1] - 1))


def open_by_content(path: Path) -> IO[bytes]:
    """Open a file, plain or compressed, for reading bytes; its first bytes say which."""
    with open(path, "rb") as file:
        begin = file.read(max(map(len, OPENER_OF_FIRST_BYTES)))
    for first, opener in OPENER_OF_FIRST_BYTES.items():
        if begin.startswith(first):
            opened: IO[bytes] = opener(path, "rb")
            return opened
    return open(path, "rb")


def check_lines(path: Path) -> None:
    """Read a file line by line; it takes longer than scikit-learn and names the place of an error.

    Raises
    ------
    InputError
        At the first wrong entry, with its line and column, both counted from 1.
    """
    n_points = 0
    with open_by_content(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.decode("utf-8", errors="replace").split("#", 1)[0]
            words = [(match.start() + 1, match.group()) for match in re.finditer(r"\S+", line)]
            if words:
                n_points += 1
                _check_words(f"{path}, line {number}", words)
    if not n_points:
        raise InputError(f"{path} must hold at least one point; got none")


def _check_words(where: str, words: list[tuple[int, str]]) -> None:
    """Check the label of a line, and its pairs of index and value."""
    column, label = words[0]
    if _finite(label) is None:
        raise _wrong(where, column, "a finite number, the label", label)
    before = -1
    for column, word in words[2 if len(words) > 1 and words[1][1].startswith("qid:") else 1 :]:
        name, colon, value = word.partition(":")
        if not colon:
            raise _wrong(where, column, "index:value", word)
        # int() refuses thousands of digits
        if not re.fullmatch(r"[+-]?0{0,99}[0-9]{1,10}", name) or not 0 <= int(name) <= MAX_INDEX:
            raise _wrong(where, column, f"an index, an integer from 0 to {MAX_INDEX}", name)
        if int(name) <= before:
            raise _wrong(where, column, f"an index above {before}, the one before", name)
        if _finite(value) is None:
            raise _wrong(where, column + len(name) + 1, "a finite number", value)
        before = int(name)


def _wrong(where: str, column: int, expected: str, got: str) -> InputError:
    shown = got if len(got) <= MAX_SHOWN_CHARACTERS else got[:MAX_SHOWN_CHARACTERS] + "..."
    return InputError(f"{where}, column {column}: expected {expected}; got {shown!r}")


def _finite(text: str) -> float | None:
    """Return the number that a word stands for, if it is finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _find(path: Path) -> Path:
    within = folder()
    candidates = [path, within / path, *(within / f"{path}{end}" for end in COMPRESSED_ENDINGS)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    where = f"in {within}" if FOLDER_VARIABLE in os.environ else "in the current folder"
    raise InputError(
        f"path must be a file or the name of a data set {where} (the environment variable "
        f"{FOLDER_VARIABLE} names the folder); got {str(path)!r}"
    )
