"""A Gram matrix that the user has already formed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_points
from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.kernels.limits import LARGEST_VALUE
from qpsvm.gram.model_features import MatrixColumns
from qpsvm.gram.storage.points import largest_entry
from qpsvm.numerics.parallel import parallel_for
from qpsvm.numerics.products import MIN_ENTRIES_FOR_COMPILED_PASS

BLOCK_ROWS = 256
"""Rows of a block that is compared with its transpose: both fit the second-level cache."""


@dataclass(frozen=True, eq=False)
class Precomputed(Gram):
    """Gram matrix given as an array.

    Parameters
    ----------
    K : array_like, shape (m, m)
        Square, symmetric, finite; float32 or float64. It is never written, and copied only if it is not
        contiguous.
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked, on which lower bounds rest.

    Raises
    ------
    InputError
        If `K` is not a square, symmetric, finite matrix of real numbers.

    Examples
    --------
    >>> from qpsvm import MEBDual, Precomputed, solve
    >>> K = Precomputed([[0.0, 0.0], [0.0, 4.0]])
    >>> round(solve(MEBDual(K), tol=1e-8).model.radius, 6)
    1.0
    """

    K: NDArray[np.floating]
    psd: str = "check"

    def __post_init__(self) -> None:
        """Check `K` and keep a C-ordered read-only view of it."""
        check_choice("psd", self.psd, ("check", "assume"))
        K = check_points("K", self.K)
        K = K if isinstance(K, np.ndarray) else K.toarray()
        if K.shape[0] != K.shape[1]:
            raise InputError(f"K must be square, shape (m, m); got {K.shape}")
        K = np.ascontiguousarray(K.T if K.flags.f_contiguous else K)
        _check_symmetric(K)
        view = K.view()
        view.flags.writeable = False
        object.__setattr__(self, "K", view)
        object.__setattr__(self, "m", K.shape[0])
        object.__setattr__(self, "dtype", K.dtype)

    def diag(self) -> NDArray[np.float64]:
        """Return the diagonal, shape (m,)."""
        return np.array(np.diagonal(self.K), dtype=np.float64)

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Return K[columns, rows]."""
        by_slice = rows is None or isinstance(rows, slice)
        block = self.K[columns, rows or slice(None)] if by_slice else self.K[np.ix_(columns, rows)]
        return np.ascontiguousarray(block, dtype=dtype)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return K x, or its entries `rows`, summed in float64; a large matrix is not copied."""
        support = np.flatnonzero(x != 0)
        if rows is not None or len(support) * self.m < MIN_ENTRIES_FOR_COMPILED_PASS:
            return super().dot(x, rows)
        from qpsvm.numerics.row_products import row_combination  # which is compiled

        return row_combination(self.K, support, x[support])

    def take(self, rows: NDArray[np.int64]) -> Precomputed:
        """Return the principal submatrix of `rows`."""
        return Precomputed(self.K[np.ix_(rows, rows)], self.psd)

    def own(self, rows: NDArray[np.int64]) -> MatrixColumns:
        """Return which columns of a matrix of new kernel values belong to the points `rows`."""
        return MatrixColumns(self.m, rows.copy())

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return these columns of the kernel matrix `points`, whose shape is (n, m)."""
        return MatrixColumns(self.m, columns).cross(points, np.arange(len(columns)))

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Provide the matrix itself as the store: it has every column."""
        yield ColumnStore.of_matrix(self, self.K)


@np.errstate(over="ignore", invalid="ignore")  # of values that are refused
def _check_symmetric(K: NDArray[np.floating]) -> None:
    """Raise InputError if K is not symmetric up to rounding, or has huge values; block by block."""
    blocks = [slice(i, i + BLOCK_ROWS) for i in range(0, len(K), BLOCK_ROWS)]
    found: list[tuple[float, float, slice, slice]] = []

    @np.errstate(over="ignore", invalid="ignore")  # for the other threads
    def compare(k: int) -> None:
        at, across, largest, gap = blocks[k], blocks[k], 0.0, 0.0
        for other in blocks[: k + 1]:
            lower, upper = K[at, other], K[other, at]
            largest = max(largest, largest_entry(lower), largest_entry(upper))
            here = largest_entry(lower - upper.T)
            if here > gap:
                gap, across = here, other
        found.append((largest, gap, at, across))

    parallel_for(compare, list(range(len(blocks)))[::-1], with_blas=False)  # long rows first
    largest = max(part[0] for part in found)
    _, gap, rows, columns = max(found, key=lambda part: (part[1], -part[2].start))
    limit = LARGEST_VALUE[np.dtype(K.dtype)]
    if largest > limit:
        raise InputError(f"K must hold values below {limit:.0e} in {K.dtype}; got {largest:.3g}")
    if gap > 64 * np.finfo(K.dtype).eps * largest:
        differences = np.abs(K[rows, columns] - K[columns, rows].T)
        a, b = np.unravel_index(int(differences.argmax()), differences.shape)
        a, b = a + rows.start, b + columns.start
        raise InputError(
            f"K must be symmetric; K[{a}, {b}] and K[{b}, {a}] differ by {gap:.3g} (symmetrize with "
            "(K + K.T) / 2; points need a kernel, such as Linear(X) or RBF(X))"
        )
