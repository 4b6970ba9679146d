"""Error bound of a product G x that is updated by the moves of x since it was evaluated.

A move of a weight by t adds t times a column, whose entries have errors. The bound on the error of any
entry times the total move holds, but is far too large for many points: most kernel values are small, and
errors are proportional to them. Kernel values are therefore also summed by the sizes of the moves, in the
same sweep as the sum by the moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, update_roundoff
from qpsvm.canonical.qp import QP
from qpsvm.gram.engine.error_bounds import RelativeError

SIZE_SAFETY_FACTOR = 1.001
"""Safety factor of the sums of sizes, which are accurate to three digits."""

Vector = NDArray[np.float64]


@dataclass
class GradientError:
    """Total moves of the weights since the product was set, by kinds of columns."""

    error: float | Vector  # bound on the error of the product when it was set
    size: Vector  # |K| times the sizes of moves and the factors of their columns
    total_move: float = 0.0  # sum of the sizes of all moves
    unweighted_move: float = 0.0  # its part that is not in `size`
    uncached_move: float = 0.0  # its part whose columns were not cached
    n_passes: int = 0  # passes over columns

    def record_moves(
        self,
        relative_error: RelativeError | None,
        indices: Any,
        moves: Vector,
        cached: bool,
    ) -> None:
        """Record moves by which the product is updated, with cached columns `indices` or not."""
        moves = np.abs(moves)
        total = float(np.sum(moves))
        self.n_passes += 1
        self.total_move += total
        self.uncached_move += 0.0 if cached else total
        self.unweighted_move += (
            total
            if relative_error is None
            else float(np.sum(moves[~relative_error.of_use(indices)]))
        )

    def rescale(self, factor: float) -> None:
        """Record that the product is multiplied by a factor, which is rounded once more."""
        self.error = self.error * factor
        self.size *= factor
        self.total_move *= factor
        self.unweighted_move *= factor
        self.uncached_move *= factor
        self.n_passes = ceil(self.n_passes * factor) + 1

    def of_sums(
        self,
        entry_error: Vector,
        relative_error: RelativeError | None,
        sum_error: float,
        kernel_error: float,
    ) -> Vector:
        """Return a bound on the errors of all moves' sum of kernel values, shape (m,).

        A move by t adds t times the error of a kernel value, which is at most `entry_error`, and by
        `relative_error` at most a multiple of the value; `sum_error` is that of a sum of columns that
        are not cached, and `kernel_error` that of a float64 value.
        """
        error = self.total_move * entry_error + self.uncached_move * sum_error
        if relative_error is not None:
            by_entry = relative_error.rows()
            by_entry += sum_error
            by_entry *= self.size
            by_entry *= SIZE_SAFETY_FACTOR
            if self.unweighted_move:
                by_entry += self.unweighted_move * (entry_error + sum_error)
            by_entry += 2.0 * kernel_error * self.total_move
            error = np.minimum(error, by_entry, out=by_entry)
        return error

    def approximate_products(
        self, problem: QP, x: Vector, product: Vector
    ) -> ApproximateProducts | None:
        """Return the product with a bound on the error of each entry, where the columns have one.

        A change of x by t in a coordinate adds t times the error of a column, and at most t |G_ij|
        times the rounding of a sum of m terms. A pass rounds s, whose size is at most that of c and of
        all columns added.
        """
        store, gram = problem.store, problem.gram
        assert store is not None
        if store.error is None:
            return None
        weight = float(np.sum(x)) + self.total_move
        size = float(np.max(np.abs(problem.linear)))
        size += (problem.scale + float(np.max(gram.ridge))) * weight
        error = self.of_sums(store.error, store.relative_error, store.sum_error, gram.kernel.error)
        error *= gram.scale
        error += self.error + update_roundoff(
            problem.m, problem.scale, self.total_move, self.n_passes, size
        )
        return ApproximateProducts(x.copy(), product, error)
