"""Crossover from a nearly optimal point of a hinge dual to the exact one: solve for its basis.

At the optimum the weights split into L (alpha = 0), B (alpha = tau) and F between, whose points lie on
their margins. Once a method has identified the split, the weights on F solve linear equations,

    [ Y K Y_FF  y_F ] [ change of alpha_F ]   [ 1 - margins of F ]
    [   y_F'     0  ] [         b         ] = [     - y'alpha    ],

and the duality gap falls to rounding. A wrong split is detected by a weight outside its bounds or by a
margin on the wrong side of 1; such points change sets for a few rounds before the attempt fails.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.solvers.interior_point.normal_equations import NormalEquations

Vector = NDArray[np.float64]

MAX_FREE = 3000
"""Largest number of free weights that is tried."""

MAX_FREE_PER_COLUMN = 10
"""Largest number of free weights for each column that is tried."""

ALWAYS_TRIED_FREE = 200
"""Number of free weights that is tried for any number of columns."""

MAX_DEPENDENT_COLUMNS = 2000
"""Largest number of columns at which equations of dependent points are tried."""

MAX_ROUNDS = 8
"""Rounds in which points may change between L, F and B."""


class Vertex(NamedTuple):
    """Dual weights that satisfy the optimality conditions up to rounding."""

    x: Vector
    product: Vector  # y_i w'x_i
    bias: float


def crossover(
    points: NormalEquations,
    y: Vector,
    tau: Vector,
    alpha: Vector,
    low: NDArray[np.bool_],
    high: NDArray[np.bool_],
    value: float,
) -> Vertex | None:
    """Return the optimal weights for the given split or one near it, or None.

    Parameters
    ----------
    points : NormalEquations
        Multiplies by X and X'.
    y, tau : ndarray, shape (m,)
        Labels and upper bounds.
    alpha : ndarray, shape (m,)
        Nearly optimal weights.
    low, high : ndarray of bool, shape (m,)
        L and B.
    value : float
        Size of the optimal value: a gap of 1e-10 times it is rounding.
    """
    low, high = low.copy(), high & ~low
    tolerance = float(np.clip(1e-10 * value / np.sum(tau), 1e-13, 1e-9))
    fewest = len(y)
    for _ in range(MAX_ROUNDS):
        free = np.flatnonzero(~(low | high))
        if (
            not 0
            < len(free)
            <= min(MAX_FREE, max(ALWAYS_TRIED_FREE, MAX_FREE_PER_COLUMN * points.n))
        ):
            return None
        x = np.where(high, tau, 0.0)
        x[free] = alpha[free]
        solved = _solve(points, y, x, free)
        if solved is None:
            return None
        x[free] += solved[0]
        slack = 1e-12 * tau[free]
        below, above = free[x[free] < -slack], free[x[free] > tau[free] + slack]
        if len(below) + len(above):
            wrong = np.append(below, above)
            low[below] = True
            high[above] = True
        else:
            x[free] = np.clip(x[free], 0.0, tau[free])
            most = free[np.argmax(np.minimum(x[free], tau[free] - x[free]))]
            if points.bias:
                x[most] -= y[most] * float(y @ x)  # the rounding of y'x
            product = y * points.times(points.transposed(y * x))
            excess = product + y * solved[1] - 1.0
            wrong = np.flatnonzero((low & (excess < -tolerance)) | (high & (excess > tolerance)))
            if len(wrong) == 0:
                return Vertex(x, product, solved[1])
            low[wrong] = high[wrong] = False
        if len(wrong) > max(4, 0.9 * fewest):
            return None
        fewest = len(wrong)
    return None


def _solve(
    points: NormalEquations, y: Vector, x: Vector, free: NDArray[np.int64]
) -> tuple[Vector, float] | None:
    """Return the change of the free weights and the bias; None if the equations are inconsistent."""
    X = points.X[free].astype(np.float64, copy=False)
    sign = y[free]
    row = sign if points.bias else np.zeros(len(free))  # of the bias
    unit = max(float(np.max(points.squares[free])), np.finfo(float).tiny)
    margins = 1.0 - sign * np.asarray(X @ points.transposed(y * x))
    balance = -float(y @ x) if points.bias else 0.0
    solution = None
    if len(free) <= points.n + 1:
        K = X @ X.T
        K = K.toarray() if sp.issparse(K) else K
        solution = _independent(K * (sign[:, None] * sign / unit), row, margins, balance * unit)
    if solution is None and points.n <= MAX_DEPENDENT_COLUMNS:
        X = X.toarray() if sp.issparse(X) else X
        B = X * (sign[:, None] / np.sqrt(unit))
        solution = _dependent(np.column_stack([B, row]), margins, balance * unit)
    return None if solution is None else (solution[:-1] / unit, float(solution[-1]))


def _independent(K: Vector, row: Vector, margins: Vector, balance: float) -> Vector | None:
    """Return change and bias by the equations themselves; points are scaled to length 1."""
    size = len(K)
    A = np.zeros((size + 1, size + 1))
    A[:size, :size] = K
    A[:size, size] = A[size, :size] = row
    A[size, size] = 0.0 if row.any() else 1.0
    right = np.append(margins, balance)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
            solution = scipy.linalg.solve(A, right, assume_a="sym", check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return solution if _is_rounding(A @ solution - right, solution) else None


def _dependent(B: Vector, margins: Vector, balance: float) -> Vector | None:
    """Return the smallest change of dependent free weights, a combination of the columns of B.

    With B = U S V' it is U c, and U'(B_x B_x' U c + y b) = U'margins, y'U c = balance: as many
    equations as B has rank, and one.
    """
    values, V = scipy.linalg.eigh(B.T @ B, check_finite=False)
    kept = values > 1e-11 * values[-1]
    root = np.sqrt(values[kept])
    U = B @ (V[:, kept] / root)
    of_U = root[:, None] * V[:, kept].T  # U'B
    size = len(root)
    A = np.zeros((size + 1, size + 1))
    A[:size, :size] = of_U[:, :-1] @ of_U[:, :-1].T
    A[:size, size] = A[size, :size] = of_U[:, -1]
    A[size, size] = 0.0 if B[:, -1].any() else 1.0
    factors = scipy.linalg.lu_factor(A, check_finite=False)
    change, bias = np.zeros(len(B)), 0.0
    left, lack = margins, balance
    for _ in range(3):  # repeated for the digits that B'B has lost
        c = scipy.linalg.lu_solve(factors, np.append(U.T @ left, lack), check_finite=False)
        change += U @ c[:size]
        bias += float(c[size])
        left = margins - B[:, :-1] @ (B[:, :-1].T @ change) - B[:, -1] * bias
        lack = balance - float(B[:, -1] @ change)
    solution = np.append(change, bias)
    return solution if _is_rounding(np.append(left, lack), solution) else None


def _is_rounding(residual: Vector, solution: Vector) -> bool:
    """Return whether the residual is at the level of rounding."""
    return bool(np.max(np.abs(residual)) <= 1e-10 * (1.0 + float(np.max(np.abs(solution)))))
