"""The bases of problems whose rows are read in passes, and of the methods for them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.distributed.group import ShardGroup
from qpsvm.domains import Domain
from qpsvm.solvers.base import Solver

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PassForm(Form):
    """A problem whose variable has few entries, and whose products are sums of one pass over the rows.

    Attributes
    ----------
    shards : ShardGroup
    m, n : int
        Number of rows, and of features.
    origin : ndarray, shape (n,), or None
        Point that was subtracted from dense rows.
    """

    shards: ShardGroup
    m: int
    n: int
    origin: Vector | None
    convex: bool = True
    negated: bool = False  # the bounds are those of the declared problem
    last: dict[str, Any] = field(default_factory=dict)  # the latest pass: its x and its sums
    best: dict[str, Any] = field(default_factory=dict)  # the pass of least gap: its x, sums and gap

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries that a pass reads."""
        return self.m * self.n

    def product(self, x: Vector) -> Any:
        """Return the sums at x: by a pass in float64, unless the latest pass was at x.

        Where the cluster is lost, the pass of least gap still has its sums.
        """
        if np.array_equal(self.last.get("x", ()), x):
            return self.last["sums"]
        if self.shards.is_lost and np.array_equal(self.best.get("x", ()), x):
            return self.best["sums"]
        self.last.update(sums=self.sums(x), x=x.copy())
        gap = self.bounds(x, self.last["sums"]).gap
        if gap < self.best.get("gap", np.inf):
            self.best.update(self.last, gap=gap)
        return self.last["sums"]

    def sums(self, x: Vector) -> Any:
        """Return the sums at x, by a pass."""
        raise NotImplementedError

    def feasible(self, x: Vector, product: Any) -> tuple[Vector, Any]:
        """Return both as they are."""
        return x, product

    def nonconvex(self) -> Self:
        """Return the problem marked as not convex."""
        return replace(self, convex=False)

    def with_store(
        self, memory_limit: int, *, low_precision: bool = False, whole_columns: bool = True
    ) -> Any:
        """Return a context manager whose value is the problem: it has no columns."""
        return nullcontext(self)

    @property
    def counters(self) -> dict[str, int]:
        """Bytes sent between client and shards, and round trips."""
        return self.shards.counters


@dataclass(frozen=True)
class PassSolver(Solver):
    """A method whose iterations are passes over the rows; each of them gives the bounds of its point.

    Attributes
    ----------
    target : float
        Relative gap; `solve` sets it to its `tol`.
    """

    target: float = 1e-3

    domains: ClassVar[tuple[type[Domain], ...]] = ()
    on_columns: ClassVar[bool] = False
    check_threshold: ClassVar[float] = 1.0  # the sums are those of the point: the bounds are exact

    def period(self, problem: Any) -> int:
        """Return 1: every iteration gives bounds."""
        return 1

    def refresh(self, problem: Any, state: Any, product: Any) -> None:
        """Continue from the sums of the latest pass."""
        state.product = product
