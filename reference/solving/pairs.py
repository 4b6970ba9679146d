"""Machines whose primal and dual are solved and verified as a pair.

    minimize    R(w) + sum C_i loss(1 - y_i (w'z_i + b))
    maximize    sum a - R*(sum a_i y_i z_i) - sum of the conjugate losses

The dual of these is no quadratic program over a box with a few equalities, so that a pair (w, b) and
a is sought, each from its own problem, and believed when their values meet in extended precision.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from reference.kernels import centered, factor, gram, points
from reference.textbook import EXTENDED_PRECISION, Array, SolverError, clarabel


class Pair(NamedTuple):
    """A primal and a dual point, and the value of each as its solver says."""

    w: Array
    a: Array
    primal: float
    dual: float


def osqp(problem: Any) -> float:
    """Solve a cvxpy problem by OSQP; return the value."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.OSQP, eps_abs=1e-10, eps_rel=1e-10, max_iter=100_000)
        except cp.SolverError as error:
            raise SolverError(str(error)) from error
    if problem.value is None or not np.isfinite(problem.value):
        raise SolverError(problem.status)
    return float(problem.value)


SOLVER_FUNCTIONS = {"Clarabel": clarabel, "OSQP": osqp}


class PairTextbook(ABC):
    """A machine with its data; points with C_i = 0 are left out.

    Attributes
    ----------
    scale : float
        Value at w = 0 and b = 0.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        y = np.asarray(data["y"], dtype=EXTENDED_PRECISION)
        C = np.broadcast_to(np.asarray(data["C"], dtype=EXTENDED_PRECISION), y.shape)
        self.present = C > 0
        self.y, self.C, self.bias = y[self.present], C[self.present], data["bias"]
        self.kernel = data["kernel"][0] != "linear"
        self.data = data
        if not self.kernel:
            X = points(data["X"])
            self.origin = X.mean(axis=0) if self.bias else np.zeros(X.shape[1], EXTENDED_PRECISION)
            X = centered(X) if self.bias else X
            self.Z = X[self.present]
        else:
            self.K = gram(data)[np.ix_(self.present, self.present)]
            self.Z = factor(self.K).astype(EXTENDED_PRECISION)
        self.scale = float(self.C.sum())

    @abstractmethod
    def pair(self, solver: str) -> Pair:
        """Solve both problems."""

    @abstractmethod
    def bounds(self, w: Array, a: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return the value at w with its best bias, and the dual value at a, made feasible."""

    @abstractmethod
    def best_bias(self, f: Array) -> np.longdouble:
        """Return the b that is best for the values f."""

    def values(self, w: Array) -> Array:
        """Return w'z_i."""
        return self.Z @ w

    def report(self, w: Array, a: Array) -> Array:
        """Return w and b, or w alone, of the points as they were given; of a kernel y a for w."""
        b = self.best_bias(self.values(w)) if self.bias else EXTENDED_PRECISION(0)
        if self.kernel:
            c = np.zeros(len(self.present), EXTENDED_PRECISION)
            c[self.present] = self.y * a
            w = c
        else:
            b = b - w @ self.origin
        return (np.append(w, b) if self.bias else w).astype(float)

    def roundoff(self, w: Array, a: Array) -> float:
        """Bound the rounding errors of both bounds."""
        size = np.abs(self.Z) @ np.abs(w)
        size = self.C @ (1 + size + size**2) + np.abs(a).sum() + w @ w
        return float(
            8 * np.sqrt(EXTENDED_PRECISION(len(a))) * np.finfo(EXTENDED_PRECISION).eps * size
        )
