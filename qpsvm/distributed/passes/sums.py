"""Sums over rows at a hyperplane, which shards send and which are added in a fixed order."""

from __future__ import annotations

from functools import reduce
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]

BLOCK_BYTES = 1 << 20
"""Bytes of the dense rows of a block in float64, which fit the cache of a processor."""

MAX_BLOCK_ROWS = 1 << 15
"""Maximum number of rows of a block: so many roundings of a sum may follow each other in it."""

ENTRIES_PER_FEATURE = 16
"""Least number of stored entries for each feature in a block of CSR rows, since its sums are dense."""

NO_ENTRIES: Vector = np.zeros(0)
"""Value of a sum that a method does not need, with no entries."""


class LossSums(NamedTuple):
    """Sums over rows at f = w'z + b, with q_i = 1 - y_i f_i and u_i = clip(q_i / mu, 0, max_slope).

    The loss of a row is u_i q_i - mu u_i^2 / 2: the smoothed hinge with `max_slope` 1, half the squared
    hinge with mu = 1 and an infinite `max_slope`.
    """

    hinge: float  # sum C_i max(0, q_i)
    smooth: float  # sum C_i (u_i q_i - mu u_i^2 / 2)
    weight: Vector  # sum C_i u_i of the class +1, and of -1, (2,)
    moment: Vector  # sum C_i u_i z_i of both classes, (2, d)
    hessian: Vector  # sum C_i / mu [z_i, 1][z_i, 1]' where 0 < u_i < max_slope, or its diagonal
    n_support: int  # rows with u_i > 0
    largest: float  # largest |z_i|^2
    right_side: Vector = NO_ENTRIES  # of an interior point: sum y_i d_i rO_i [z_i, 1], (d + 1,)
    complementarity: float = 0.0  # of an interior point: sum s_i alpha_i + xi_i u_i
    n_in_matrix: int = 0  # of an interior point: rows in the normal matrix
    ridge: float = 0.0  # of weights at the shards: sum x_i^2 / C_i of an L2 machine
    border: Vector = NO_ENTRIES  # sum d_i [z_i, 1] of all rows, where some are not in the matrix


def loss_sums(
    Z: Any, y: Vector, C: Vector, at: tuple[Vector, float, float, float], with_hessian: bool
) -> LossSums:
    """Return the sums over rows in float64 at (w, b, mu, max_slope)."""
    w, b, mu, max_slope = at
    q = 1.0 - y * (np.asarray(Z @ w) + b)
    u = np.clip(q / mu, 0.0, max_slope)
    a = C * u
    classes = np.where(y > 0, [[1.0], [0.0]], [[0.0], [1.0]]) * a
    between = np.flatnonzero((u > 0.0) & (u < max_slope))
    weighted = hessian_of if with_hessian else diagonal_of
    return LossSums(
        hinge=float(C @ np.maximum(q, 0.0)),
        smooth=float(a @ (q - 0.5 * mu * u)),
        weight=np.sum(classes, axis=1),
        moment=np.asarray((Z.T @ classes.T).T),
        hessian=weighted(Z[between], C[between] / mu),
        n_support=int(np.count_nonzero(u)),
        largest=float(np.max(squared_norms(Z))),
    )


def hessian_of(Z: Any, curvature: Vector) -> Vector:
    """Return sum c_i [z_i, 1][z_i, 1]', shape (d + 1, d + 1)."""
    part = Z.toarray() if sp.issparse(Z) else Z
    part = np.column_stack([part, np.ones(len(part))])
    return np.asarray((part * curvature[:, None]).T @ part)


def diagonal_of(Z: Any, curvature: Vector) -> Vector:
    """Return the diagonal of sum c_i [z_i, 1][z_i, 1]', shape (d + 1,)."""
    squares = Z.multiply(Z) if sp.issparse(Z) else Z * Z
    return np.append(np.asarray(squares.T @ curvature).ravel(), np.sum(curvature))


def loss_values(q: Vector, mu: float, max_slope: float) -> Vector:
    """Return the losses of rows."""
    u = np.clip(q / mu, 0.0, max_slope)
    return u * (q - 0.5 * mu * u)


def plus(first: LossSums, second: LossSums) -> LossSums:
    """Return the sums of two parts; the arrays of the first one are overwritten."""
    for name in ("weight", "moment", "hessian", "right_side", "border"):
        total = getattr(first, name)
        total += getattr(second, name)
    return first._replace(
        hinge=first.hinge + second.hinge,
        smooth=first.smooth + second.smooth,
        n_support=first.n_support + second.n_support,
        largest=max(first.largest, second.largest),
        complementarity=first.complementarity + second.complementarity,
        n_in_matrix=first.n_in_matrix + second.n_in_matrix,
        ridge=first.ridge + second.ridge,
    )


def added(parts: list[LossSums]) -> LossSums:
    """Return the sums of parts, in their order."""
    return reduce(plus, parts)


class OrderedSum:
    """A sum of parts in their order, each added as soon as all before it are.

    The bits do not depend on the order in which the parts arrive. A part waits for those before it alone.
    """

    def __init__(self, add: Any) -> None:
        """Start an empty sum; ``add(total, part)`` returns the next total."""
        self.add, self.total = add, None
        self._next, self._waiting, self._lock = 0, {}, Lock()  # type: ignore[var-annotated]

    def put(self, k: int, part: Any) -> None:
        """Add part `k`, and the parts that waited for it."""
        with self._lock:
            self._waiting[k] = part
            while self._next in self._waiting:
                part = self._waiting.pop(self._next)
                self.total = part if self.total is None else self.add(self.total, part)
                self._next += 1


def rows_of_dense_block(d: int) -> int:
    """Return the number of rows of a block of dense rows, which fit the cache."""
    return min(MAX_BLOCK_ROWS, max(1, BLOCK_BYTES // (8 * d)))


def blocks(X: Any, is_dense: bool) -> list[slice]:
    """Return slices of rows that fit the cache as dense rows.

    Of CSR rows that stay sparse, without `is_dense`, a slice may have more.
    """
    n, d = X.shape
    size = rows_of_dense_block(d)
    if sp.issparse(X) and not is_dense:
        size = max(size, min(MAX_BLOCK_ROWS, ENTRIES_PER_FEATURE * d * n // max(1, X.nnz)))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]
