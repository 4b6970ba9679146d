"""Subproblems of a method, such as one on a random sample of the points.

The loop of the driver solves them within the limits of the call. The driver is a layer above the
solvers, so it registers its function here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.solvers.base import Solver

Subsolver = Callable[[QP, Solver, float, int], NDArray[np.float64]]
"""Returns the solution of a problem by a solver, to a tolerance, within a maximum of iterations."""

_registered: list[Subsolver] = []


def register(subsolver: Subsolver) -> None:
    """Register the function that solves subproblems."""
    _registered[:] = [subsolver]


def solve_subproblem(problem: QP, solver: Solver, tol: float, max_iter: int) -> NDArray[np.float64]:
    """Return the solution x of a subproblem, shape (m,)."""
    return _registered[0](problem, solver, tol, max_iter)
