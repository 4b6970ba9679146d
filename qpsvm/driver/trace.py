"""The record of the iteration loop: checks, candidate answers, and signs of a stall."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import ApproximateProducts, Bounds, Certified, Form
from qpsvm.clock import Clock, Expired
from qpsvm.result import Certificate, History, Progress, Status, passed_test

CHECKS_WITHOUT_PROGRESS = 20
"""Number of checks without progress after which the products are recomputed."""

PRECISE_VALUE_FRACTION = 1e-6
"""Fraction of the value at the last recomputed products below which they are recomputed again: their
rounding errors are in proportion to the larger value."""

REFUTED_GAP_RATIO = 2.0
"""Ratio of certified to running gap of the best point above which the current point is certified too."""

INTERRUPT_GRACE_SECONDS = 0.01
"""Seconds after Ctrl-C in which a certificate may be recomputed."""

SAME_GAP_FACTOR = 1.0 + 1e-9
"""Factor within which two gaps are equal up to rounding."""


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    max_iter: int
    callback: Callable[[Progress], Any] | None = None
    clock: Clock = field(default_factory=Clock)
    is_slow: Callable[[Any], bool] | None = None
    """Whether a method counts as stalled in this state, since a fallback is likely to be faster."""


class Choice(NamedTuple):
    """The answer at a limit."""

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
    n_support: int
    n_bytes: int = 0


def bounds_of(certified: Certified) -> Bounds:
    """Return the bounds that a certificate proves."""
    c = certified.certificate
    return Bounds(c.upper, c.lower, c.gap, certified.multipliers, c.roundoff, c.floor)


@dataclass
class Trace:
    """The best points, the checks, the clock, the signs of a stall.

    Running bounds come from maintained products, which carry the rounding of cached columns: they are
    estimates. A certificate proves their error at its point, and earlier estimates are corrected by as
    much. So a point with an underestimated gap does not displace a certified one.
    """

    problem: Form
    limits: Limits
    best: NDArray[np.float64]  # the point of least running gap, corrected
    started: float
    certifier: Callable[..., Certified]
    n_iter: int = 0
    certify_time: float = 0.0
    certified_at: float | None = None  # time.perf_counter() of the latest certificate
    n_stalled_checks: int = 0
    best_gap: float = np.inf
    proved: Certified | None = None  # the certified point of least gap
    recomputed_value: float = 0.0  # size of the value when the products were last recomputed
    lowest: tuple[float, NDArray[np.float64]] | None = None  # least running value, its point
    by_value: bool = False  # whether the point of least value is returned at a limit
    rows: list[Row] = field(default_factory=list)
    _least_running: tuple[float, float] = (np.inf, np.inf)  # gap and value at the last progress
    _least_certified: tuple[float, float] = (np.inf, np.inf)  # the same from certificates
    _n_without_progress: int = 0

    def resume_from(
        self, n_iter: int, history: History, timings: dict[str, float], certified: Certified
    ) -> None:
        """Continue the record of another method."""
        columns = [getattr(history, f.name) for f in fields(history)]
        self.rows = [Row(*row) for row in zip(*columns, strict=True)]
        self.best = certified.x.copy()
        if self.problem.convex:  # else the Gram in float64 fails the test that its rounding passed
            self.proved, self.best_gap = certified, certified.certificate.gap
        self.n_iter, self.certify_time = n_iter, timings["certify"]
        self.started -= timings["iterate"] + timings["certify"]

    def elapsed(self) -> float:
        """Return the seconds since the iterations began."""
        return time.perf_counter() - self.started

    def consider(self, bounds: Bounds, x: NDArray[np.float64]) -> None:
        """Keep the point if its running gap, or value, is the least; record progress."""
        if bounds.gap < self.best_gap or self.best_gap == bounds.gap == np.inf:
            self.best[:], self.best_gap = x, bounds.gap
        self.recomputed_value = self.recomputed_value or abs(bounds.upper)
        if self.by_value and (self.lowest is None or bounds.upper < self.lowest[0]):
            self.lowest = bounds.upper, x.copy()
        self._least_running, moved = self._progress(
            self._least_running, bounds.upper, bounds.lower, bounds.gap
        )
        self._n_without_progress = 0 if moved else self._n_without_progress + 1

    def record(self, x: NDArray[np.float64], running: Bounds, certified: Certified | None) -> None:
        """Record a check of x: the certified bounds, or else the running bounds as estimates."""
        bounds = running if certified is None else bounds_of(certified)
        shown = (bounds.upper, np.inf), (bounds.lower, -np.inf), (bounds.gap, np.inf)
        upper, lower, gap = (unknown if np.isnan(value) else value for value, unknown in shown)
        row = self.n_iter, self.elapsed(), upper, lower, gap
        n_support = self.problem.n_support(x if certified is None else certified.x)
        self.rows.append(
            Row(
                *row,
                estimated=certified is None,
                n_support=n_support,
                n_bytes=self.problem.counters.get("bytes_sent", 0),
            )
        )

    def _progress(
        self, least: tuple[float, float], upper: float, lower: float, gap: float
    ) -> tuple[tuple[float, float], bool]:
        """Return the least gap and value so far, and whether one of them became smaller."""
        value = -lower if self.problem.negated else upper
        moved = gap < 0.99 * least[0] or value < least[1] - 1e-13 * abs(least[1])
        return (min(gap, least[0]), min(value, least[1])) if moved else least, bool(moved)

    def no_progress(self) -> bool:
        """Return whether a multiple of `CHECKS_WITHOUT_PROGRESS` checks passed without progress."""
        n = self._n_without_progress
        return n > 0 and n % CHECKS_WITHOUT_PROGRESS == 0

    def imprecise(self, bounds: Bounds) -> bool:
        """Return whether the value fell so far that the errors of the maintained products matter."""
        return abs(bounds.upper) < PRECISE_VALUE_FRACTION * self.recomputed_value < np.inf

    def near(self, bounds: Bounds, share: float) -> bool:
        """Return whether the running gap is below this share of the tolerance."""
        tol, floor = share * self.limits.tol, share * bounds.floor
        return passed_test(bounds.gap, bounds.upper, bounds.lower, tol, floor) != "none"

    def certify(
        self,
        x: NDArray[np.float64],
        approximate_products: ApproximateProducts | None,
        running: float = np.inf,
        recompute: bool = True,
    ) -> Certified:
        """Certify the current point; `running` is its gap by maintained products, if known."""
        before = time.perf_counter()
        certified = self.certifier(
            self.problem,
            x,
            self.limits.tol,
            approximate_products=approximate_products,
            recompute=recompute,
        )
        gap = certified.certificate.gap
        self.recomputed_value = abs(certified.certificate.upper)
        if np.isfinite(running) and np.isfinite(gap):
            self.best_gap += max(gap - running, 0.0)
        if gap <= SAME_GAP_FACTOR * self.best_gap:
            self.best[:], self.best_gap = certified.x, gap
        if self.proved is None or gap < self.proved.certificate.gap:
            self.proved = certified
        self.certified_at = time.perf_counter()
        self.certify_time += self.certified_at - before
        return certified

    def seconds_since_certificate(self) -> float:
        """Return the seconds since the latest certificate, or since the iterations began."""
        return time.perf_counter() - (self.certified_at or self.started)

    def count_stalled_checks(self, certified: Certified) -> None:
        """Count the checks in a row whose certified bounds are no better than earlier ones."""
        c = certified.certificate
        self._least_certified, moved = self._progress(
            self._least_certified, c.upper, c.lower, c.gap
        )
        self.n_stalled_checks = 0 if moved else self.n_stalled_checks + 1

    def wants_stop(
        self, x: NDArray[np.float64], certified: Certified | None, prove: Callable[[], Certified]
    ) -> tuple[bool, Certified | None]:
        """Call the callback; return whether to stop, and the current point's certificate, if computed.

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
        """Return the status of the limit that is met, if any."""
        clock = self.limits.clock
        if clock.interrupt.pressed_at < np.inf:
            return Status.INTERRUPTED
        if time.perf_counter() >= clock.end:
            return Status.TIME_LIMIT
        return Status.MAX_ITER if self.n_iter >= self.limits.max_iter else None

    def choose(
        self, x: NDArray[np.float64] | None, approximate_products: ApproximateProducts | None
    ) -> Choice:
        """Return the best point, certified, where no certificate passed.

        The candidates are the points that were certified, the point of least running gap and, where that
        gap is refuted, the current point x; the one of least certified gap is returned. A method whose
        theorem bounds the value alone returns the point of least value, and that one beside it.

        After an interrupt these certificates are abandoned where they take longer than
        `INTERRUPT_GRACE_SECONDS`, if the method maintains products of the current point whose error is
        known: it is certified from them, and the better of it and the certified points is returned.
        """
        if x is not None and approximate_products is not None and self.limits.clock.interrupted:
            try:
                with self.within_grace():
                    return self._choose(x, approximate_products)
            except Expired:
                self.certify(x, approximate_products, recompute=False)
                assert self.proved is not None
                return Choice(self.proved)
        return self._choose(x, approximate_products)

    def _choose(
        self, x: NDArray[np.float64] | None, approximate_products: ApproximateProducts | None
    ) -> Choice:
        """Return the best point, its certificate recomputed: see `choose`."""
        if self.proved is None or self.best_gap < self.proved.certificate.gap:
            running = self.best_gap
            gap = self.certify(self.best.copy(), approximate_products).certificate.gap
            refuted = REFUTED_GAP_RATIO * running < gap < np.inf
            if x is not None and refuted and not np.array_equal(x, self.best):
                self.certify(x, approximate_products)
        assert self.proved is not None
        if self.lowest is None or self.proved.certificate.passed:
            return Choice(self.proved, "least gap")
        low = self.certifier(self.problem, self.lowest[1], self.limits.tol)
        if low.certificate.upper >= self.proved.certificate.upper:
            return Choice(self.proved, "least value")  # it also has the least gap
        return Choice(low, "least value", self.proved)

    def within_grace(self) -> AbstractContextManager[None]:
        """Let work inside the ``with`` block be abandoned `INTERRUPT_GRACE_SECONDS` after Ctrl-C."""
        return self.limits.clock.after_interrupt(INTERRUPT_GRACE_SECONDS).abandoning()

    def history(self) -> History:
        """Return the checks as arrays."""
        iteration, elapsed, upper, lower, gap, estimated, n_support, sent = np.array(self.rows).T
        return History(
            iteration.astype(np.int64),
            elapsed,
            upper,
            lower,
            gap,
            estimated.astype(bool),
            n_support.astype(np.int64),
            sent.astype(np.int64),
        )
