r"""The minimum enclosing ball of rows in shards: a core set that grows by the farthest rows of a pass.

The dual is: minimize x'Kx - sum x_i k(z_i, z_i) over the simplex, K = ZZ'. Few rows, the core, have a
weight. With the center c = sum x_i z_i a pass gives the largest squared distance, which is an upper bound
of the squared radius, and the farthest rows of each shard, which are added to the core. The client solves
the ball of the core.

Source: Badoiu and Clarkson, "Smaller core-sets for balls" (2003); Frandi et al. (2013), Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds, Form, enclose
from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.kernel_sums import moved, stacked
from qpsvm.distributed.passes.form import PassForm, PassSolver
from qpsvm.distributed.passes.part import solve_part
from qpsvm.formulations import MEBDual
from qpsvm.gram import Linear
from qpsvm.numerics.products import squared_norms
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

FARTHEST_PER_SHARD = 32
"""Maximum number of rows that each shard offers in a pass; many shards offer fewer each."""

MAX_CORE_ROWS = 8192
"""Maximum number of rows of the core, which is the size of the variable."""

MIN_ADDITIONS_TO_CORE = 16
"""Number of times that all shards can add rows before the core is full."""

CORE_GAP_SHARE = 0.1
"""Relative gap to which the ball of the core is solved, as a fraction of the tolerance."""


class Farthest(NamedTuple):
    """The farthest rows from a center."""

    square: float  # the largest squared distance
    places: Indices  # indices of the rows that are offered, by descending distance
    rows: Any  # these rows, as they are stored


def farthest_rows(shards: ShardGroup, center: Vector | None) -> Farthest:
    """Return the farthest rows from a point in the user's coordinates, by a pass.

    Without a point each shard takes the mean of some of its rows instead.
    """
    count = min(FARTHEST_PER_SHARD, max(1, MAX_CORE_ROWS // (MIN_ADDITIONS_TO_CORE * shards.n)))
    found = shards.call("farthest", center, count)
    places = np.concatenate([shards.layout.index(k, part.local) for k, part in enumerate(found)])
    squares = np.concatenate([part.squares for part in found])
    order = np.argsort(-squares, kind="stable")
    rows = stacked(*[part.rows for part in found])
    return Farthest(float(squares[order[0]]), places[order], rows[order])


@dataclass
class Core:
    """The rows of the core, in the order in which they were added."""

    places: Indices  # their indices among all rows
    rows: Any  # these rows, moved
    origin: Vector | None  # point that is subtracted from dense rows

    def __post_init__(self) -> None:
        """Compute |z|^2."""
        self.squares: Vector = squared_norms(self.rows)

    def add(self, found: Farthest) -> int:
        """Add rows that are not in the core; return their number."""
        new = np.flatnonzero(~np.isin(found.places, self.places))
        new = new[: MAX_CORE_ROWS - len(self.places)]
        self.places = np.concatenate([self.places, found.places[new]])
        self.rows = stacked(self.rows, moved(found.rows[new], self.origin, np.float64))
        self.squares = squared_norms(self.rows)
        return len(new)


@dataclass(frozen=True, eq=False, kw_only=True)
class BallPasses(PassForm):
    """The ball of rows in shards; its variable has the weights of the core, shape (MAX_CORE_ROWS,)."""

    core: Core

    def center(self, x: Vector) -> Vector:
        """Return c on the moved rows."""
        return np.asarray(self.core.rows.T @ x[: len(self.core.places)])

    def sums(self, x: Vector) -> Farthest:
        """Return the farthest rows from the center, by a pass."""
        center = self.center(x)
        return farthest_rows(self.shards, center if self.origin is None else self.origin + center)

    def repair(self, x: Vector) -> Vector:
        """Return x on the simplex."""
        x = np.maximum(x, 0.0)
        total = float(np.sum(x))
        return x / total if total > 0.0 else x

    @np.errstate(invalid="ignore", over="ignore")
    def bounds(self, x: Vector, product: Farthest) -> Bounds:
        """Return the bounds of the dual's value: the negative squared radius lies between them."""
        c = self.center(x)
        value = float(c @ c) - float(x[: len(self.core.places)] @ self.core.squares)
        roundoff = self.roundoff(x, product, value)
        level = np.array([-value])
        return enclose(value, product.square + value, roundoff, -np.inf, level, floor=roundoff)

    def roundoff(self, x: Vector, product: Farthest, value: float) -> float:
        """Return a bound on the rounding error of the gap: sums of d terms, weights that sum to 1.

        No row is farther from the center than the farthest one; the center is rounded in the user's
        coordinates.
        """
        terms = self.n + len(self.core.places) + 8.0
        offset = 0.0 if self.origin is None else float(np.linalg.norm(self.origin))
        largest = float(np.linalg.norm(self.center(x))) + np.sqrt(product.square)  # |z| if moved
        return 4.0 * FLOAT64_EPS * float(terms * largest * largest + offset * largest)

    def violation(self, x: Vector) -> float:
        """Return the error of the sum of the weights."""
        return abs(float(np.sum(x)) - 1.0)


@dataclass
class CoreState:
    """The weights of the core, and the latest pass."""

    x: Vector
    product: Farthest

    @property
    def counters(self) -> dict[str, int]:
        """Size of the core."""
        return {"core": int(np.count_nonzero(self.x))}


@dataclass(frozen=True)
class CoreSetPasses(PassSolver):
    """A core set method: an iteration adds the farthest rows, solves the core's ball and makes a pass."""

    form: ClassVar[type[Form]] = BallPasses

    def default_max_iter(self, problem: BallPasses) -> int:
        """Return 200 passes."""
        return 200

    def init(self, problem: BallPasses, x0: Vector | None, rng: Any) -> CoreState:
        """Return the state at the ball of the first core."""
        x = np.zeros(MAX_CORE_ROWS)
        self._solve_core(problem, x)
        return CoreState(x, problem.product(x))

    def advance(self, problem: BallPasses, state: CoreState, n_steps: int) -> Reply:
        """Add the farthest rows, solve the ball of the core, and make a pass."""
        if not problem.core.add(state.product):
            return Reply(0, Stop.STALLED)
        self._solve_core(problem, state.x)
        state.product = problem.product(state.x)
        return Reply(1, Stop.BUDGET)

    def _solve_core(self, problem: BallPasses, x: Vector) -> None:
        """Set the weights to those of the ball of the core."""
        core = problem.core
        found = solve_part(MEBDual(Linear(core.rows)), CORE_GAP_SHARE * self.target)
        x[: len(core.places)] = found.x
