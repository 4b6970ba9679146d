"""Normal equations in the columns of a low-rank Gram: formula (4.2) of Jung, O'Leary and Tits.

K ~ V G^2 V' with the columns V = K_mB of landmarks B and G^-2 = K_BB. In the variable G w the matrix is

    G^-2 + sum over i in Q of d_i (v_i - vbar)(v_i - vbar)'

and G is not needed to form it. A row of the factor is x_i = G'v_i, so that M_Q of the factor is G'(4.2)G:
a step is the same in exact arithmetic. In floating point the condition number of G^-2 is added to that of
M_Q, which is at least 1 on the factor whatever the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.gram import Gram, LowRank
from qpsvm.numerics.row_products import row_combination
from qpsvm.solvers.interior_point.normal_equations import NormalEquations
from qpsvm.solvers.interior_point.normal_matrix import Dense, assemble

Vector = NDArray[np.float64]
Index = NDArray[np.int64]


class ColumnEquations(NormalEquations):
    """M dw = rhs for the rows of a factor, with M_Q factored as (4.2).

    Parameters
    ----------
    V : ndarray, shape (m, r)
        Columns of the exact Gram.
    G : ndarray, shape (r, r)
        The matrix with X = V G.
    X, squares, bias
        As for `NormalEquations`: the factor, the squared norms of its rows, and whether there is a bias.
    """

    def __init__(self, V: Vector, G: Vector, X: Vector, squares: Vector, bias: bool = True) -> None:
        super().__init__(X, squares, bias)
        self.V, self.G = V, G
        self._inverse = np.linalg.inv(G)
        self._landmarks = self._inverse.T @ self._inverse  # K_BB

    def take(self, rows: Index) -> ColumnEquations:
        """Return the equations of these rows, copied."""
        return ColumnEquations(self.V[rows], self.G, self.X[rows], self.squares[rows], self.bias)

    def _factor_rows(self, rows: Index | None, d: Vector, exact: bool, single: bool) -> None:
        """Compute the factor of (4.2) in float64, or by rows where these are fewer than columns."""
        if len(d) < self.n:
            super()._factor_rows(rows, d, exact, single)
            return
        rows = np.arange(self.m) if rows is None else rows
        total = float(np.sum(d)) if self.bias else np.inf
        mean = row_combination(self.V, rows, d) / total
        M = assemble(self.V, rows, d, mean, self.bias, np.float64, self._scratch)
        M[np.diag_indices_from(M)] -= 1.0
        M += self._landmarks
        self._factor = _Transformed(Dense(M, self._scratch), self._inverse)


class _Transformed:
    """The factor of (4.2) in the variable of the factor."""

    def __init__(self, inner: Dense, inverse: NDArray[np.floating]) -> None:
        self._inner, self._inverse = inner, inverse

    def solve(self, b: Vector) -> Vector:
        """Return M_Q^-1 b."""
        return np.asarray(self._inverse @ self._inner.solve(self._inverse.T @ b))


def column_equations(kernel: Gram, squares: Vector, bias: bool) -> ColumnEquations:
    """Return the equations in the columns of a low-rank Gram.

    Raises
    ------
    InputError
        If the Gram is no `LowRank`, or if directions of its landmarks were dropped: G has no inverse.
    """
    if not isinstance(kernel, LowRank):
        raise InputError(
            f'normal_matrix="columns" needs a LowRank Gram; got {type(kernel).__name__}'
        )
    gram, columns, G = kernel.landmarks  # type: ignore[attr-defined]
    if G.shape[0] != G.shape[1] or len(columns) == 0:
        raise InputError(
            'normal_matrix="columns" needs landmarks of full rank; got '
            f"{len(columns)} of rank {kernel.rank}"
        )
    X: Any = kernel.factor()
    V = gram.block(columns, None, np.float64).T if gram.m == kernel.m else X @ np.linalg.inv(G)
    return ColumnEquations(np.ascontiguousarray(V), G, X, squares, bias)
