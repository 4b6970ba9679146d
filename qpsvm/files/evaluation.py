"""What an evaluation of an answer returns, and the products that all of them need.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, exact_sum

Vector = NDArray[np.float64]


class Evaluated(NamedTuple):
    """What an evaluation proves of the value that is minimized."""

    upper: float
    lower: float
    upper_error: float
    """Bound on the rounding of `upper`."""
    lower_error: float
    """Bound on the rounding of `lower`."""
    violation: float
    """Largest amount by which the answer breaks a constraint."""
    scale: float
    """Sum of the weights, to which a violation is compared; at least 1."""


class Quadratic(NamedTuple):
    """The products of an answer."""

    g: Vector
    e: Vector
    """Bounds on the rounding of g."""
    value: float
    """c'g."""
    error: float


def quadratic(K: KernelMatrix, coef: Vector) -> Quadratic:
    """Return g = K coef, coef'g and bounds on their rounding."""
    g, e = K.times(coef)
    error = float(e @ np.abs(coef)) + 2.0 * FLOAT64_EPS * float(np.abs(g) @ np.abs(coef))
    return Quadratic(g, e, exact_sum(coef * g), error)


def rounding(*terms: Any) -> float:
    """Return a bound on the rounding of sums of these terms, each exact up to four roundings."""
    return 4.0 * FLOAT64_EPS * sum(float(np.sum(np.abs(t))) for t in terms)
