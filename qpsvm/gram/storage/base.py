"""What a storage of points answers, where points are neither an array nor CSR.

Kernels, engine and presolve ask these questions alone, so that a storage is one file and its name in
`points.POINT_STORAGES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

from numpy.typing import NDArray

WORDS_PER_COUNT = 4
"""Rows of packed bits are padded to a multiple of this many words of 32 bits, counted together."""


class Sides(NamedTuple):
    """Two sets of points and their terms as arrays that the sweep over tiles multiplies."""

    few: NDArray[Any]  # (n_few, n_words)
    a: NDArray[Any]  # (n_few,)
    some: NDArray[Any]  # (n_some, n_words), in C or Fortran order
    b: NDArray[Any]  # (n_some,)
    factor: float  # of their products in the formula


class StoredPoints(ABC):
    """Points in a storage of its own; the interface is that of an array.

    Attributes
    ----------
    words : ndarray, shape (m, n_words)
        Rows that are equal where the points are.
    dtype : dtype
        The precision of products and kernel values.
    """

    words: NDArray[Any]
    dtype: Any
    features_at_once: ClassVar[int] = 1
    """Number of features whose products cost as much as that of one feature of an array."""
    has_products: ClassVar[bool] = True
    """Whether `products` are those of the points; if not, only the sweep gives kernel values."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The shape of the points."""

    @abstractmethod
    def __getitem__(self, rows: Any) -> Self:
        """Return the points `rows`, an index array or slice."""

    @abstractmethod
    def astype(self, dtype: Any, copy: bool = False) -> Self:
        """Return the points with products in another precision."""

    @abstractmethod
    def squared_norms(self) -> NDArray[Any]:
        """Return the squared norms of the points, shape (m,)."""

    @abstractmethod
    def sides(self, few: Self, a: NDArray[Any], b: NDArray[Any], factor: float) -> Sides:
        """Return `few` and these points as the sweep reads them; a and b are their terms."""

    @classmethod
    def of(cls, X: Any) -> Self | None:
        """Return dense or CSR points in this storage, products unchanged; None where it does not pay."""
        return None

    def products(self, A: Self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return A B' for these points B, in `out` if it is given."""
        raise NotImplementedError(f"{type(self).__name__} gives kernel values by the sweep alone")
