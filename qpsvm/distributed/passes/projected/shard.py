"""A shard of rows that are read in passes, and the weights of its rows in a projected gradient method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.interior.shard import InteriorShard, Plane, moment_of
from qpsvm.distributed.passes.projected.rows import (
    Coefficients,
    RowWeights,
    breakpoints,
    hinge_sums,
    sums_along,
)
from qpsvm.distributed.passes.sums import NO_ENTRIES, LossSums, hessian_of, plus
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]

PLANES_AT_ONCE = 64
"""Number of hyperplanes at which the scores of a block of rows are computed at once."""


class StepSums(NamedTuple):
    """Sums over rows at the weights of a step."""

    normal: Vector  # sum x_i y_i [z_i, 1], (d + 1,)
    ridge: float  # sum D_i x_i^2
    slope: float  # gradient'(x - x before)


def step_sums(first: StepSums, second: StepSums) -> StepSums:
    """Return the sums of two parts."""
    return StepSums(
        first.normal + second.normal, first.ridge + second.ridge, first.slope + second.slope
    )


class Moves(NamedTuple):
    """Steps of a method, in order."""

    normals: Vector  # (w, b) of the weights after each, (k, d + 1)
    multipliers: Vector  # of the projections, NaN where weights stay, (k,)
    momenta: Vector  # (k,)
    size: float  # 1 / length of the gradient steps


class ProjectedShard(InteriorShard):
    """Rows whose weights take 32 bytes a row, where a method has them."""

    weights_held: RowWeights
    of: Coefficients

    def projected_matrix(self) -> Vector:
        """Return sum [z_i, 1][z_i, 1]', shape (d + 1, d + 1)."""

        def of_block(at: slice, Z: Any) -> Vector:
            return hessian_of(Z, np.ones(Z.shape[0]))

        return np.asarray(self._over_blocks(of_block, np.add))

    def projected_start(self, plane: Plane, mu: float, max_slope: float) -> Vector:
        """Set the weights C_i clip(q_i / mu, 0, max_slope) at a hyperplane; return their sums by class.

        With an infinite `max_slope` the domain is the simplex.
        """
        y, is_simplex = self.y.astype(np.float64), not np.isfinite(max_slope)
        upper = np.full(self.n, np.inf) if is_simplex else self.C
        ridge = 1.0 / self.C if is_simplex else np.zeros(self.n)
        sign = np.ones(self.n) if is_simplex else y
        self.of = Coefficients(y, sign, upper, ridge, 0.0 if is_simplex else -1.0)
        self.weights_held = RowWeights(*np.zeros((4, self.n)))

        def of_block(at: slice, Z: Any) -> Vector:
            q = 1.0 - y[at] * plane.values(Z)
            x = self.C[at] * np.clip(q / mu, 0.0, max_slope)
            self.weights_held.x[at] = x
            return np.array([np.sum(x[y[at] > 0]), np.sum(x[y[at] < 0])])

        return np.asarray(self._over_blocks(of_block, np.add))

    def projected_scale(self, scales: Vector) -> None:
        """Multiply the weights of both classes."""
        self.weights_held.x[:] *= np.where(self.y > 0, *scales)

    def projected_range(self, size: float) -> tuple[float, float]:
        """Return the least and the largest finite breakpoint of the projection; no row is read."""
        ends = np.concatenate(breakpoints(self.of, self.weights_held.ahead(self.of, size)))
        ends = ends[np.isfinite(ends)]
        return float(np.min(ends, initial=np.inf)), float(np.max(ends, initial=-np.inf))

    def projected_values(self, size: float, grid: Vector) -> Vector:
        """Return sums of the projection at multipliers, and numbers of breakpoints; no row is read."""
        return sums_along(self.of, self.weights_held.ahead(self.of, size), grid)

    def projected_sums(self, size: float, t: float) -> StepSums:
        """Return sums at the weights of the next step; with t = NaN at the present ones."""

        def of_block(at: slice, Z: Any) -> StepSums:
            own, of = self.weights_held.at(at), self.of.at(at)
            x = own.projected(of, size, t)
            slope = float(own.gradient(of) @ (x - own.x))
            return StepSums(moment_of(Z, of.y * x), float((of.ridge * x) @ x), slope)

        found: StepSums = self._over_blocks(of_block, step_sums)
        return found

    def projected_moves(self, moves: Moves) -> None:
        """Make steps: all of them at a row before the next one, by one pass."""

        def of_block(at: slice, Z: Any) -> int:
            own, of = self.weights_held.at(at), self.of.at(at)
            for begin in range(0, len(moves.momenta), PLANES_AT_ONCE):
                some = slice(begin, begin + PLANES_AT_ONCE)
                normals = moves.normals[some]
                scores = np.asarray(Z @ normals[:, :-1].T) + normals[:, -1]
                steps = zip(moves.multipliers[some], moves.momenta[some], scores.T, strict=True)
                for t, momentum, score in steps:
                    own.move(own.projected(of, moves.size, t), score, momentum)
            return len(of.y)

        self._over_blocks(of_block, max)

    def projected_hinges(self, biases: Vector) -> Vector:
        """Return sum C_i max(0, 1 - y_i (w'z_i + b)) for each b at the weights; no row is read."""
        return hinge_sums(self.of.y, self.C, self.weights_held.x_score, biases)

    def projected_bias_range(self) -> tuple[float, float]:
        """Return the least and the largest b at which a hinge has a breakpoint; no row is read."""
        ends = self.of.y - self.weights_held.x_score
        return float(np.min(ends)), float(np.max(ends))

    def projected_losses(self, plane: Plane, max_slope: float) -> LossSums:
        """Return the sums of a certificate: losses at a hyperplane, and moments of the weights."""

        def of_block(at: slice, Z: Any) -> LossSums:
            of, C, x = self.of.at(at), self.C[at], self.weights_held.x[at]
            loss = np.maximum(1.0 - of.y * plane.values(Z), 0.0)
            classes = np.where(of.y > 0, [[1.0], [0.0]], [[0.0], [1.0]]) * x
            return LossSums(
                hinge=float(C @ loss),
                smooth=0.0 if np.isfinite(max_slope) else 0.5 * float((C * loss) @ loss),
                weight=np.sum(classes, axis=1),
                moment=np.asarray((Z.T @ classes.T).T),
                hessian=NO_ENTRIES,
                n_support=int(np.count_nonzero(x)),
                largest=float(np.max(squared_norms(Z))),
                ridge=float((of.ridge * x) @ x),
            )

        found: LossSums = self._over_blocks(of_block, plus)
        return found

    def projected_weights(self, scales: Vector) -> Vector:
        """Return the weights times the scale of the class, shape (n,); no row is read."""
        return np.asarray(self.weights_held.x * np.where(self.y > 0, *scales))


def pass_shard(points: ChunkedPoints, chunks: Any, loaded: Any = None) -> ProjectedShard:
    """Return the shard of some chunks."""
    return ProjectedShard(points, tuple(chunks), None if loaded is None else list(loaded))
