"""From a low-rank Gram back to the kernel that it approximates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.driver.certificate import certify
from qpsvm.errors import InputError
from qpsvm.formulations import Formulation, HingeDual
from qpsvm.gram import LowRank
from qpsvm.result import Certificate

NEAR = 1e-3
"""Weights this close to a bound, relative to the penalty, are moved to it before a polish."""


def original(problem: Any) -> Any:
    """Return the same problem on the kernel behind its low-rank Gram."""
    K = getattr(problem, "K", None)
    if not isinstance(K, LowRank):
        raise InputError(
            "original and polish need a problem on a low-rank Gram, such as "
            f"HingeDual(LowRank(RBF(X)), y); got {type(problem).__name__} on {type(K).__name__}"
        )
    return replace(problem, K=K.exact)


def judged(problem: Formulation, x: NDArray[np.float64], tol: float) -> Certificate:
    """Return the certificate of a canonical x in a problem: a pass over its support's columns."""
    qp = problem.as_qp()
    assert qp is not None, "a problem on a K has one"
    return certify(qp.judged(), x, tol).certificate


def at_bounds(problem: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return hinge weights with those near a bound moved to it; others as they are.

    An interior point has no zeros, and every weight that is not zero costs a kernel column.
    """
    if not isinstance(problem, HingeDual) or np.isinf(problem.C).any():
        return x
    C, y = problem.C, problem.y
    x = np.where(x > (1.0 - NEAR) * C, C, np.where(x < NEAR * C, 0.0, x))
    if not problem.bias:
        return x
    # y'x = 0 by the free weights of the heavier class: a projection would move every zero
    excess = float(y @ x)
    free = np.flatnonzero((x > 0) & (x < C) & (y * excess > 0))
    total = float(np.sum(x[free]))
    if total <= abs(excess):
        return x
    x[free] *= 1.0 - abs(excess) / total
    most = free[np.argmax(np.minimum(x[free], C[free] - x[free]))]
    x[most] -= y[most] * float(y @ x)
    return x
