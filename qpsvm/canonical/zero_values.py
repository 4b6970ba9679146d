"""The size below which a value counts as zero, at the precision of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.canonical.base import LARGEST_ZERO, ROUNDOFFS_OF_ZERO
from qpsvm.canonical.penalty_gap import HINGE_DOMAINS
from qpsvm.domains import Orthant
from qpsvm.gram import SignedGram


def largest_zero(qp: Any, roundoff: float, total: float) -> float:
    """Return the size: a few times the rounding error of a value, unless that leaves no digit of it.

    The rounding error counts as far as it is a small share of the largest value for weights whose sum is
    `total`. The rounding of a Gram whose entries were given rounded counts too, and `QP.noise`.
    """
    given, largest, kernel = 0.0, np.inf, qp.gram.kernel
    if isinstance(qp.gram, SignedGram):
        largest = LARGEST_ZERO * (qp.scale * total * total + _size_of_losses(qp))
    if kernel.psd == "check":
        given = float(np.finfo(kernel.dtype).eps) * qp.scale * total * total
    return float(max(min(ROUNDOFFS_OF_ZERO * max(roundoff, given), largest), qp.noise))


def _size_of_losses(qp: Any) -> float:
    """Return the size of the losses at x = 0 of a dual of penalties; 0 of other problems."""
    if isinstance(qp.domain, HINGE_DOMAINS):  # a hard margin has no losses
        return float(qp.domain.total * np.max(np.abs(qp.linear))) if qp.domain.bounded else 0.0
    if isinstance(qp.domain, Orthant):
        return float(np.sum(1.0 / qp.gram.ridge) * np.max(np.abs(qp.linear)) ** 2)
    return 0.0
