"""The solver: settings, a state, and compiled steps that advance it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, Form
from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, Orthant, SimplexProduct
from qpsvm.errors import check_number
from qpsvm.gram import Gram, SignedGram
from qpsvm.gram.base import BLOCK_ENTRIES
from qpsvm.gram.repeated import distinct_points

WORK_BETWEEN_CHECKS = 2e7
"""Number of entries read or written between two checks, where these are cheap: about 10 ms."""

WORK_BETWEEN_POLLS = 1e8
"""Number of entries read or written between two readings of the clock: about 50 ms."""

SLOW_MIN_STEPS = 10_000
"""Number of steps on pairs or single coordinates, in addition to those per point, above which a method is
slow."""

FLOOR_BYTES = 8 * BLOCK_ENTRIES
"""Bytes of a method's own matrices that do not count against `memory_limit`: 16 MB."""


def shared(memory_limit: int, wanted: int) -> tuple[int, int]:
    """Return the bytes for a method's own matrices, at most `wanted`, and the rest for columns.

    The matrices get the floor, and half of a limit that is larger than the floor.
    """
    own = min(wanted, FLOOR_BYTES + (memory_limit // 2 if memory_limit > FLOOR_BYTES else 0))
    return own, memory_limit - max(own - FLOOR_BYTES, 0)


class Stop(Enum):
    """Reason for which `advance` returned."""

    BUDGET = 0  # the requested steps are done, or some of them, after columns were filled
    STALLED = 1  # no step decreases the value: roundoff or an optimal point
    NONCONVEX = 2  # a direction of negative curvature was found
    NUMERICAL = 3  # a non-finite number was found
    DONE = 4  # the method's own bounds close the gap
    NEWS = 5  # there is a new point to check, before the requested steps are done


BUDGET_CODE, STALLED_CODE, NONCONVEX_CODE = (
    Stop.BUDGET.value,
    Stop.STALLED.value,
    Stop.NONCONVEX.value,
)
NUMERICAL_CODE, NEWS_CODE = Stop.NUMERICAL.value, Stop.NEWS.value
"""The values of `Stop` as compiled steps return them."""


@dataclass(frozen=True)
class Reply:
    """Number of steps done, and the reason for the return."""

    steps: int
    stop: Stop


class Solver(ABC):
    """Frozen settings of a method; everything that changes is in the state that `init` makes."""

    form: ClassVar[type[Form]] = QP
    """Canonical form that it solves."""

    domains: ClassVar[tuple[type[Domain], ...]]
    """Domains that it accepts."""

    on_columns: ClassVar[bool] = True
    """Whether it reads columns of the Gram; a least-squares problem has none."""

    whole_columns: ClassVar[bool] = True
    """Whether its steps read columns over all coordinates, also where coordinates share points."""

    check_threshold: ClassVar[float] = 0.5
    """Fraction of the tolerance at which its gap is worth a certificate; products carry errors."""

    first_check: ClassVar[int] = 1
    """Iteration of the first check; larger where a check costs as much as many steps."""

    least_period: ClassVar[int] = 1
    """Fewest iterations from one check to the next; larger for the same reason."""

    gap_theorem: ClassVar[bool] = True
    """Whether its theorem bounds the gap. Otherwise it bounds the value alone, and at a limit the point
    of least value is returned."""

    is_abandonable: ClassVar[bool] = False
    """Whether `advance` may raise Expired at a limit; x and its product then still agree."""

    seconds_between_certificates: ClassVar[float] = float("inf")
    """Seconds after which a point is certified that is not near the tolerance: it may be the last one."""

    slow_steps_per_point: ClassVar[int] = 100
    """Steps on pairs or single coordinates, per point, above which the method is slow.

    Problems that suit pair steps need 1 to 6 per point, down to gaps of 1e-6.
    """

    uses_full_gap: bool = True
    """Whether the gap over all points is checked before it ends; else `state.bounds` are a sample's."""

    @property
    def scheduled(self) -> bool:
        """Whether step lengths follow a schedule: then steps without progress are no sign of a stall."""
        return False

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether it ends by a stopping rule of its own.

        The point that is reached then is returned, also where an earlier one has a smaller gap.
        """
        return False

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver for this relative gap; its settings may depend on it."""
        return self

    def is_slow(self, problem: Any, state: Any) -> bool:
        """Return whether a fallback is likely to reach the tolerance earlier from here."""
        n_steps = state.counters.get("pair", 0) + state.counters.get("single", 0)
        return bool(n_steps > SLOW_MIN_STEPS + self.slow_steps_per_point * problem.m)

    def low_precision(self, problem: Any) -> bool:
        """Return whether float32 columns suffice for the steps: `refresh` corrects the products."""
        return False

    def within(self, problem: Any, memory_limit: int) -> tuple[Self, int]:
        """Return the solver with its own matrices within the limit, and the bytes left for columns.

        The first `FLOOR_BYTES` of these matrices do not count: with less the method would be slow.
        """
        return self, memory_limit

    @abstractmethod
    def init(self, problem: Any, x0: NDArray[np.float64] | None, rng: np.random.Generator) -> Any:
        """Return the state at the starting point."""

    @abstractmethod
    def advance(self, problem: Any, state: Any, n_steps: int) -> Reply:
        """Make at most `n_steps` iterations in place, and at least one unless it must stop."""

    @abstractmethod
    def refresh(self, problem: Any, state: Any, product: Any) -> None:
        """Replace the maintained products by recomputed ones: G x of a QP."""

    def approximate_products(self, problem: Any, state: Any) -> ApproximateProducts | None:
        """Return the maintained products with a bound on their error, where one is known.

        A certificate then recomputes only the entries that the bound does not decide.
        """
        return None

    def refresh_partly(self, problem: Any, state: Any, products: ApproximateProducts) -> None:
        """Set products of which some are recomputed and the others those of `approximate_products`."""
        raise NotImplementedError(f"{type(self).__name__} has no bound on its errors")

    def fits(self, problem: Any) -> bool:
        """Return whether the solver accepts the problem."""
        readable = isinstance(problem.gram, SignedGram) or not self.on_columns
        return readable and isinstance(problem.domain, self.domains)

    def period(self, problem: Any) -> int:
        """Return the number of iterations between two checks, fixed by the problem's size.

        0 where the solver itself announces new points to check: see `Stop.NEWS`.
        """
        return int(np.clip(WORK_BETWEEN_CHECKS / problem.m, self.least_period, 5000))

    def work(self, problem: Any) -> int:
        """Return about how many entries an iteration touches: it sets how often the clock is read."""
        return int(problem.work)

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the iteration of the next check: doubled up to the period, then its multiples."""
        if n_iter >= period:
            return (n_iter // period + 1) * period
        return min(max(self.first_check, 2 * n_iter), period)

    def on_one_thread(self, problem: Any) -> tuple[bool, bool]:
        """Return whether scipy's OpenBLAS (factors) and numpy's (products) are to use one thread."""
        return False, False

    def default_max_iter(self, problem: Any) -> int:
        """Return a finite default of `max_iter`: seconds at 1,000 points."""
        return max(100 * problem.m, min(5_000_000, int(1e10 / problem.m)))


@dataclass(frozen=True)
class WithTargetGap(Solver):
    """A method whose steps stop for a check where they find a gap by themselves.

    Parameters
    ----------
    target : float, optional
        This relative gap; by default the tolerance of the solve.
    """

    target: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.target is not None:
            check_number("target", self.target, low=0.0)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver with this target, unless its settings have one."""
        return self if self.target is not None else replace(self, target=tol)


def has_squared_slacks(problem: QP) -> bool:
    """Return whether it is the dual of a machine with squared slacks on a Gram with a factor.

    Its ridge is positive, a bias is penalized, and there are no bounds: over one simplex without a
    linear term, or over the orthant.
    """
    gram, domain = problem.gram, problem.domain
    return (
        isinstance(gram, SignedGram)
        and gram.scale == 1.0
        and gram.shift in (0.0, 1.0)
        and bool(np.min(gram.ridge) > 0.0)
        and distinct_points(gram.kernel).factor() is not None
        and (
            isinstance(domain, Orthant)
            or (
                isinstance(domain, SimplexProduct)
                and domain.n_groups == 1
                and not problem.linear.any()
            )
        )
    )


class PenaltiesOnFactor(Solver):
    """A method for duals with finite penalties, and signs in their one sum, on a Gram with a factor."""

    def factors(self, kernel: Gram) -> bool:
        """Return whether the kernel has a factor that the method can read."""
        return distinct_points(kernel).factor() is not None

    def fits(self, problem: QP) -> bool:
        """Return whether the problem is such a dual, on a domain that fits."""
        gram = problem.gram
        return (
            super().fits(problem)
            and isinstance(gram, SignedGram)
            and problem.has_penalties
            and problem.domain.bounded  # type: ignore[attr-defined]
            and self.factors(gram.kernel)
            and gram.shift == 0.0
            and gram.scale == 1.0
            and not gram.ridge.any()
        )


class HingeOnFactor(PenaltiesOnFactor):
    """A method for the hinge dual with finite penalties on a Gram with a factor."""

    def factors(self, kernel: Gram) -> bool:
        """Return whether the kernel has a factor that the method can read."""
        return kernel.factor() is not None

    def fits(self, problem: QP) -> bool:
        """Return whether the problem is such a dual, on a domain that fits."""
        return super().fits(problem) and problem.is_hinge


@dataclass(frozen=True)
class Method:
    """An entry of METHODS: a solver with its settings, and the gap that it promises.

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
        whose vertices are not coordinates, or on other losses.
    general_gap : float, optional
        Relative gap that those problems reach; `gap` by default.
    """

    solver: Callable[..., Solver]
    summary: str
    source: str
    gap: float
    budget: int
    least_groups: int = 1
    general: Callable[..., Solver] | None = None
    general_gap: float | None = None

    def maker(self, problem: Form) -> Callable[..., Solver] | None:
        """Return the function that makes the solver for a problem, or None where none fits."""
        if not isinstance(problem, self.form):
            return None
        if isinstance(problem, QP) and getattr(problem.domain, "n_groups", 1) < self.least_groups:
            return None
        if self._plain.fits(problem):
            return self.solver
        if self.general is not None and self.general().fits(problem):
            return self.general
        return None

    def gap_on(self, problem: Form) -> float:
        """Return the relative gap that it promises on a problem that it fits."""
        if self.general_gap is None or self.maker(problem) is not self.general:
            return self.gap
        return self.general_gap

    @property
    def form(self) -> type[Form]:
        """The canonical form that it solves."""
        return self._plain.form

    @cached_property
    def _plain(self) -> Solver:
        """The solver without options, made once: every selection calls `fits` of many methods."""
        return self.solver()

    def fits(self, problem: Form) -> bool:
        """Return whether the method accepts the problem."""
        return self.maker(problem) is not None
