"""Data sets in LIBSVM's format, found in the folder that QPSVM_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from qpsvm.errors import InputError

VARIABLE = "QPSVM_DATA"
DEFAULT = "../shared/data"


def folder() -> Path:
    """Return the folder of data sets: the environment variable QPSVM_DATA, or ../shared/data."""
    return Path(os.environ.get(VARIABLE, DEFAULT)).expanduser()


def load_libsvm(
    path: str | Path, dtype: DTypeLike = np.float64
) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """Read points and labels from a file in LIBSVM's format, plain or compressed (gz, bz2).

    Parameters
    ----------
    path : str or Path
        A file, or the name of a data set in `folder`, such as ``"a9a"`` or ``"a9a.bz2"``.
    dtype : dtype
        float32 or float64, of the points.

    Returns
    -------
    X : csr_matrix of shape (m, d)
    y : ndarray of shape (m,)

    Raises
    ------
    InputError
        If there is no such file.
    """
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(_find(Path(path)), dtype=dtype)
    return X, y.astype(np.float64, copy=False)


def _find(path: Path) -> Path:
    within = folder()
    candidates = [path, within / path, *(within / f"{path}{end}" for end in (".bz2", ".gz"))]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise InputError(
        f"path must be a file or the name of a data set in {within} (the environment variable "
        f"{VARIABLE} names the folder); got {str(path)!r}"
    )
