"""Normal equations of the interior point method on a factor X, with some of its rows or all.

    M = I + sum over i of d_i (x_i - xbar)(x_i - xbar)',   xbar = sum d_i x_i / sum d_i,   d = 1 / omega

is (3.11) of Jung, O'Leary and Tits with the rank-one term absorbed into the mean, so that no digits
cancel. M_Q, (3.17), is the same sum over a subset Q with its own mean: a preconditioner of conjugate
gradients on M, exact where Q holds every row that matters. Without a bias xbar = 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.numerics.csr_rows import Rows, add, compressed, dot, in_order, rows_of
from qpsvm.numerics.jit import reassociating
from qpsvm.numerics.products import times
from qpsvm.numerics.row_products import in_halves, read_only, row_combination, row_products_at
from qpsvm.solvers.interior_point.normal_matrix import (
    ChangingMatrix,
    Dense,
    Dual,
    Factor,
    Identity,
    Scratch,
    add_rows,
    assemble,
)
from qpsvm.solvers.interior_point.sparse_factor import Sparse, SparseFactors

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

MAX_DENSE_ORDER = 2000
"""Largest order of a dense factor for CSR points."""

N_HEAVY_ROWS = 1000
"""Number of rows kept beyond that order; the others are reduced to their diagonal."""

MAX_SPARSE_DENSITY = 0.001
"""Share of nonzero entries of X'X, of about a thousand rows, up to which a sparse factor is tried.

Text, 7,770 points with 44 of 8,315 features each, fills in: SuperLU took 22 s for a factor. A thousand
rows and a diagonal take 0.1 s, and about ten conjugate gradient steps per solve."""

MAX_FLOAT32_TRACE = 1e6
"""Trace of M_Q up to which a preconditioner is assembled in float32: its least eigenvalue is 1."""

MIN_ENTRIES_FOR_COMPILED_PASS = 1 << 17
"""Number of entries of X from which one compiled pass replaces two or three passes of BLAS."""

MAX_REFINEMENTS = 3
"""Conjugate gradient steps with an exact factor."""

MAX_CG_STEPS = 200
"""Conjugate gradient steps with a reduced factor."""


class NormalEquations:
    """M dw = rhs for the points X, refactored at every iteration.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (m, n)
        float32 points are multiplied in float64.
    squares : ndarray, shape (m,)
        Squared norms of the rows.
    bias : bool
        Whether there is a free bias; without one mean = 0 and total is infinite.

    Attributes
    ----------
    mean : ndarray, shape (n,)
        xbar over all rows.
    total : float
        c = sum of d over all rows.
    is_exact : bool
        Whether the factor is that of M.
    """

    def __init__(self, X: Any, squares: Vector, bias: bool = True) -> None:
        self.m, self.n = X.shape
        self.bias = bias
        self.X: Any = compressed(X) if sp.issparse(X) else X
        self.squares = squares
        self.mean = np.zeros(self.n)
        self.total = 0.0 if bias else np.inf
        self._d = np.zeros(self.m)
        self._factor: Factor = Identity()
        self._scratch, self._changing = Scratch(), ChangingMatrix()
        self._sparse_factors = SparseFactors()
        self.is_exact = True

    def take(self, rows: Index) -> NormalEquations:
        """Return the equations of these rows, copied."""
        return NormalEquations(self.X[rows], self.squares[rows], self.bias)

    def times(self, v: Vector, some: Index | None = None) -> Vector:
        """Return X v, or X[some] v."""
        if isinstance(self.rows, Rows):
            out = np.empty(self.m if some is None else len(some))
            if some is None:
                _times_sparse(self.rows, v, out)
            else:
                _times_some(self.rows, some, v, out)
            return out
        return times(self.X, v) if some is None else row_products_at(self.X, some, v)

    def transposed(self, v: Vector) -> Vector:
        """Return X'v."""
        return np.asarray(self.transposed_all(v[None])[0])

    def transposed_all(self, V: Vector) -> Vector:
        """Return V X for V of shape (k, m), in one pass."""
        if self._by_blas:
            return np.asarray(V @ self.X)
        V = np.ascontiguousarray(V)

        def add_part(first: int, last: int, out: Vector) -> float:
            sums = out.reshape(len(V), self.n)
            if isinstance(self.rows, Rows):
                _add_sparse(self.rows, V, first, last, sums)
            else:
                _add_dense(self.rows, V, first, last, sums)
            return 0.0

        return self._in_parts(add_part, len(V) * self.n)[0].reshape(len(V), self.n)

    @property
    def _by_blas(self) -> bool:
        """Whether the number of points or their storage makes BLAS the best choice."""
        X = self.X
        return isinstance(X, np.ndarray) and (
            X.dtype == np.float64
            and (X.size < MIN_ENTRIES_FOR_COMPILED_PASS or not X.flags.c_contiguous)
        )

    @cached_property
    def rows(self) -> Any:
        """The points in the form that compiled passes read."""
        return rows_of(self.X) if sp.issparse(self.X) else read_only(self.X)

    def _in_parts(self, task: Any, size: int) -> tuple[Vector, float]:
        """Return the sums over the rows of what `task(first, last, out)` adds to `out` and returns."""
        n_entries = self.X.size
        sums: list[Vector] = []
        totals: list[float] = []

        def run_part(at: slice) -> None:
            out = np.zeros(size)
            totals.append(task(at.start, at.stop, out))
            sums.append(out)

        in_halves(self.m, n_entries, run_part)
        return np.sum(sums, axis=0), float(np.sum(totals))

    def factor(
        self,
        scaling: Vector,
        moment: Vector,
        active: Index | None,
        exact: bool,
        weights: Vector | None = None,
        single: bool = False,
    ) -> None:
        """Assemble and factor M_Q from d = `scaling`, X'd = `moment`, the rows `active` (None: all).

        The active rows have their own `weights` where some of them represent others. With `single` dense
        rows may be summed in float32. Of wide CSR points, unless `exact`, only the heaviest rows are kept
        and the others reduced to their diagonal, where the factor would not be sparse.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not finite.
        """
        self._d = scaling
        self.total = float(np.sum(scaling)) if self.bias else np.inf
        self.mean = moment / self.total
        self.is_exact = active is None
        if weights is None:
            weights = scaling if active is None else scaling[active]
        self._factor_rows(active, weights, exact, single)

    def factor_some(self, rows: Index, d: Vector) -> None:
        """Assemble and factor M where only these rows have a nonzero weight."""
        if self.bias:
            self.total = float(np.sum(d))
            self.mean = self.combination(rows, d) / self.total
        self._factor_rows(rows, d, exact=True, single=False)

    def combination(self, rows: Index, v: Vector) -> Vector:
        """Return X[rows]'v."""
        if not isinstance(self.rows, Rows):
            return row_combination(self.X, rows, v)
        out = np.zeros(self.n)
        add_rows(self.rows, rows, v, out)
        return out

    def _factor_rows(self, rows: Index | None, d: Vector, exact: bool, single: bool) -> None:
        """Compute the factor of M_Q: by columns, by rows or sparse."""
        sparse = sp.issparse(self.X)
        count = len(d)
        some = slice(None) if rows is None else rows
        if count == 0:
            self._factor = Identity()
            return
        if min(count, self.n) <= MAX_DENSE_ORDER or not sparse:
            if count < self.n:
                self._factor = Dual(self.X[some], d, self.bias)
                return
            if single:
                trace = float(d @ self.squares[some])
                trace -= float(np.sum(d)) * float(self.mean @ self.mean)
                single = trace <= MAX_FLOAT32_TRACE and not sparse
            self.is_exact = self.is_exact and not single
            dtype = np.float32 if single else np.float64
            rows = np.arange(self.m) if rows is None else rows
            if self.bias or single:
                M = assemble(self.rows, rows, d, self.mean, self.bias, dtype, self._scratch)
            else:
                M = self._changing.assemble(self.rows, rows, d, self.mean, self._scratch)
            self._factor = Dense(M, self._scratch)
        elif exact or self._stays_sparse:
            self._factor = Sparse(self.X[some], d, self.bias, self._sparse_factors)
        else:  # the heaviest rows, and the diagonal of the others
            self.is_exact = False
            rest = self._d.copy()
            heavy = np.argpartition(-rest * self.squares, N_HEAVY_ROWS)[:N_HEAVY_ROWS]
            rest[heavy] = 0.0
            base = 1.0 + np.asarray(self._squared @ rest)
            self._factor = Dual(self.X[heavy], self._d[heavy], self.bias, base)

    @cached_property
    def _stays_sparse(self) -> bool:
        """Whether X'X is sparse enough for a sparse factor."""
        some = self.X if self.m <= N_HEAVY_ROWS else self.X[:: self.m // N_HEAVY_ROWS]
        return bool((some.T @ some).nnz <= MAX_SPARSE_DENSITY * self.n**2)

    @cached_property
    def _squared(self) -> Any:
        """X' with its entries squared."""
        return self.X.multiply(self.X).T.tocsr()

    def solve(self, rhs: Vector) -> tuple[Vector, Vector]:
        """Return dw with M_Q dw = rhs, (3.23), and the centered products (x_i - xbar)'dw, shape (m,)."""
        dw = self.direction(rhs)
        return dw, self._centered_products(dw)

    def direction(self, rhs: Vector) -> Vector:
        """Return dw alone."""
        return self._factor.solve(rhs)

    def energy(self, residual: Vector) -> float:
        """Return the square of a residual in the norm of M_Q^-1."""
        return max(float(residual @ self._factor.solve(residual)), 0.0)

    def refined(
        self, rhs: Vector, goal: float, dw: Vector | None = None, centered: Vector | None = None
    ) -> tuple[Vector, Vector, int, float]:
        """Return dw with M dw = rhs and its centered products, by preconditioned conjugate gradients.

        It starts from M_Q^-1 rhs, or from the given `dw` and `centered`, which are changed, and stops
        where the energy of the residual is below `goal`. The number of steps and the energy before the
        first are returned too.
        """
        if dw is None or centered is None:
            dw = self._factor.solve(rhs)
            centered, product = self._image(dw)
        else:
            weighted = self._d * centered
            product = dw + self.transposed(weighted) - self.mean * float(np.sum(weighted))
        r = rhs - product
        z = self._factor.solve(r)
        p, rho = z, float(r @ z)
        before_all = max(rho, 0.0)
        limit = MAX_REFINEMENTS if self.is_exact else MAX_CG_STEPS
        n_steps = 0
        while n_steps < limit and rho > goal:
            centered_p, q = self._image(p)
            curvature = float(p @ q)
            if not curvature > 0:
                break
            n_steps += 1
            a = rho / curvature
            dw += a * p
            centered += a * centered_p
            r -= a * q
            z = self._factor.solve(r)
            rho, before = float(r @ z), rho
            p = z + (rho / before) * p
        return dw, centered, n_steps, before_all

    def _centered_products(self, v: Vector) -> Vector:
        """Return (x_i - xbar)'v."""
        out = self.times(v)
        out -= float(self.mean @ v)
        out -= float(self._d @ out) / self.total  # rounding, which large d would amplify in y'alpha
        return out

    def _image(self, v: Vector) -> tuple[Vector, Vector]:
        """Return (x_i - xbar)'v and M v, in one pass over the points where it is compiled."""
        if self._by_blas:
            centered = self._centered_products(v)
            weighted = self._d * centered
            total, moved = float(np.sum(weighted)), self.transposed(weighted)
        else:
            centered, shift = np.empty(self.m), float(self.mean @ v)

            def add_part(first: int, last: int, out: Vector) -> float:
                of = _image_sparse if isinstance(self.rows, Rows) else _image_dense
                return float(of(self.rows, v, shift, self._d, first, last, centered, out))

            moved, total = self._in_parts(add_part, self.n)
            centered -= total / self.total
        return centered, v + moved - self.mean * total


@reassociating
def _image_dense(
    X: Any, v: Any, shift: float, d: Any, first: int, last: int, centered: Any, out: Any
) -> float:
    """Fill X v - shift, add X'D(X v - shift) to `out`, return the sum of D(X v - shift)."""
    total = 0.0
    for i in range(first, last):
        x = X[i]
        t = 0.0
        for j in range(len(x)):
            t += x[j] * v[j]
        t -= shift
        centered[i] = t
        t *= d[i]
        total += t
        for j in range(len(x)):
            out[j] += t * x[j]
    return total


@in_order
def _image_sparse(
    rows: Rows, v: Any, shift: float, d: Any, first: int, last: int, centered: Any, out: Any
) -> float:
    """Do the same for CSR rows."""
    data, columns, ends = rows
    total = 0.0
    for i in range(first, last):
        t = dot(data, columns, ends[i], ends[i + 1], v) - shift
        centered[i] = t
        t *= d[i]
        total += t
        add(data, columns, ends[i], ends[i + 1], t, out)
    return total


@reassociating
def _add_dense(X: Any, V: Any, first: int, last: int, out: Any) -> None:
    """Add V X to `out`."""
    for i in range(first, last):
        x = X[i]
        for k in range(len(V)):
            t = V[k, i]
            for j in range(len(x)):
                out[k, j] += t * x[j]


@in_order
def _add_sparse(rows: Rows, V: Any, first: int, last: int, out: Any) -> None:
    """Do the same for CSR rows."""
    data, columns, ends = rows
    for i in range(first, last):
        for k in range(len(V)):
            add(data, columns, ends[i], ends[i + 1], V[k, i], out[k])


@in_order
def _times_sparse(rows: Rows, v: Any, out: Any) -> None:
    """Fill X v."""
    data, columns, ends = rows
    for i in range(len(out)):
        out[i] = dot(data, columns, ends[i], ends[i + 1], v)


@in_order
def _times_some(rows: Rows, some: Any, v: Any, out: Any) -> None:
    """Fill X[some] v."""
    data, columns, ends = rows
    for k in range(len(out)):
        i = some[k]
        out[k] = dot(data, columns, ends[i], ends[i + 1], v)
