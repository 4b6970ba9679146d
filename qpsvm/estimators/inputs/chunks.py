"""Chunked points in estimators: Dask arrays and frames, and rows of files.

A fit gives them to `solve` as they are. A prediction is made chunk by chunk, lazily for Dask's types.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from qpsvm.errors import InputError
from qpsvm.gram.storage.chunked import ChunkedPoints, as_chunked, is_chunked

ATTRIBUTES_OF_THE_FIT = ("feature_names_in_", "result_", "_terms", "_solved_as")
"""Attributes without which the copy of an estimator predicts the rows of a chunk."""


def by_chunks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that has a value for each new point take chunked ones.

    Of a Dask array or frame it returns a Dask array, which is evaluated where the chunks are. Rows of
    files are read chunk by chunk, and the values are those of an array.
    """

    @wraps(method)
    def of_points(estimator: Any, X: Any) -> Any:
        if not is_chunked(X):
            return method(estimator, X)
        check_is_fitted(estimator)
        check_features(estimator, X, reset=False)
        plain = copy(estimator)
        for name in ATTRIBUTES_OF_THE_FIT:
            vars(plain).pop(name, None)
        values = partial(_values_of_rows, plain, method.__name__)
        if isinstance(X, ChunkedPoints):
            return np.concatenate(X.over_chunks(values))
        return _lazy(values, X)

    return of_points


def _values_of_rows(estimator: Any, name: str, X: Any) -> NDArray[Any]:
    """Return the values of a method at the rows of a chunk, which may be empty."""
    if not X.shape[0]:
        return np.asarray(getattr(estimator, name)(np.zeros((1, X.shape[1])))[:0])
    return np.asarray(getattr(estimator, name)(X))


def _lazy(values: Callable[[Any], NDArray[Any]], X: Any) -> Any:
    """Return a Dask array of the values at the chunks of an array or frame."""
    X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    none = values(np.zeros((0, X.shape[1])))
    axes = {"drop_axis": 1} if none.ndim == 1 else {"chunks": (X.chunks[0], none.shape[1:])}
    return X.map_blocks(values, dtype=none.dtype, meta=none, **axes)


def check_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Take over the number of features and their names, or compare them with those of the fit."""
    columns = getattr(X, "_meta", None)  # of a Dask frame, a frame without rows
    has_names = hasattr(columns, "columns")
    validate_data(
        estimator,
        columns if has_names else np.empty((0, X.shape[1])),
        reset=reset,
        skip_check_array=True,
    )


def validated_chunks(estimator: Any, X: Any, y: Any) -> Any:
    """Return chunked points, and labels in this process where they are given.

    Raises
    ------
    InputError
        If the estimator is not fitted to chunked points, or the numbers of points and labels differ.
    """
    if not estimator._fits_chunks:
        raise InputError(
            f"X must be an array or a sparse matrix for {type(estimator).__name__}; got chunked rows, to "
            "which SVC, NuSVC, MaxMarginClassifier, LinearSVC, OneClassSVM and SVDD are fitted"
        )
    points = as_chunked(X)
    assert points is not None
    if isinstance(y, str) and y == "no_validation":
        check_features(estimator, X, reset=True)
        return points
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    y = column_or_1d(np.asarray(y), warn=True)
    if len(y) != points.shape[0]:
        raise InputError(
            f"y must have a label for each of the {points.shape[0]} points; got {len(y)} labels"
        )
    check_features(estimator, X, reset=True)
    return points, y


def points_at(X: Any, rows: NDArray[np.int64]) -> Any:
    """Return copies of some points."""
    return X.gather(rows) if isinstance(X, ChunkedPoints) else X[rows]


def gram_at(gram: Any, rows: NDArray[np.int64]) -> Any:
    """Return the Gram of some points, whose indices ascend where they are chunked."""
    if isinstance(getattr(gram, "X", None), ChunkedPoints):
        return gram._over(gram.X.take(rows))
    return gram.take(rows)
