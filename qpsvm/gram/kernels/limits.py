"""Limits on points and kernel values: sums of their products stay finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from qpsvm.errors import InputError
from qpsvm.gram.storage.points import Points, largest_entry
from qpsvm.numerics.products import squared_norms

LARGEST_VALUE = {np.dtype(np.float32): 2.0**120, np.dtype(np.float64): 2.0**500}
"""Maximum squared length of a point, and maximum kernel value, by precision: sums stay finite, and in
float64 products of two values."""


ABSENT_PARAMETER_VALUES = {"gamma": 1.0, "coef0": 0.0, "degree": 1}
"""Values of the parameters that a kernel does not have."""

MAX_DENSE_COORDINATES = 1 << 26
"""Maximum number of coordinates stored a second time for columns in float32: 256 MB."""

MAX_COLUMN_ERROR = 1e-3
"""Maximum error of float32 columns for most points, relative to the median of the diagonal."""

POINTS_PER_OUTLIER = 100
"""Number of points for each one that may exceed `MAX_COLUMN_ERROR`."""


def check_lengths(X: Points) -> float:
    """Return a bound on |x|^2; raise InputError where it would overflow in the points' precision."""
    values, limit = X.data if sp.issparse(X) else X, LARGEST_VALUE[np.dtype(X.dtype)]
    largest = largest_entry(values)
    bound = X.shape[1] * largest * largest
    if bound <= limit:
        return bound
    square = float(np.max(squared_norms(X.astype(np.float64) / largest))) * largest * largest
    if square > limit:
        raise InputError(
            f"X must hold points of squared length below {limit:.0e} in {X.dtype}; got "
            f"{square:.3g} (divide X by a common factor)"
        )
    return square


def check_values(kernel: Any, square: float) -> None:
    """Raise InputError where gamma or kernel values are too large.

    The values are where (gamma |x|^2 + |coef0|)^degree may exceed `LARGEST_VALUE`. `square` is a bound on
    |x|^2; the exact one is computed where that bound is not enough.
    """
    names = [name for name in ABSENT_PARAMETER_VALUES if hasattr(kernel, name)]
    gamma, coef0, degree = (
        float(getattr(kernel, n, k)) for n, k in ABSENT_PARAMETER_VALUES.items()
    )
    limit = LARGEST_VALUE[np.dtype(kernel.dtype)]
    largest_gamma = float(np.finfo(kernel.dtype).max) / 4.0
    if "coef0" in names and gamma > largest_gamma:
        raise InputError(
            f"gamma must be below {largest_gamma:.0e} for points in {kernel.dtype}; got {gamma:.3g} "
            "(multiply X by a common factor)"
        )

    def exponent(square: float) -> float:
        return degree * math.log2(max(gamma * square + abs(coef0), 1.0))

    if exponent(square) <= math.log2(limit):
        return
    largest = exponent(float(np.max(squared_norms(kernel.X))))
    if largest > math.log2(limit):
        value = "gamma |x|^2" + (" + |coef0|" if "coef0" in names else "")
        value = f"({value})^degree" if "degree" in names else value
        raise InputError(
            f"{', '.join(names)} must keep {value} below {limit:.0e} for points in {kernel.dtype}; "
            f"got 2^{largest:.4g}"
        )
