"""Limits on points and kernel values: sums of their products stay finite."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from qpsvm.errors import InputError
from qpsvm.gram.storage.points import Points, largest_entry
from qpsvm.numerics.products import squared_norms

LARGEST_VALUE = {np.dtype(np.float32): 2.0**120, np.dtype(np.float64): 2.0**500}
"""Maximum squared length of a point, and maximum kernel value, by precision: sums stay finite, and in
float64 products of two values."""


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
