"""Linear machines in passes whose duals are solved: weights of the rows are at the shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.passes.hinge import HingePasses
from qpsvm.distributed.passes.interior.shard import Plane, plane_of
from qpsvm.distributed.passes.margin import MarginPasses
from qpsvm.distributed.passes.projected.multiplier import best_bias, projection_multiplier
from qpsvm.distributed.passes.projected.shard import Moves, StepSums, step_sums
from qpsvm.distributed.passes.squared_hinge import SquaredHingePasses
from qpsvm.distributed.passes.sums import LossSums, added

Vector = NDArray[np.float64]

SMOOTHNESS_MARGIN = 1.0 + 1e-9
"""Factor on the largest eigenvalue that covers its rounding."""

MAX_STEP_PENALTIES = 1e3
"""Longest change of a weight by a gradient of 1, in mean penalties: longer ones are projected anyway."""


@dataclass
class Made:
    """What changed the weights at the shards."""

    start: tuple[Any, ...] | None = None  # arguments that set them
    scales: Vector | None = None  # of both classes
    size: float = 1.0  # largest eigenvalue of the dual's matrix
    normals: list[Vector] = field(default_factory=list)  # of each step
    multipliers: list[float] = field(default_factory=list)
    momenta: list[float] = field(default_factory=list)

    @property
    def moves(self) -> Moves:
        """The steps as arrays."""
        multipliers, momenta = np.array(self.multipliers), np.array(self.momenta)
        return Moves(np.array(self.normals), multipliers, momenta, self.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightsAtShards(MarginPasses):
    """A machine whose dual weights are at the shards; its variable is (w, b, mu) as before.

    Attributes
    ----------
    least_penalty : float
        Least C_i, positive.
    made : Made
        A shard that was lost repeats it.
    """

    least_penalty: float
    made: Made = field(default_factory=Made)

    def begin(self, x: Vector) -> StepSums:
        """Set the weights that the losses have at x, scaled to be feasible; return the sums there."""
        plane, made = Plane(x[: self.n].copy(), float(x[self.n])), self.made
        size = self.n + self.has_bias_term
        matrix = reduce(np.add, self.shards.call("projected_matrix"))[:size, :size]
        largest = float(np.max(np.linalg.eigvalsh(matrix)))
        ridge = 0.0 if np.isfinite(self.max_slope) else 1.0 / self.least_penalty
        least = self.m / (MAX_STEP_PENALTIES * self.total_penalty)
        made.size = max(SMOOTHNESS_MARGIN * (max(largest, 0.0) + ridge), least)
        weight = self._set(plane, float(x[-1]))
        if not np.any(weight > 0.0):
            weight = self._set(Plane(np.zeros(self.n), 0.0), 1.0)
        scales = self.start_scales(weight)
        self.shards.call("projected_scale", scales)
        made.scales = scales
        sums = self.step_sums(np.nan)
        self.move(np.nan, 0.0, sums)
        return sums

    def _set(self, plane: Plane, mu: float) -> Vector:
        """Set weights at a hyperplane; return their sums in both classes."""
        arguments = plane, mu, self.max_slope
        weight = reduce(np.add, self.shards.call("projected_start", *arguments))
        self.made.start = arguments
        return np.asarray(weight)

    @property
    def has_bias_term(self) -> bool:
        """Whether the products have a term of the bias."""
        return self.penalizes_bias and self.bias

    def start_scales(self, weight: Vector) -> Vector:
        """Return the factors of both classes at which weights of these sums are feasible."""
        raise NotImplementedError

    def multiplier(self) -> float:
        """Return the multiplier of the projection of the next step."""
        raise NotImplementedError

    def position(self, sums: StepSums) -> Vector:
        """Return (w, b) of least primal value that the weights give, (d + 1,)."""
        raise NotImplementedError

    def step_sums(self, t: float) -> StepSums:
        """Return the sums at the weights of the next step, by a pass; at the present ones with t NaN."""
        found = reduce(step_sums, self.shards.call("projected_sums", self.made.size, t))
        found.normal[-1] *= self.has_bias_term
        return found

    def move(self, t: float, momentum: float, sums: StepSums) -> None:
        """Make the step, by a pass, and note it for shards that will be lost."""
        made, rows = self.made, (sums.normal[None], np.array([t]), np.array([momentum]))
        self.shards.call("projected_moves", Moves(*rows, made.size))
        made.normals.append(sums.normal)
        made.multipliers.append(t)
        made.momenta.append(momentum)
        self.last.clear()

    def repeat_changes(self, k: int) -> None:
        """Bring a shard that was loaded again to the weights of the others, by two passes."""
        if self.made.start is not None:
            self.shards.call_one(k, "projected_start", *self.made.start)
        if self.made.scales is not None:
            self.shards.call_one(k, "projected_scale", self.made.scales)
        if self.made.normals:
            self.shards.call_one(k, "projected_moves", self.made.moves)

    def sums(self, x: Vector) -> LossSums:
        """Return the sums at x and at the weights that the shards hold, by a pass."""
        if self.made.start is None:
            self.begin(x)
        return added(self.shards.call("projected_losses", plane_of(x[:-1]), self.max_slope))

    @property
    def holds_weights(self) -> bool:
        """Whether the shards hold the weights of their rows."""
        return True

    def row_weights(self, x: Vector, scales: Vector) -> list[Vector]:
        """Return the weights of the rows of each shard."""
        return self.shards.call("projected_weights", scales)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProjectedHinge(WeightsAtShards, HingePasses):
    """The dual of the hinge machine: a box, with a hyperplane where there is a bias."""

    def start_scales(self, weight: Vector) -> Vector:
        """Return the factors that make both sums equal where there is a bias."""
        if not self.bias:
            return np.ones(2)
        least = float(np.min(weight))
        return np.divide(least, weight, out=np.ones(2), where=weight > least)

    def multiplier(self) -> float:
        """Return the multiplier at which y'x = 0; 0 without a bias."""
        return projection_multiplier(self.shards, self.made.size, 0.0, False) if self.bias else 0.0

    def position(self, sums: StepSums) -> Vector:
        """Return w of the weights, and the best b for it."""
        b = best_bias(self.shards) if self.bias else 0.0
        return np.append(sums.normal[:-1], b)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProjectedSquares(WeightsAtShards, SquaredHingePasses):
    """The dual of the L2-SVM: the simplex."""

    def start_scales(self, weight: Vector) -> Vector:
        """Return the factor at which the sum is 1."""
        return np.full(2, 1.0 / float(np.sum(weight)))

    def multiplier(self) -> float:
        """Return the multiplier at which the sum is 1."""
        return projection_multiplier(self.shards, self.made.size, 1.0, True)

    def position(self, sums: StepSums) -> Vector:
        """Return the multiple of (w, b) of the weights that is the optimum where they are: by 1 / 2V."""
        value = 0.5 * (float(sums.normal @ sums.normal) + sums.ridge)
        return np.asarray(sums.normal / (2.0 * value))

    def weights_value(self, sums: LossSums) -> float:
        """Return V of the scaled weights."""
        v, b = self._normal(sums)
        total = np.sum(sums.weight)
        return float(0.5 * (float(v @ v) + b * b + sums.ridge) / (total * total))
