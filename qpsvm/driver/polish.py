"""Problems, answers and certificates on the exact kernel of a low-rank Gram."""

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

NEAR_BOUND_FRACTION = 1e-3
"""Distance to a bound, relative to the penalty, below which a weight is moved to it before a polish."""


def exact_kernel_problem(problem: Any) -> Any:
    """Return the same problem on the exact kernel of its low-rank Gram."""
    K = getattr(problem, "K", None)
    if not isinstance(K, LowRank):
        raise InputError(
            "original and polish need a problem on a low-rank Gram, such as "
            f"HingeDual(LowRank(RBF(X)), y); got {type(problem).__name__} on {type(K).__name__}"
        )
    return replace(problem, K=K.exact)


def exact_kernel_certificate(
    problem: Formulation, x: NDArray[np.float64], tol: float
) -> Certificate:
    """Return the certificate of a canonical x: it costs a pass over the columns of its support."""
    qp = problem.as_qp()
    assert qp is not None, "a problem on a K has one"
    return certify(qp.with_defect(), x, tol).certificate


def at_bounds(problem: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return hinge weights with those near a bound moved to it; weights of other problems unchanged.

    An interior point has no zeros, and every nonzero weight costs a kernel column.
    """
    if not isinstance(problem, HingeDual) or np.isinf(problem.C).any():
        return x
    C, y = problem.C, problem.y
    x = np.where(
        x > (1.0 - NEAR_BOUND_FRACTION) * C, C, np.where(x < NEAR_BOUND_FRACTION * C, 0.0, x)
    )
    if not problem.bias:
        return x
    # y'x = 0 by the free weights of the class of larger sum: a projection would move every zero
    excess = float(y @ x)
    free = np.flatnonzero((x > 0) & (x < C) & (y * excess > 0))
    total = float(np.sum(x[free]))
    if total <= abs(excess):
        return x
    x[free] *= 1.0 - abs(excess) / total
    most = free[np.argmax(np.minimum(x[free], C[free] - x[free]))]
    x[most] -= y[most] * float(y @ x)
    return x
