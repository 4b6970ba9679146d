"""The signed Gram of every SVM dual: a kernel with labels, shift, scale and ridge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import Columns, ColumnStore


@dataclass(frozen=True, eq=False)
class SignedGram:
    """Q = G + D with g_ij = scale s_i s_j (k_ij + shift) and D = diag(ridge), by sample index.

    Parameters
    ----------
    kernel : Gram
    sign : ndarray, shape (m,)
        -1 or +1.
    ridge : ndarray, shape (m,)
        Nonnegative; not part of products, since certificates treat it separately.
    shift, scale : float
        Both nonnegative, so that G stays positive semidefinite.
    """

    kernel: Gram
    sign: NDArray[np.float64]
    ridge: NDArray[np.float64]
    shift: float = 0.0
    scale: float = 1.0

    @cached_property
    def m(self) -> int:
        """Number of points."""
        return self.kernel.m

    @cached_property
    def ridged(self) -> bool:
        """Whether there is a ridge."""
        return bool(self.ridge.any())

    @cached_property
    def plain(self) -> bool:
        """Whether every sign is +1."""
        return bool(np.all(self.sign > 0))

    def diag(self) -> NDArray[np.float64]:
        """Return the diagonal of G, shape (m,), without the ridge."""
        return self.scale * (self.kernel.diag() + self.shift)

    def matrix(self) -> NDArray[np.float64]:
        """Return G in float64, shape (m, m), without the ridge."""
        K = self.kernel.block(np.arange(self.m), None, np.float64)
        return np.asarray((self.scale * self.sign)[:, None] * (K + self.shift) * self.sign)

    def product(
        self,
        x: NDArray[np.float64],
        rows: NDArray[np.int64] | None = None,
        store: ColumnStore | None = None,
    ) -> NDArray[np.float64]:
        """Return G x, or its entries `rows`, recomputed in float64.

        All entries need no second evaluation of columns of the kernel that a `store` has in float64. With
        a factor the product is X (X'x), whose rounding is less: see `roundoff`.
        """
        signed, total = x if self.plain else self.sign * x, None
        if rows is None and store is not None and not self.kernel.by_factor:
            total = store.dot(signed) if store.gram is self.kernel else None
        if total is None:
            total = self.kernel.dot(signed, rows)
        if self.shift:
            total += self.shift * float(np.sum(signed))
        if not self.plain:
            total *= self.sign if rows is None else self.sign[rows]
        if self.scale != 1.0:
            total *= self.scale
        return total

    def roundoff(
        self,
        scale: float,
        x: NDArray[np.float64],
        support: NDArray[np.int64],
        weight: float,
        quadratic: float,
    ) -> float:
        """Return a bound on the rounding error of a gap from a recomputed product.

        `scale` is the largest diagonal entry of G, x has the entries `support`, `weight` is the sum of
        the factors by which a gap multiplies entries of G x, `quadratic` is x'Gx or infinite.
        The error of an entry of G is at most 4 eps times `scale`, and so is that of each entry of G x
        for |x| of sum 1. With a factor it is smaller: the product is X w for the computed
        w = X'x + e, and any w gives a valid lower bound, -|w|^2 / 2 + min (Xw + c)'a, which e lowers
        by |e|^2 / 2 only. The rounding of X w itself remains, 4 eps times |x_i| |w|, and that of x'Xw
        in place of |X'x|^2. The hinge loss at any w is such a bound too: decision 0002.
        """
        eps = float(np.finfo(np.float64).eps)
        each = self.kernel.dot_error(x, support, support)
        of_kernel = self.scale * float(np.abs(x) @ np.broadcast_to(each, len(x)))
        total = float(np.linalg.norm(x, 1))
        plain = 4.0 * eps * scale * total * total + of_kernel
        if not (self.kernel.by_factor and quadratic < np.inf):
            return plain
        error = 4.0 * eps * np.sqrt(scale) * weight  # >= |e|, and sqrt(scale) is the largest |x_i|
        return min(plain, float(3.0 * error * np.sqrt(max(quadratic, 0.0)) + 4.0 * error * error))

    def take(self, rows: NDArray[np.int64]) -> SignedGram:
        """Return the signed Gram of the points `rows`."""
        return SignedGram(
            self.kernel.take(rows), self.sign[rows], self.ridge[rows], self.shift, self.scale
        )

    def columns(self, store: ColumnStore) -> Columns:
        """Return the arrays that compiled steps read: the store's columns, signs and ridge.

        The diagonal is read-only, as that of some kernels is: one signature serves all.
        """
        diag = store.diag.view()
        diag.flags.writeable = False
        return Columns(
            store.store,
            store.slot,
            store.stamp,
            store.clock,
            diag,
            self.sign,
            self.ridge,
            float(self.shift),
            float(self.scale),
        )
