"""What a product that follows the moves of a point may have lost since it was evaluated.

Each move of a weight by t adds t times a column, whose entries have errors. A bound on the error of
any entry, times all that the weights have moved, is at hand; but where points are many it is far too
large, for most kernel values are small, and errors are in proportion to them. So kernel values are summed
up by the sizes of the moves as well, in the sweep that sums them up by the moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, ApproximateProducts
from qpsvm.canonical.qp import QP
from qpsvm.gram.column_store import ColumnStore

SIZES = 1.001
"""Sums of sizes are good to three digits."""

Vector = NDArray[np.float64]


@dataclass
class GradientError:
    """How far the weights have moved since the product was set, and by what columns it followed."""

    error: float | Vector  # bound on the error of the product when it was set
    size: Vector  # |K| times sizes of moves and the factors of their columns
    moved: float = 0.0  # sum of the sizes of all moves since ...
    apart: float = 0.0  # ... the part of it that is not in `size` ...
    passed: float = 0.0  # ... and the part whose columns were not held
    n_passes: int = 0  # passes over columns that the moves took

    def note(
        self, store: ColumnStore, indices: NDArray[np.int64], moves: Vector, held: bool
    ) -> None:
        """Note that the product follows moves by the columns `indices`, which are held or not."""
        moves = np.abs(moves)
        total = float(np.sum(moves))
        self.n_passes += 1
        self.passed += 0.0 if held else total
        known = store.relative_error
        self.apart += total if known is None else float(np.sum(moves[~known.of_use(indices)]))

    def approximate_products(
        self, problem: QP, x: Vector, product: Vector
    ) -> ApproximateProducts | None:
        """Return the product with a bound on the error of each entry, where the columns have one.

        A change of x by t in a coordinate adds t times the error of a column, and at most t |G_ij|
        times the rounding of a sum of m terms. A pass rounds s, of at most the size of c and all that
        came.
        """
        store, gram = problem.store, problem.gram
        assert store is not None
        entry, known = store.error, store.relative_error
        if entry is None:
            return None
        weight = float(np.sum(x)) + self.moved
        size = float(np.max(np.abs(problem.linear)))
        size += (problem.scale + float(np.max(gram.ridge))) * weight
        error = self.moved * entry + self.passed * store.sum_error
        if known is not None:
            weighed = known.rows()
            weighed += store.sum_error
            weighed *= self.size
            weighed *= SIZES
            if self.apart:
                weighed += self.apart * (entry + store.sum_error)
            weighed += 2.0 * gram.kernel.error * self.moved
            error = np.minimum(error, weighed, out=weighed)
        rounding = (problem.m + 16) * problem.scale * self.moved + 8 * (self.n_passes + 1) * size
        error *= gram.scale
        error += self.error + FLOAT64_EPS * rounding
        return ApproximateProducts(x.copy(), product, error)
