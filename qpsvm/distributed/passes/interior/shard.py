"""A shard of rows that are read in passes, and the states of its rows in an interior point method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.interior.matrix_rows import MatrixRows, WeightRange, counts_above
from qpsvm.distributed.passes.interior.rows import RowStates, warm_states
from qpsvm.distributed.passes.shard import PassShard
from qpsvm.distributed.passes.sums import NO_ENTRIES, LossSums, hessian_of, plus
from qpsvm.numerics.products import squared_norms

Vector = NDArray[np.float64]


class Plane(NamedTuple):
    """A hyperplane on the moved rows, or a change of it."""

    w: Vector
    b: float

    def values(self, Z: Any) -> Vector:
        """Return w'z + b of rows."""
        return np.asarray(Z @ self.w) + self.b

    @property
    def entries(self) -> Vector:
        """Both in one vector, (d + 1,)."""
        return np.append(self.w, self.b)


def plane_of(entries: Vector) -> Plane:
    """Return the hyperplane of a vector (w, b)."""
    return Plane(entries[:-1].copy(), float(entries[-1]))


class Prediction(NamedTuple):
    """Sums over rows for a step whose targets are 0."""

    longest: float  # its longest length
    slope: float  # change of the complementarity in proportion to the length of the step
    curvature: float  # and to its square
    second_order: Vector  # sum y_i d_i rO_i [z_i, 1] with e = ds dalpha and f = dxi du, (d + 1,)
    centering: Vector  # the change of that sum for each unit that e and f are smaller
    moved: Vector = NO_ENTRIES  # sum y_i dalpha_i [z_i, 1], where it is asked for


def joined(first: Prediction, second: Prediction) -> Prediction:
    """Return the sums of two parts."""
    return Prediction(
        min(first.longest, second.longest),
        first.slope + second.slope,
        first.curvature + second.curvature,
        first.second_order + second.second_order,
        first.centering + second.centering,
        first.moved + second.moved,
    )


class Correction(NamedTuple):
    """Sums over rows for the step that is made."""

    longest: float  # its longest length
    moved: Vector = NO_ENTRIES  # sum y_i dalpha_i [z_i, 1], where it is asked for


def both(first: Correction, second: Correction) -> Correction:
    """Return the sums of two parts."""
    return Correction(min(first.longest, second.longest), first.moved + second.moved)


class InteriorShard(PassShard):
    """Rows with states and changes of them, 64 bytes a row once `interior_start` has set them."""

    states: RowStates
    changes: RowStates
    squares: float  # sum |z_i|^2

    def interior_start(self, plane: Plane, width: float) -> None:
        """Set the states at a hyperplane."""
        self.states = RowStates(*np.empty((4, self.n)))
        self.changes = RowStates(*np.zeros((4, self.n)))

        def of_block(at: slice, Z: Any) -> float:
            q = 1.0 - self.y[at] * plane.values(Z)
            for all_rows, values in zip(
                self.states, warm_states(self.C[at], q, width), strict=True
            ):
                all_rows[at] = values
            return float(np.sum(squared_norms(Z)))

        self.squares = float(self._over_blocks(of_block, np.add))

    def interior_range(self) -> WeightRange:
        """Return the range of the weights d, and the complementarity; no row is read."""
        d = self.states.elimination
        ends = float(np.min(d)), float(np.max(d))
        return WeightRange(*ends, self.states.complementarity, self.squares)

    def interior_counts(self, grid: Vector) -> Vector:
        """Return counts and sums of the weights d above thresholds of both classes, or of all rows.

        `grid` has a row of thresholds, ascending, for each class or for all; no row is read.
        """
        groups = [self.y > 0, self.y < 0] if len(grid) == 2 else [np.ones(self.n, np.bool_)]
        return counts_above(self.states.elimination, groups, grid)

    def interior_product(self, plane: Plane) -> Vector:
        """Return sum d_i [z_i, 1][z_i, 1]'(w, b), shape (d + 1,)."""

        def of_block(at: slice, Z: Any) -> Vector:
            return moment_of(Z, self.states.at(at).elimination * plane.values(Z))

        return np.asarray(self._over_blocks(of_block, np.add))

    def interior_sums(self, plane: Plane, rows: MatrixRows | None = None) -> LossSums:
        """Return the sums at a hyperplane and the states: of the weights, and the normal matrix.

        The matrix is that of some rows, or of all.
        """

        def of_block(at: slice, Z: Any) -> LossSums:
            y, C, own = self.y[at], self.C[at], self.states.at(at)
            h, d, alpha = plane.values(Z), own.elimination, np.minimum(own.alpha, C)
            classes = np.where(y > 0, [[1.0], [0.0]], [[0.0], [1.0]]) * alpha
            matrix, n_rows, of_all = _matrix_of(Z, y, d, rows, at.start)
            return LossSums(
                hinge=float(C @ np.maximum(1.0 - y * h, 0.0)),
                smooth=0.0,
                weight=np.sum(classes, axis=1),
                moment=np.asarray((Z.T @ classes.T).T),
                hessian=matrix,
                n_support=len(y),
                largest=float(np.max(squared_norms(Z))),
                right_side=moment_of(Z, y * d * own.residual(y, h)),
                complementarity=own.complementarity,
                n_in_matrix=n_rows,
                border=of_all,
            )

        return self._over_blocks(of_block, plus)

    def interior_predict(self, plane: Plane, step: Plane, moved: bool = False) -> Prediction:
        """Return the sums of a step whose targets are 0; with `moved` those of its weights, too."""

        def of_block(at: slice, Z: Any) -> Prediction:
            y, own = self.y[at], self.states.at(at)
            h, d = plane.values(Z), own.elimination
            change = self._predicted(at, h, step.values(Z))
            e, f = change.s * change.alpha, change.xi * change.u
            slope = own.s @ change.alpha + own.alpha @ change.s
            slope += own.xi @ change.u + own.u @ change.xi
            columns = own.residual(y, h) + own.targets(e, f), own.targets(-1.0, -1.0)
            sums = [moment_of(Z, y * d * column) for column in columns]
            curvature = float(np.sum(e) + np.sum(f))
            if moved:
                sums.append(moment_of(Z, y * change.alpha))
            return Prediction(own.longest_step(change), float(slope), curvature, *sums)

        return self._over_blocks(of_block, joined)

    def interior_correct(
        self, plane: Plane, predicted: Plane, target: float, step: Plane, moved: bool = False
    ) -> Correction:
        """Store the changes by a step to a common target of all products; return its longest length.

        With `moved` the sums of its weights, too.
        """

        def of_block(at: slice, Z: Any) -> Correction:
            h, own = plane.values(Z), self.states.at(at)
            change = self._predicted(at, h, predicted.values(Z))
            e, f = change.s * change.alpha - target, change.xi * change.u - target
            change = own.step(self.y[at], h, step.values(Z), e, f)
            for all_rows, values in zip(self.changes, change, strict=True):
                all_rows[at] = values
            longest = own.longest_step(change)
            if not moved:
                return Correction(longest)
            return Correction(longest, moment_of(Z, self.y[at] * change.alpha))

        found: Correction = self._over_blocks(of_block, both)
        return found

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


def _matrix_of(
    Z: Any, y: Vector, d: Vector, rows: MatrixRows | None, first: int
) -> tuple[Vector, int, Vector]:
    """Return the normal matrix of some rows, their number, and sum d_i [z_i, 1] over all of them."""
    if rows is None:
        return hessian_of(Z, d), len(d), NO_ENTRIES
    weights = rows.weights(y, d, first)
    some = np.flatnonzero(weights)
    return hessian_of(Z[some], weights[some]), len(some), moment_of(Z, d)


def moment_of(Z: Any, weights: Vector) -> Vector:
    """Return sum c_i [z_i, 1], shape (d + 1,)."""
    return np.append(np.asarray(Z.T @ weights), np.sum(weights))
