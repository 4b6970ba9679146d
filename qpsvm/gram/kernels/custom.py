"""Kernels that a user defines by a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice, check_values
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.kernels.limits import LARGEST_VALUE
from qpsvm.gram.storage.points import Points, largest_entry

DIAGONAL_BLOCK_POINTS = 32
"""Number of points whose kernel values are computed at once, of which the diagonal is used."""


@dataclass(frozen=True, eq=False)
class CustomKernel(PointGram):
    """Kernel given as a function of two sets of points.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d)
        Points; stored by reference and never written.
    function : callable
        ``function(A, B)`` returns the matrix k(a_i, b_j), shape (len(A), len(B)), as
        scikit-learn's callable kernels do. A is dense; B is dense or CSR like `X`. It must be
        symmetric: k(a, b) = k(b, a).
    psd : {"check", "assume"}
        Whether positive semidefiniteness is checked, on which lower bounds rest.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import CustomKernel
    >>> K = CustomKernel([[1.0], [2.0]], lambda A, B: (1.0 + A @ B.T) ** 2)
    >>> K.dot(np.array([1.0, 0.0])).tolist()
    [4.0, 9.0]
    """

    is_parallel = False
    function: Callable[[Any, Any], Any] | None = None
    psd: str = "check"

    def _settle(self) -> None:
        if not callable(self.function):
            raise InputError(f"function must be callable as function(A, B); got {self.function!r}")
        check_choice("psd", self.psd, ("check", "assume"))

    def diag(self) -> NDArray[np.float64]:
        """Return k(x_i, x_i), shape (m,), read-only, evaluated once in small square blocks."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        starts = range(0, self.m, DIAGONAL_BLOCK_POINTS)
        chunks = [np.arange(i, min(i + DIAGONAL_BLOCK_POINTS, self.m)) for i in starts]
        blocks = [self.block(at, at, np.float64) for at in chunks]
        diagonal = np.concatenate([np.diagonal(block) for block in blocks])
        diagonal.flags.writeable = False
        return diagonal

    def _values(self, A: Points, B: Points) -> NDArray[np.floating]:
        assert self.function is not None
        K = self.function(A, B)
        K = check_values("function (its value)", K)
        if K.shape != (A.shape[0], B.shape[0]):
            raise InputError(
                f"function must return shape {(A.shape[0], B.shape[0])} for these points; "
                f"got {K.shape}"
            )
        limit, largest = LARGEST_VALUE[np.dtype(self.dtype)], largest_entry(K)
        if not largest <= limit:
            raise InputError(
                f"function must return values below {limit:.0e} for points in {self.dtype}; got "
                f"{largest:.3g}"
            )
        return np.ascontiguousarray(K, dtype=A.dtype)
