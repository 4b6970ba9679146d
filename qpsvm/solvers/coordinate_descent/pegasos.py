"""Pegasos: stochastic subgradient steps on the primal of the linear hinge SVM, with its dual weights.

Problem: minimize lambda/2 |w|^2 + sum p_i max(0, 1 - y_i x_i'w) with lambda = 1 / sum C_i and
p_i = C_i / sum C_i: the hinge problem without bias divided by sum C_i. At step t, with a batch A of
the points and step length 1 / (lambda t),

    w <- (1 - 1/t) w + (1/t) (m / |A|) sum over i in A with y_i x_i'w < 1 of C_i y_i x_i.

So w = sum a_i y_i x_i where a_i / C_i is the share of the visits of point i with a margin below 1. The
batches of an epoch are a random partition: at its end 0 <= a <= C holds automatically, and a is a dual
point for the certificate. The reported point is the average of these with weights 1, 2, 3, ...

Source: Shalev-Shwartz, Singer, Srebro and Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM", Mathematical Programming 127 (2011), Figure 2, without its optional projection; batches without
replacement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, PenaltyBox
from qpsvm.errors import check_number
from qpsvm.gram.base import slices
from qpsvm.numerics.csr_rows import Rows, add, dot, in_order, rows_of
from qpsvm.numerics.products import times, transposed_times
from qpsvm.solvers.base import HingeOnFactor, Reply, Stop

WORK_BETWEEN_POLLS = 4_000_000
"""Number of entries of points read between two polls of the clock: about 10 ms."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Pegasos(HingeOnFactor):
    """Stochastic subgradient steps; an iteration is an epoch.

    Parameters
    ----------
    batch : int
        Points of a step, |A|.
    """

    batch: int = 1

    domains: ClassVar[tuple[type[Domain], ...]] = (PenaltyBox,)
    is_abandonable: ClassVar[bool] = True  # x is set at the end of an epoch

    def __post_init__(self) -> None:
        """Check the settings."""
        check_number("batch", self.batch, low=1, integer=True)

    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> State:
        """Return the state before the first epoch; x0 counts as one past epoch."""
        domain = problem.domain
        assert isinstance(domain, PenaltyBox)
        X = problem.gram.kernel.factor()
        x = np.zeros(problem.m) if x0 is None else domain.repair(x0)
        state = State(X, rows_of(X), problem.gram.sign, domain.upper, x, rng)
        state.count[:] = x / domain.upper
        state.n_epochs = int(x.any())
        state.v[:] = transposed_times(X, state.y * x)
        return state

    def advance(self, problem: QP, state: State, n_steps: int) -> Reply:
        """Make epochs."""
        for _ in range(n_steps):
            order = state.rng.permutation(problem.m)
            batch = min(self.batch, problem.m)
            batches = max(1, WORK_BETWEEN_POLLS * problem.m // (batch * state.rows.entries))
            for at in slices(problem.m, batch * batches):
                epoch(
                    state.rows, state.y, state.upper, order, at.start, at.stop, batch,
                    state.n_epochs, state.count, state.v,
                )  # fmt: skip
            state.n_epochs += 1
            state.n_averaged += 1
            a = state.upper * np.minimum(state.count / state.n_epochs, 1.0)
            state.x += (2.0 / (state.n_averaged + 1)) * (a - state.x)
        return Reply(n_steps, Stop.BUDGET)

    def refresh(self, problem: QP, state: State, product: Vector) -> None:
        """Do nothing: the product is always computed on demand."""

    def work(self, problem: QP) -> int:
        """Return the entries of the points, all of which an epoch reads."""
        X = problem.gram.kernel.factor()
        return max(problem.m, int(X.size))

    def default_max_iter(self, problem: QP) -> int:
        """Return a finite number of epochs."""
        return 10_000


@dataclass
class State:
    """Counts of the visits with a margin below 1, and the averaged dual point."""

    X: Any
    rows: Rows
    y: Vector
    upper: Vector  # C
    x: Vector  # averaged weights
    rng: np.random.Generator
    n_epochs: int = 0
    n_averaged: int = 0
    count: Vector = field(init=False)
    v: Vector = field(init=False)  # sum count_i C_i y_i x_i

    def __post_init__(self) -> None:
        """Allocate."""
        self.count, self.v = np.zeros(len(self.y)), np.zeros(self.X.shape[1])

    @property
    def product(self) -> Vector:
        """G x."""
        return self.y * times(self.X, transposed_times(self.X, self.y * self.x))

    @property
    def counters(self) -> dict[str, int]:
        """Epochs."""
        return {"epochs": self.n_epochs}


@in_order
def epoch(
    rows: Rows,
    y: Any,
    upper: Any,
    order: Any,
    first: int,
    last: int,
    batch: int,
    n_before: int,
    count: Any,
    v: Any,
) -> None:
    """Visit the points from `first` to `last` of an order once, in batches."""
    data, columns, ends = rows
    m = len(order)
    short = np.empty(batch, np.bool_)
    for start in range(first, last, batch):
        some = order[start : min(start + batch, last)]
        epochs = n_before + start / m  # so far: w = v / epochs
        for k in range(len(some)):
            i = some[k]
            short[k] = y[i] * dot(data, columns, ends[i], ends[i + 1], v) < epochs
        for k in range(len(some)):
            i = some[k]
            if short[k] or epochs == 0.0:
                count[i] += 1.0
                add(data, columns, ends[i], ends[i + 1], upper[i] * y[i], v)
