"""A shard of rows that are read in passes, and the states of its rows in an interior point method."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.interior.rows import RowStates, warm_states
from qpsvm.distributed.passes.shard import PassShard
from qpsvm.distributed.passes.sums import LossSums, blocks, hessian_of, plus
from qpsvm.gram.storage.chunked import ChunkedPoints
from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]


class Plane(NamedTuple):
    """A hyperplane on the moved rows, or a change of it."""

    w: Vector
    b: float

    def values(self, Z: Any) -> Vector:
        """Return w'z + b of rows."""
        return np.asarray(Z @ self.w) + self.b


class Prediction(NamedTuple):
    """Sums over rows for a step whose targets are 0."""

    longest: float  # its longest length
    slope: float  # change of the complementarity in proportion to the length of the step
    curvature: float  # and to its square
    second_order: Vector  # sum y_i d_i rO_i [z_i, 1] with e = ds dalpha and f = dxi du, (d + 1,)
    centering: Vector  # the change of that sum for each unit that e and f are smaller


def joined(first: Prediction, second: Prediction) -> Prediction:
    """Return the sums of two parts."""
    return Prediction(
        min(first.longest, second.longest),
        first.slope + second.slope,
        first.curvature + second.curvature,
        first.second_order + second.second_order,
        first.centering + second.centering,
    )


class InteriorShard(PassShard):
    """Rows with states and changes of them, 64 bytes a row once `interior_start` has set them."""

    states: RowStates
    changes: RowStates

    def interior_start(self, plane: Plane, width: float) -> None:
        """Set the states at a hyperplane."""
        self.states = RowStates(*np.empty((4, self.n)))
        self.changes = RowStates(*np.zeros((4, self.n)))

        def of_block(at: slice, Z: Any) -> None:
            q = 1.0 - self.y[at] * plane.values(Z)
            for all_rows, values in zip(
                self.states, warm_states(self.C[at], q, width), strict=True
            ):
                all_rows[at] = values

        self._over_blocks(of_block, _neither)

    def interior_sums(self, plane: Plane) -> LossSums:
        """Return the sums at a hyperplane and the states: of the weights, and the normal matrix."""

        def of_block(at: slice, Z: Any) -> LossSums:
            y, C, own = self.y[at], self.C[at], self.states.at(at)
            h, d, alpha = plane.values(Z), own.elimination, np.minimum(own.alpha, C)
            classes = np.where(y > 0, [[1.0], [0.0]], [[0.0], [1.0]]) * alpha
            return LossSums(
                hinge=float(C @ np.maximum(1.0 - y * h, 0.0)),
                smooth=0.0,
                weight=np.sum(classes, axis=1),
                moment=np.asarray((Z.T @ classes.T).T),
                hessian=hessian_of(Z, d),
                n_support=len(y),
                largest=float(np.max(squared_norms(Z))),
                right_side=_moment(Z, y * d * own.residual(y, h)),
                complementarity=own.complementarity,
            )

        return self._over_blocks(of_block, plus)

    def interior_predict(self, plane: Plane, step: Plane) -> Prediction:
        """Return the sums of a step whose targets are 0."""

        def of_block(at: slice, Z: Any) -> Prediction:
            y, own = self.y[at], self.states.at(at)
            h, d = plane.values(Z), own.elimination
            change = self._predicted(at, h, step.values(Z))
            e, f = change.s * change.alpha, change.xi * change.u
            slope = own.s @ change.alpha + own.alpha @ change.s
            slope += own.xi @ change.u + own.u @ change.xi
            columns = own.residual(y, h) + own.targets(e, f), own.targets(-1.0, -1.0)
            sums = [_moment(Z, y * d * column) for column in columns]
            curvature = float(np.sum(e) + np.sum(f))
            return Prediction(own.longest_step(change), float(slope), curvature, *sums)

        return self._over_blocks(of_block, joined)

    def interior_correct(self, plane: Plane, predicted: Plane, target: float, step: Plane) -> float:
        """Store the changes by a step to a common target of all products; return its longest length."""

        def of_block(at: slice, Z: Any) -> float:
            h, own = plane.values(Z), self.states.at(at)
            change = self._predicted(at, h, predicted.values(Z))
            e, f = change.s * change.alpha - target, change.xi * change.u - target
            change = own.step(self.y[at], h, step.values(Z), e, f)
            for all_rows, values in zip(self.changes, change, strict=True):
                all_rows[at] = values
            return own.longest_step(change)

        return float(self._over_blocks(of_block, min))

    def interior_move(self, length: float) -> None:
        """Move the states by their changes; no row is read."""
        self.states.move(self.changes, length)

    def interior_weights(self, scales: Vector) -> Vector:
        """Return the weights times the scale of the class, shape (n,); no row is read."""
        alpha = np.minimum(self.states.alpha, self.C)
        return np.asarray(alpha * np.where(self.y > 0, scales[0], scales[1]))

    def _predicted(self, at: slice, h: Vector, dh: Vector) -> RowStates:
        """Return the changes by a step whose targets are 0."""
        none = np.zeros(len(h))
        return self.states.at(at).step(self.y[at], h, dh, none, none)

    def _over_blocks(
        self, function: Callable[[slice, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the sum of the values of a function of blocks of rows, added in their order."""

        def of_chunk(at: slice, X: Any) -> Any:
            def of_block(some: slice) -> Any:
                rows = slice(at.start + some.start, at.start + some.stop)
                return function(rows, self._moved(X[some]))

            return reduce(add, map(of_block, blocks(X, True)))

        return self._added_over_chunks(of_chunk, add)


def _neither(first: None, second: None) -> None:
    """Return None: there is nothing to add."""


def _moment(Z: Any, weights: Vector) -> Vector:
    """Return sum c_i [z_i, 1], shape (d + 1,)."""
    return np.append(np.asarray(Z.T @ weights), np.sum(weights))


def pass_shard(points: ChunkedPoints, chunks: Any, loaded: Any = None) -> InteriorShard:
    """Return the shard of some chunks."""
    return InteriorShard(points, tuple(chunks), None if loaded is None else list(loaded))
