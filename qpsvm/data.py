"""Data sets in LIBSVM's format, in the folder given by QPSVM_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from qpsvm.errors import InputError, check_number

FOLDER_VARIABLE = "QPSVM_DATA"
"""Environment variable that names the folder of data sets."""


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
    """Read points and labels from a file in LIBSVM's format, plain or compressed (gz, bz2).

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
        If there is no such file, or if it has more features than `n_features`.

    Examples
    --------
    >>> X, y = load_libsvm("a9a")  # doctest: +SKIP
    >>> Z, z = load_libsvm("a9a.t", n_features=X.shape[1])  # doctest: +SKIP
    """
    from sklearn.datasets import load_svmlight_file

    if n_features is not None:
        check_number("n_features", n_features, low=1, integer=True)
    X, y = load_svmlight_file(_find(Path(path)), dtype=dtype)
    if n_features is not None and n_features < X.shape[1]:
        raise InputError(
            f"n_features must be at least {X.shape[1]}, the largest index in {str(path)!r}; "
            f"got {n_features}"
        )
    X.resize(X.shape[0], n_features or X.shape[1])
    return X, y.astype(np.float64, copy=False)


def _find(path: Path) -> Path:
    within = folder()
    candidates = [path, within / path, *(within / f"{path}{end}" for end in (".bz2", ".gz"))]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    where = f"in {within}" if FOLDER_VARIABLE in os.environ else "in the current folder"
    raise InputError(
        f"path must be a file or the name of a data set {where} (the environment variable "
        f"{FOLDER_VARIABLE} names the folder); got {str(path)!r}"
    )
