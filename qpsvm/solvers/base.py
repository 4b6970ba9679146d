"""The solver: settings, a state, and compiled steps that advance it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, Form
from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain
from qpsvm.gram import Gram, SignedGram
from qpsvm.gram.base import BLOCK_ENTRIES

WORK_BETWEEN_CHECKS = 2e7
"""Entries touched between two checks, where these are cheap: about 10 ms."""

WORK_BETWEEN_POLLS = 1e8
"""Entries touched between two looks at the clock: about 50 ms."""


FLOOR_BYTES = 8 * BLOCK_ENTRIES
"""Bytes of a method's own matrices that come on top of `memory_limit`: 16 MB."""


def shared(memory_limit: int, wanted: int) -> tuple[int, int]:
    """Return the bytes for matrices of which so many are wanted, and those that are left for columns.

    Beside the floor, half of a limit that is larger than it is for the matrices.
    """
    own = min(wanted, FLOOR_BYTES + (memory_limit // 2 if memory_limit > FLOOR_BYTES else 0))
    return own, memory_limit - max(own - FLOOR_BYTES, 0)


class Stop(Enum):
    """Why `advance` came back."""

    BUDGET = 0  # the steps asked for are done, or a part of them after a service of columns
    STALLED = 1  # no step decreases the value: roundoff or an optimal point
    NONCONVEX = 2  # a direction of negative curvature was met
    NUMERICAL = 3  # a non-finite number arose
    DONE = 4  # its own bounds say that the gap is closed
    NEWS = 5  # there is a new point to look at, before the steps asked for are done


@dataclass(frozen=True)
class Reply:
    """Steps done and why the solver came back."""

    steps: int
    stop: Stop


class Solver(ABC):
    """Frozen settings of a method; all that changes lives in the state it makes."""

    form: ClassVar[type[Form]] = QP
    """Canonical form it works on."""

    domains: ClassVar[tuple[type[Domain], ...]]
    """Domains it can work on."""

    on_columns: ClassVar[bool] = True
    """Whether it reads columns of the Gram, which a least-squares problem does not have."""

    check_threshold: ClassVar[float] = 0.5
    """Share of the tolerance at which its gap is worth a certificate; less than 1, as products drift."""

    first_check: ClassVar[int] = 1
    """Iteration of the first check; more where a check costs as much as many steps."""

    least_period: ClassVar[int] = 1
    """Fewest iterations from one check to the next; likewise."""

    gap_theorem: ClassVar[bool] = True
    """Whether the gap is what its theorem bounds; else it is the value alone, and at a limit the point
    of least value is returned."""

    is_abandonable: ClassVar[bool] = False
    """Whether `advance` may raise Expired at a limit: x and its product then still belong together."""

    uses_full_gap: bool = True
    """Whether all points are looked at before it ends; else `state.bounds` are a sample's."""

    @property
    def scheduled(self) -> bool:
        """Whether step lengths follow a schedule: then a time without progress is no sign of a stall."""
        return False

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver for this relative gap, where its settings depend on it."""
        return self

    def low_precision(self, problem: Any) -> bool:
        """Return whether columns of less precision do for the steps: `refresh` corrects them."""
        return False

    def within(self, problem: Any, memory_limit: int) -> tuple[Self, int]:
        """Return the solver whose own matrices keep to the memory, and the bytes left for columns.

        The first `FLOOR_BYTES` of these matrices come on top of the limit: with less it would crawl.
        """
        return self, memory_limit

    @abstractmethod
    def init(self, problem: Any, x0: NDArray[np.float64] | None, rng: np.random.Generator) -> Any:
        """Return the state at the starting point."""

    @abstractmethod
    def advance(self, problem: Any, state: Any, n_steps: int) -> Reply:
        """Make at most `n_steps` iterations in place; at least one unless it must stop."""

    @abstractmethod
    def refresh(self, problem: Any, state: Any, product: Any) -> None:
        """Take over fresh products: G x of a QP."""

    def approximate_products(self, problem: Any, state: Any) -> ApproximateProducts | None:
        """Return the maintained products with a bound on their error, where one is known.

        A certificate then looks at those points only which the bound does not settle.
        """
        return None

    def refresh_partly(self, problem: Any, state: Any, held: ApproximateProducts) -> None:
        """Take over products of which some are fresh and the others those of `approximate_products`."""
        raise NotImplementedError(f"{type(self).__name__} holds no bound on its errors")

    def fits(self, problem: Any) -> bool:
        """Return whether this solver can work on the problem."""
        readable = isinstance(problem.gram, SignedGram) or not self.on_columns
        return readable and isinstance(problem.domain, self.domains)

    def period(self, problem: Any) -> int:
        """Return the number of iterations between two checks, fixed by the problem's size.

        0 where only the solver knows when there is something new to look at: see `Stop.NEWS`.
        """
        return int(np.clip(WORK_BETWEEN_CHECKS / problem.m, self.least_period, 5000))

    def work(self, problem: Any) -> int:
        """Return the entries that an iteration touches, about: so often the clock is read."""
        return int(problem.work)

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the number of the next check: doubled up to the period, then its multiples."""
        if n_iter >= period:
            return (n_iter // period + 1) * period
        return min(max(self.first_check, 2 * n_iter), period)

    def on_one_thread(self, problem: Any) -> tuple[bool, bool]:
        """Return whether scipy's OpenBLAS (factors) and numpy's (products) are to use one thread."""
        return False, False

    def default_max_iter(self, problem: Any) -> int:
        """Return a finite budget for those who give none: seconds at 1,000 points."""
        return max(100 * problem.m, min(5_000_000, int(1e10 / problem.m)))


class HingeOnFactor(Solver):
    """A method for the hinge dual with finite penalties on a Gram with a factor."""

    def factors(self, kernel: Gram) -> bool:
        """Return whether there is a factor that the method can read."""
        return kernel.factor() is not None

    def fits(self, problem: QP) -> bool:
        """Return whether it is one, on a domain that suits."""
        return (
            super().fits(problem)
            and problem.domain.bounded  # type: ignore[attr-defined]
            and self.factors(problem.gram.kernel)
            and problem.gram.shift == 0.0
            and problem.gram.scale == 1.0
            and not problem.gram.ridge.any()
        )


@dataclass(frozen=True)
class Method:
    """An entry of METHODS: a solver family with its settings, and what it promises.

    Attributes
    ----------
    solver : callable
        Makes the solver from keyword options.
    summary : str
    source : str
        Paper, algorithm, equation.
    gap : float
        Relative gap that every conformance instance reaches (ill-conditioned ones apart)...
    budget : int
        ... within this many iterations.
    least_groups : int
        Fewest simplices of the domain: 2 for the methods of the polytope distance.
    general : callable or None
        Makes the solver for the problems that `solver` does not fit: the same rule on domains
        whose vertices are no coordinates.
    """

    solver: Callable[..., Solver]
    summary: str
    source: str
    gap: float
    budget: int
    least_groups: int = 1
    general: Callable[..., Solver] | None = None

    def maker(self, problem: Form) -> Callable[..., Solver] | None:
        """Return what makes the solver for a problem, or None where the method does not fit."""
        if not isinstance(problem, self.form):
            return None
        if isinstance(problem, QP) and getattr(problem.domain, "n_groups", 1) < self.least_groups:
            return None
        if self._plain.fits(problem):
            return self.solver
        if self.general is not None and self.general().fits(problem):
            return self.general
        return None

    @property
    def form(self) -> type[Form]:
        """The canonical form that it works on."""
        return self._plain.form

    @cached_property
    def _plain(self) -> Solver:
        """The solver without options, made once: every choice asks many of them whether they fit."""
        return self.solver()

    def fits(self, problem: Form) -> bool:
        """Return whether the method can work on the problem."""
        return self.maker(problem) is not None
