"""What the reference of a formulation consists of."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

Array = np.ndarray
EXTENDED_PRECISION = np.longdouble
"""Extended precision (on most machines 64 bits of mantissa), in which everything is verified."""


TEXTBOOK_CLASSES: dict[str, Any] = {}
"""The class that answers each family of instances, entered by `answers`: `Textbook` or `PairTextbook`."""


class SolverError(RuntimeError):
    """The solver returned no point."""


class Candidate(NamedTuple):
    """What a solver says: the declared problem's value, and its variable, not yet verified."""

    value: float
    x: Array


def answers(family: str) -> Callable[[type], type]:
    """Enter the decorated class as the one that answers a family of instances."""

    def enter(textbook: type) -> type:
        TEXTBOOK_CLASSES[family] = textbook
        return textbook

    return enter


@dataclass(frozen=True)
class StandardForm:
    """The problem: minimize 1/2 x'Qx + c'x subject to Ax = b, 0 <= x <= upper.

    Each column of A has one entry that is not 0.
    """

    Q: Array
    c: Array
    A: Array
    b: Array
    upper: Array

    def repair(self, x: Array) -> Array:
        """Return a feasible point close to x, in extended precision.

        A row with b = 1 is a simplex, whose weights are divided by their sum, or, where they have
        bounds and sum to less, moved toward these. A row with b = 0 balances two sides: the heavier
        one is scaled down, which keeps it within its bounds.
        """
        x = np.clip(np.nan_to_num(np.asarray(x, dtype=EXTENDED_PRECISION)), 0, self.upper)
        for row, target in zip(self.A, self.b, strict=True):
            plus, minus = row > 0, row < 0
            if target > 0:
                total, slack = x[plus].sum(), (self.upper - x)[plus]
                if total < target and np.isfinite(slack).all():
                    x[plus] += slack * ((target - total) / slack.sum()) if slack.any() else 0
                    continue
                x[plus] = x[plus] * (target / total) if total > 0 else target / plus.sum()
            else:
                gain, loss = x[plus].sum(), x[minus].sum()
                x[plus] *= min(1, loss / gain) if gain > 0 else 0
                x[minus] *= min(1, gain / loss) if loss > 0 else 0
        return x


class Textbook(ABC):
    """A formulation as the textbook has it, with its data.

    Attributes
    ----------
    scale : float
        Size of the data, in units of the value: what is tiny beside it counts as 0.
    """

    scale: float

    @abstractmethod
    def primal(self) -> Candidate:
        """Solve the primal problem by Clarabel; return value and variable of the declared one."""

    @abstractmethod
    def dual(self) -> Candidate:
        """Solve the dual problem by Clarabel; return value and variable of the declared one."""

    @abstractmethod
    def standard_form(self) -> StandardForm:
        """Return the dual as a quadratic program in extended precision."""

    @abstractmethod
    def bounds(self, x: Array) -> tuple[np.longdouble, np.longdouble]:
        """Return an upper and a lower bound of the declared optimal value from a feasible x."""

    def report(self, x: Array) -> Array:
        """Return the declared variable (float64) from the variable of the standard form."""
        return x.astype(float)

    def roundoff(self, x: Array) -> float:
        """Bound the rounding errors of both ends of `bounds`, kernel matrix included."""
        qp = self.standard_form()
        size = x @ np.abs(qp.Q) @ x + np.abs(qp.c) @ x
        return float(
            8 * np.sqrt(EXTENDED_PRECISION(len(x))) * np.finfo(EXTENDED_PRECISION).eps * size
        )


def clarabel(problem: Any) -> float:
    """Solve a cvxpy problem by Clarabel, as exactly as it can; return the value."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": judged by our own bounds
        try:
            problem.solve(
                solver=cp.CLARABEL,
                tol_gap_abs=1e-12,
                tol_gap_rel=1e-12,
                tol_feas=1e-12,
                max_iter=200,
            )
        except cp.SolverError as error:
            raise SolverError(str(error)) from error
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise SolverError(problem.status)
    return float(problem.value)


def solve_standard_form(qp: StandardForm) -> Array:
    """Return the point that OSQP finds with polish and tight tolerances, whatever its status.

    OSQP sees the problem in units in which the largest entry of Q is 1: the objective is divided
    for a simplex; where b = 0 the variable is scaled, since nothing else fixes its unit.
    """
    import osqp

    m = len(qp.c)
    largest = max(float(np.abs(qp.Q).max()), 0.0) or 1.0
    unit = 1.0 if (qp.b > 0).any() else largest
    c = qp.c * unit / largest
    solver = osqp.OSQP()
    solver.setup(
        P=scipy.sparse.csc_matrix(np.triu((qp.Q / largest).astype(float))),
        q=c.astype(float),
        A=scipy.sparse.vstack(
            [scipy.sparse.csc_matrix(qp.A.astype(float)), scipy.sparse.eye(m)], format="csc"
        ),
        l=np.concatenate([qp.b, np.zeros(m)]).astype(float),
        u=np.concatenate([qp.b, np.asarray(qp.upper * unit, dtype=float)]).astype(float),
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=20_000,
        polishing=True,
        verbose=False,
    )
    x = solver.solve(raise_error=False).x
    return np.asarray(x, dtype=float) / unit
