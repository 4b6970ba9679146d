"""What the iteration loop remembers: checks, the points worth returning, the signs of a stall."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, Bounds, Certified, Form
from qpsvm.clock import Clock
from qpsvm.result import Certificate, History, Progress, Status, passed_test

IDLE_CHECKS = 20  # checks without progress after which the products are computed afresh

DIGITS_LOST = 1e-6
"""Share of the value at the last fresh products below which they are computed again: their rounding
errors are those of the larger value."""

REFUTED = 2.0
"""Certified over running gap of the best point from which the current one is certified too."""

SAME_GAP = 1.0 + 1e-9
"""Factor within which two gaps are the same number but for rounding."""


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    max_iter: int
    callback: Callable[[Progress], Any] | None = None
    clock: Clock = field(default_factory=Clock)
    is_slow: Callable[[int], bool] | None = None
    """Whether after so many steps on pairs or single coordinates a method counts as stalled."""


class Choice(NamedTuple):
    """What is returned at a limit."""

    certified: Certified
    selection: str = "least gap"  # or "least value"
    other: Certified | None = None  # the point of least gap beside that of least value


class Row(NamedTuple):
    """A check."""

    iteration: int
    time: float
    upper: float
    lower: float
    gap: float
    estimated: bool


def bounds_of(certified: Certified) -> Bounds:
    """Return the bounds that a certificate proves."""
    c = certified.certificate
    return Bounds(c.upper, c.lower, c.gap, certified.multipliers, c.roundoff, c.floor)


@dataclass
class Trace:
    """The best points, the checks, the clock, the signs of a stall.

    Running bounds come from maintained products, which carry the rounding of held columns: they are
    estimates. A certificate proves how far off they are at its point, and earlier estimates are
    corrected by as much. So a point whose gap only looked small does not displace a certified one.
    """

    problem: Form
    limits: Limits
    best: NDArray[np.float64]  # the point of least running gap, corrected
    started: float
    certifier: Callable[..., Certified]
    n_iter: int = 0
    certify_time: float = 0.0
    strikes: int = 0
    best_gap: float = np.inf
    proved: Certified | None = None  # the certified point of least gap
    fresh_value: float = 0.0  # size of the value when products were last computed afresh
    lowest: tuple[float, NDArray[np.float64]] | None = None  # least running value, its point
    by_value: bool = False  # whether the point of least value is returned at a limit
    rows: list[Row] = field(default_factory=list)
    _seen: tuple[float, float] = (np.inf, np.inf)  # least gap and value at a sign of progress
    _seen_afresh: tuple[float, float] = (np.inf, np.inf)  # the same from fresh products
    _quiet: int = 0

    def resume_from(
        self, n_iter: int, seen: History, timings: dict[str, float], certified: Certified
    ) -> None:
        """Begin where another method ended."""
        columns = seen.iteration, seen.time, seen.upper, seen.lower, seen.gap, seen.estimated
        self.rows = [Row(*row) for row in zip(*columns, strict=True)]
        self.proved = certified
        self.best, self.best_gap = certified.x.copy(), certified.certificate.gap
        self.n_iter, self.certify_time = n_iter, timings["certify"]
        self.started -= timings["iterate"] + timings["certify"]

    def elapsed(self) -> float:
        """Return the seconds since the iterations began."""
        return time.perf_counter() - self.started

    def consider(self, bounds: Bounds, x: NDArray[np.float64]) -> None:
        """Keep the point if its running gap, or value, is the least; note progress."""
        if bounds.gap < self.best_gap or self.best_gap == bounds.gap == np.inf:
            self.best[:], self.best_gap = x, bounds.gap
        self.fresh_value = self.fresh_value or abs(bounds.upper)
        if self.by_value and (self.lowest is None or bounds.upper < self.lowest[0]):
            self.lowest = bounds.upper, x.copy()
        self._seen, moved = self._progress(self._seen, bounds.upper, bounds.lower, bounds.gap)
        self._quiet = 0 if moved else self._quiet + 1

    def record(self, running: Bounds, certified: Certified | None) -> None:
        """Note a check: what was certified, or else the running bounds as estimates."""
        bounds = running if certified is None else bounds_of(certified)
        upper, lower, gap = bounds.upper, bounds.lower, bounds.gap
        if not np.isfinite(upper) or not np.isfinite(gap):  # where sums overflow nothing is known
            upper, lower, gap = (np.inf if np.isnan(upper) else upper), -np.inf, np.inf
        row = self.n_iter, self.elapsed(), upper, lower, gap
        self.rows.append(Row(*row, estimated=certified is None))

    def _progress(
        self, seen: tuple[float, float], upper: float, lower: float, gap: float
    ) -> tuple[tuple[float, float], bool]:
        """Return the least gap and value so far, and whether one of them became smaller."""
        value = -lower if self.problem.negated else upper
        moved = gap < 0.99 * seen[0] or value < seen[1] - 1e-13 * abs(seen[1])
        return (min(gap, seen[0]), min(value, seen[1])) if moved else seen, bool(moved)

    def idle(self) -> bool:
        """Return whether a number of checks passed without progress."""
        return self._quiet > 0 and self._quiet % IDLE_CHECKS == 0

    def imprecise(self, bounds: Bounds) -> bool:
        """Return whether the value is so much smaller than at fresh products that their errors count."""
        return abs(bounds.upper) < DIGITS_LOST * self.fresh_value < np.inf

    def near(self, bounds: Bounds, share: float) -> bool:
        """Return whether the running gap is below this share of the tolerance."""
        tol, floor = share * self.limits.tol, share * bounds.floor
        return passed_test(bounds.gap, bounds.upper, bounds.lower, tol, floor) != "none"

    def certify(
        self,
        x: NDArray[np.float64],
        approximate_products: ApproximateProducts | None,
        running: float = np.inf,
    ) -> Certified:
        """Certify the current point; `running` is its gap by maintained products, if there is one."""
        before = time.perf_counter()
        certified = self.certifier(
            self.problem, x, self.limits.tol, approximate_products=approximate_products
        )
        gap = certified.certificate.gap
        self.fresh_value = abs(certified.certificate.upper)
        if np.isfinite(running) and np.isfinite(gap):
            self.best_gap += max(gap - running, 0.0)
        if gap <= SAME_GAP * self.best_gap:
            self.best[:], self.best_gap = certified.x, gap
        if self.proved is None or gap < self.proved.certificate.gap:
            self.proved = certified
        self.certify_time += time.perf_counter() - before
        return certified

    def count_strikes(self, certified: Certified) -> None:
        """Count a strike where the fresh bounds are no better than the last ones."""
        c = certified.certificate
        self._seen_afresh, moved = self._progress(self._seen_afresh, c.upper, c.lower, c.gap)
        self.strikes = 0 if moved else self.strikes + 1

    def wants_stop(
        self, x: NDArray[np.float64], certified: Certified | None, prove: Callable[[], Certified]
    ) -> tuple[bool, Certified | None]:
        """Call back; return whether to stop, and the current point's certificate if it was asked for.

        True or StopIteration stops, other exceptions propagate.
        """
        if self.limits.callback is None:
            return False, None
        row, asked = self.rows[-1], certified

        def proof() -> Certificate:
            nonlocal asked
            asked = asked or prove()
            return asked.certificate

        shown = Progress(*row[:5], self.limits.tol, lambda: np.array(x), row.estimated, proof)
        try:
            return bool(self.limits.callback(shown)), asked
        except StopIteration:
            return True, asked

    def limit(self) -> Status | None:
        """Return the limit that is met, if any."""
        clock = self.limits.clock
        if clock.interrupted:
            return Status.INTERRUPTED
        if clock.timed_out:
            return Status.TIME_LIMIT
        return Status.MAX_ITER if self.n_iter >= self.limits.max_iter else None

    def choose(
        self, x: NDArray[np.float64] | None, approximate_products: ApproximateProducts | None
    ) -> Choice:
        """Return the best point, certified, where no certificate passed.

        That is the point of least certified gap, among those that were certified, the one whose running
        gap is least and, where that gap is refuted, the current one, x. A method whose theorem bounds
        the value alone returns the point of least value, beside that.
        """
        if self.proved is None or self.best_gap < self.proved.certificate.gap:
            looked = self.best_gap
            gap = self.certify(self.best.copy(), approximate_products).certificate.gap
            refuted = REFUTED * looked < gap < np.inf
            if x is not None and refuted and not np.array_equal(x, self.best):
                self.certify(x, approximate_products)
        assert self.proved is not None
        if self.lowest is None or self.proved.certificate.passed:
            return Choice(self.proved, "least gap")
        low = self.certifier(self.problem, self.lowest[1], self.limits.tol)
        if low.certificate.upper >= self.proved.certificate.upper:
            return Choice(self.proved, "least value")  # it has the least gap too
        return Choice(low, "least value", self.proved)

    def history(self) -> History:
        """Return the checks as arrays."""
        iteration, elapsed, upper, lower, gap, estimated = np.array(self.rows).T
        return History(
            iteration.astype(np.int64), elapsed, upper, lower, gap, estimated.astype(bool)
        )
