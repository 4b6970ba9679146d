"""The base of linear machines whose rows are read in passes: value, gradient and Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.form import PassForm
from qpsvm.distributed.passes.sums import (
    MAX_BLOCK_ROWS,
    LossSums,
    added,
    rows_of_dense_block,
)

Vector = NDArray[np.float64]

MIN_WIDTH = 1e-13
"""Least width of the smoothing; a smaller one is within the rounding of margins."""

TERM_ROUNDINGS = 16.0
"""Bound on the number of roundings of a term of a sum over rows, beside those of its margin."""


class Position(NamedTuple):
    """The variable of the form: a hyperplane on the moved rows, and the width of the smoothing."""

    w: Vector
    b: float
    mu: float


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginPasses(PassForm):
    """A linear machine of rows in shards; its variable is (w, b, mu), shape (d + 2,).

    It minimizes F_mu = 1/2 w'w + sum C_i loss(q_i), q_i = 1 - y_i (w'z_i + b), with the losses of
    `LossSums`, and with 1/2 b^2 where it penalizes the bias.

    Attributes
    ----------
    total_penalty : float
        Sum of all C_i.
    bias : bool
        Whether there is a b.
    with_hessian : bool
        Whether passes sum a Hessian; otherwise they sum its diagonal.
    """

    total_penalty: float
    bias: bool
    with_hessian: bool = True

    max_slope: ClassVar[float] = 1.0
    penalizes_bias: ClassVar[bool] = False

    def split(self, x: Vector) -> Position:
        """Return (w, b, mu)."""
        return Position(x[: self.n], float(x[self.n]), float(x[self.n + 1]))

    def sums(self, x: Vector) -> LossSums:
        """Return the sums at x, by a pass."""
        return added(self.shards.call("loss", *self.split(x), self.max_slope, self.with_hessian))

    def repair(self, x: Vector) -> Vector:
        """Return x with a positive mu, and with b = 0 where there is no bias."""
        x = x.copy()
        x[self.n] *= self.bias
        x[self.n + 1] = max(x[self.n + 1], MIN_WIDTH)
        return x

    @property
    def sum_depth(self) -> float:
        """Bound on the number of successive roundings of a sum over rows, those of its terms included."""
        sizes = self.shards.layout.points.sizes
        n_blocks = -(-max(sizes) // rows_of_dense_block(self.n))
        of_sum = min(MAX_BLOCK_ROWS, max(sizes)) + n_blocks + len(sizes)
        return min(of_sum, self.m) + TERM_ROUNDINGS

    @property
    def holds_weights(self) -> bool:
        """Whether the shards hold the weights of their rows: those of the end, whatever the point is."""
        return False

    def repeat_changes(self, k: int) -> None:
        """Bring a shard that was loaded again to the state of the others, where it has one."""

    def scales(self, sums: LossSums) -> Vector:
        """Return the factors of the weights C_i u_i in both classes, (2,), at which they are feasible."""
        raise NotImplementedError

    def next_width(self, x: Vector, sums: LossSums, target: float, is_solved: bool) -> float:
        """Return the width of the next step: a smaller one where the smoothing makes up most of the gap.

        `is_solved` states that no step decreases F_mu at the present width.
        """
        return float(x[-1])

    def objective(self, x: Vector, sums: LossSums) -> float:
        """Return F_mu."""
        w, b, _ = self.split(x)
        return 0.5 * float(w @ w) + 0.5 * self.penalizes_bias * b * b + sums.smooth

    def gradient(self, x: Vector, sums: LossSums) -> Vector:
        """Return the gradient of F_mu in (w, b), shape (d + 1,); 0 in b where there is no bias."""
        w, b, _ = self.split(x)
        out = np.empty(self.n + 1)
        out[:-1] = w - (sums.moment[0] - sums.moment[1])
        out[-1] = self.bias * (sums.weight[1] - sums.weight[0] + self.penalizes_bias * b)
        return out

    def newton_matrix(self, x: Vector, sums: LossSums) -> Vector:
        """Return the Hessian of F_mu in (w, b), positive definite, shape (d + 1, d + 1)."""
        H, at = sums.hessian.copy(), np.arange(self.n + 1)
        H[at, at] = self.hessian_diagonal(x, sums)
        return H

    def hessian_diagonal(self, x: Vector, sums: LossSums) -> Vector:
        """Return the diagonal of the Hessian of F_mu in (w, b), positive, shape (d + 1,)."""
        of_rows = np.diagonal(sums.hessian) if self.with_hessian else sums.hessian
        diagonal = of_rows + np.append(np.ones(self.n), float(self.penalizes_bias))
        if diagonal[-1] == 0.0:  # no row gives b a curvature: take that of one row of mean penalty
            diagonal[-1] = self.total_penalty / (self.m * x[-1])
        return diagonal

    def changes(self, x: Vector, direction: Vector, sums: LossSums, lengths: Vector) -> Vector:
        """Return the changes of F_mu at x plus each length times the direction, by a pass."""
        w, b, mu = self.split(x)
        dw, db = direction[:-1], float(direction[-1])
        answers = self.shards.call("along", w, b, mu, self.max_slope, dw, db, lengths)
        losses = np.sum(answers, axis=0) - sums.smooth
        own = self.penalizes_bias * db
        slope, curvature = float(w @ dw) + own * b, float(dw @ dw) + own * db
        return lengths * slope + 0.5 * lengths * lengths * curvature + losses

    def margin_roundings(self, x: Vector, sums: LossSums) -> float:
        """Return a bound on the error of a margin, in units of `FLOAT64_EPS`: a sum of d + 1 terms.

        A bias that is rounded to the user's origin moves margins, too.
        """
        w, b, _ = self.split(x)
        size = float(np.linalg.norm(w))
        moved = 0.0 if self.origin is None else size * float(np.linalg.norm(self.origin))
        return (self.n + 4.0) * (size * float(np.sqrt(sums.largest)) + abs(b) + 1.0) + moved

    def row_weights(self, x: Vector, scales: Vector) -> list[Vector]:
        """Return the weights of the rows of each shard, by a pass."""
        return self.shards.call("weights", *self.split(x), self.max_slope, scales)

    def n_support(self, x: Vector) -> int:
        """Return the number of rows with a weight."""
        return self.product(x).n_support
