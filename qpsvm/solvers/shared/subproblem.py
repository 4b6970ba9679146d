"""Small problems that a method poses to itself, such as one on a random sample of the points.

The loop of the driver solves them, within the limits of the call. It stands above the solvers, so it
registers itself here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.solvers.base import Solver

Subsolver = Callable[[QP, Solver, float, int], NDArray[np.float64]]
"""Returns the answer of a problem by a solver, to a tolerance, in at most so many iterations."""

_registered: list[Subsolver] = []


def register(subsolver: Subsolver) -> None:
    """Let this function solve subproblems."""
    _registered[:] = [subsolver]


def solve_subproblem(problem: QP, solver: Solver, tol: float, max_iter: int) -> NDArray[np.float64]:
    """Return the answer x of a small problem, shape (m,)."""
    return _registered[0](problem, solver, tol, max_iter)
