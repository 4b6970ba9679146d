"""The box cut by a hyperplane: the domain of the hinge dual with a free bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import FLOAT64_EPS, BoxWithSums, Domain, deviation
from qpsvm.numerics.products import weighted_sum, weighted_sum_depth

MAX_SORTED_POINTS = 5000
"""Number of breakpoints up to which all are sorted."""

ROUNDING_OF_STEPS = 1e-10
"""Greatest |y'x|, relative to the sum of x, that counts as rounding of steps."""

SAMPLE_SIZE = 500
"""Approximate size of the sample of breakpoints that is sorted where there are more."""


@dataclass(frozen=True, eq=False)
class BoxHyperplane(Domain):
    """{0 <= x <= upper, y'x = 0}.

    Parameters
    ----------
    upper : ndarray, shape (m,)
        Positive; infinite for every coordinate (a cone) or for none.
    y : ndarray, shape (m,)
        -1 or +1.
    """

    upper: NDArray[np.float64]
    y: NDArray[np.float64]

    @property
    def m(self) -> int:  # type: ignore[override]
        """Dimension of the variable."""
        return len(self.y)

    @cached_property
    def bounded(self) -> bool:
        """Whether the upper bounds are finite."""
        return bool(np.isfinite(self.upper[0]))

    @cached_property
    def _uniform(self) -> bool:
        """Whether all upper bounds are one finite number."""
        return self.bounded and bool(np.all(self.upper == self.upper[0]))

    @cached_property
    def positive(self) -> float:
        """The sum of the upper bounds where y is +1."""
        return float(np.sum(self.upper[self.y > 0]))

    @cached_property
    def total(self) -> float:
        """The sum of the upper bounds."""
        return float(np.sum(self.upper))

    @cached_property
    def classes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where y is +1, and where it is -1."""
        return np.flatnonzero(self.y > 0), np.flatnonzero(self.y <= 0)

    def best_multiplier(self, g: NDArray[np.float64]) -> float:
        """Return b that minimizes sum upper_i max(0, -(g_i + b y_i)): the exact best bias.

        The function is convex and piecewise linear with breakpoints -y_i g_i; passing one raises
        its slope by upper_i. The answer is the first breakpoint after which the slope is >= 0.
        """
        return self._multiplier(self.y * g)

    def _multiplier(self, signed: NDArray[np.float64]) -> float:
        """Return the best multiplier, given y_i g_i."""
        if self._uniform:  # the n-th greatest, n the number of y = +1: no sort is needed
            n = max(1, len(self.classes[0]))
            return -nth_smallest(signed, len(signed) + 1 - n)
        breakpoints = -signed
        upper, below = self.upper, -self.positive
        total = below + self.total
        min_slope = -1e-12 * total if total > 0 else total
        if len(breakpoints) > MAX_SORTED_POINTS:  # bisect among a sample; few remain to sort
            sample = np.sort(breakpoints[:: len(breakpoints) // SAMPLE_SIZE])
            low, high = -1, len(sample)  # the slope is too small after `low`, and not after `high`
            while high - low > 1:
                middle = (low + high) // 2
                passed = float(
                    upper @ (breakpoints <= sample[middle])
                )  # a sum with `where` is slow
                low, high = (middle, high) if below + passed < min_slope else (low, middle)
            inside = np.ones(len(breakpoints), np.bool_)
            if low >= 0:
                inside &= breakpoints > sample[low]
                below += float(upper @ ~inside)
            if high < len(sample):
                inside &= breakpoints <= sample[high]
            breakpoints, upper = breakpoints[inside], upper[inside]
        order = np.argsort(breakpoints)
        slope = below + np.cumsum(upper[order])
        first = min(int(np.searchsorted(slope, min_slope)), len(order) - 1)
        return float(breakpoints[order[first]])

    def middle_multiplier(self, g: NDArray[np.float64]) -> float:
        """Return the middle of the interval of best multipliers, which is often a single one."""
        breakpoints = -self.y * g
        low = self._multiplier(-breakpoints)
        passed = breakpoints <= low
        slope = float(self.upper @ passed) - self.positive
        above = breakpoints[~passed]
        if slope > 1e-12 * self.total or not len(above):
            return low
        return low + 0.5 * (float(np.min(above)) - low)

    def farthest(self, x: NDArray[np.float64]) -> float:
        """Return the sum of the largest (a_i - x_i)^2 within the bounds, which is no less."""
        return farthest_in_box(x, self.upper)

    def linear_min(self, g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a minimizer of g'v: bounds by the sign of g + b y, ties filled until y'v = 0."""
        b = self.best_multiplier(g)
        slack = g + b * self.y
        v = np.where(slack < 0, self.upper, 0.0)
        imbalance = float(self.y @ v)
        for i in np.flatnonzero(slack == 0):
            # raise ties of the class of smaller sum until y'v = 0
            if imbalance * self.y[i] < 0:
                v[i] = min(self.upper[i], abs(imbalance))
                imbalance += self.y[i] * v[i]
        return v

    def separable_gap(
        self,
        x: NDArray[np.float64],
        g: NDArray[np.float64],
        d: NDArray[np.float64],
        support: NDArray[np.int64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """Return sum (upper - x) max(0, -s) + x max(0, s), s = g + b y, and b, for d = 0."""
        slack = self.y * g
        b = self._multiplier(slack)
        slack += b
        slack *= self.y  # exact: y is -1 or +1
        return slack_gap(x, self.upper, slack, support), np.array([b])

    def multipliers(
        self, x: NDArray[np.float64], g: NDArray[np.float64], d: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return b alone."""
        return np.array([self.best_multiplier(g)])

    def error_of_sums(self, x: NDArray[np.float64], multipliers: NDArray[np.float64]) -> float:
        """Return |b| |y'x|."""
        some = np.flatnonzero(x != 0)
        return abs(float(multipliers[0])) * deviation(self.y[some] * x[some])

    def entries_that_matter(
        self,
        g: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        known: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return where g + b y is not positive."""
        return np.asarray(~(g + multipliers[0] * self.y > 0.0))

    def convex_gap(
        self, x: NDArray[np.float64], slack: NDArray[np.float64], defect: float
    ) -> float:
        """Return the sum of the largest s_i (x_i - a_i) + defect / 2 (x_i - a_i)^2 within the bounds."""
        return convex_gap(x, self.upper, slack, defect)

    def cone_multiplier(self, h: NDArray[np.float64]) -> tuple[float, float]:
        """Return (lo, b) with the largest lo such that h_i + b y_i >= lo for every i.

        For both classes present: b = (min over y=-1 of h - min over y=+1 of h) / 2.
        """
        plus, minus = self.classes
        if not (len(plus) and len(minus)):
            return np.inf, np.inf if len(plus) else -np.inf
        p, q = float(np.min(h[plus])), float(np.min(h[minus]))
        return 0.5 * (p + q), 0.5 * (q - p)

    def box_with_sums(self) -> BoxWithSums:
        """Return the bounds, and y'x = 0."""
        return BoxWithSums(self.upper, self.y[None, :], np.zeros(1))

    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest of -x_i, x_i - upper_i and |y'x|."""
        return float(max(0.0, -x.min(), np.max(x - self.upper), abs(self.y @ x)))

    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Project on the set: clip(x - t y, 0, upper) with t by bisection to adjacent floats.

        What the rounding of many steps adds to y'x is taken from one weight: the projection would give
        every point a weight.
        """

        def at(t: float) -> NDArray[np.float64]:
            return np.clip(x - t * self.y, 0.0, self.upper)

        def excess(t: float) -> float:
            return float(self.y @ at(t))

        clipped = np.clip(x, 0.0, self.upper)
        imbalance, total = float(self.y @ clipped), float(np.sum(np.abs(x)))
        if abs(imbalance) <= 4 * np.finfo(float).eps * total:
            return clipped
        if abs(imbalance) <= ROUNDING_OF_STEPS * total:
            slack = np.minimum(clipped, self.upper - clipped)
            i = int(np.argmax(slack))
            if slack[i] > abs(imbalance):
                clipped[i] -= self.y[i] * imbalance
                return clipped
        finite = self.upper[np.isfinite(self.upper)]
        reach = float(np.max(np.abs(x))) + (float(finite.max()) if len(finite) else 0.0)
        low, high = -reach, reach  # excess does not increase: it is >= 0 at low, <= 0 at high
        while True:
            middle = 0.5 * (low + high)
            if middle in (low, high):
                return at(low if abs(excess(low)) < abs(excess(high)) else high)
            if excess(middle) > 0:
                low = middle
            else:
                high = middle

    def take(self, rows: NDArray[np.int64]) -> BoxHyperplane:
        """Return the same constraints on the coordinates `rows`."""
        return BoxHyperplane(self.upper[rows], self.y[rows])


def nth_smallest(values: NDArray[np.float64], n: int) -> float:
    """Return the n-th smallest of the values, n = 1 the least.

    Among many, the candidates are narrowed to an interval between two values of a sample.
    """
    if len(values) > MAX_SORTED_POINTS:
        sample = np.sort(values[:: len(values) // SAMPLE_SIZE])
        middle, width = n * len(sample) // len(values), len(sample) // 16
        low = sample[max(0, middle - width)] if middle > width else -np.inf
        high = sample[middle + width] if middle + width < len(sample) else np.inf
        below, inside = values < low, values <= high
        inside ^= below
        n_below, n_inside = int(np.count_nonzero(below)), int(np.count_nonzero(inside))
        if n_below < n <= n_below + n_inside:
            if low == high:
                return float(low)
            if n_inside < len(values):
                return nth_smallest(values[np.flatnonzero(inside)], n - n_below)
    return float(np.partition(values, n - 1)[n - 1])


@np.errstate(over="ignore", invalid="ignore")  # a gap may be infinite
def slack_gap(
    x: NDArray[np.float64],
    upper: NDArray[np.float64],
    slack: NDArray[np.float64],
    support: NDArray[np.int64] | None,
) -> float:
    """Return sum (upper - x) max(0, -slack) + x max(0, slack), reading only nonzero terms.

    The terms are added as `weighted_sum` does: `gap_roundoff` bounds the rounding.
    """
    if len(x) <= MAX_SORTED_POINTS:
        below = weighted_sum(upper - x, np.maximum(-slack, 0.0))
        return below + weighted_sum(x, np.maximum(slack, 0.0))
    under = np.flatnonzero(~(slack >= 0.0))  # NaN included
    support = np.flatnonzero(x != 0) if support is None else support
    gap = weighted_sum(x[under] - upper[under], slack[under])
    return gap + weighted_sum(x[support], np.maximum(slack[support], 0.0))


def farthest_in_box(x: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
    """Return the largest |a - x|^2 over 0 <= a <= upper."""
    return float(np.sum(np.maximum(np.abs(x), np.abs(upper - x)) ** 2))


def gap_roundoff(n_points: int, gap: float) -> float:
    """Return a bound on the rounding of a `slack_gap` or `convex_gap` of `n_points` with given slacks.

    Its terms are nonnegative; four roundings are those of a difference, a product and two sums.
    """
    if not np.isfinite(gap):
        return 0.0
    return 0.5 * FLOAT64_EPS * (weighted_sum_depth(n_points) + 4) * gap


def convex_gap(
    x: NDArray[np.float64],
    upper: NDArray[np.float64],
    slack: NDArray[np.float64],
    defect: float,
) -> float:
    """Return the gap with defect / 2 |x - a|^2 added: it is convex, so largest at a bound."""
    low, high = x, x - upper
    at_low, at_high = slack * low + 0.5 * defect * low**2, slack * high + 0.5 * defect * high**2
    return float(np.sum(np.maximum(at_low, at_high)))


def balance(x: NDArray[np.float64], classes: Sequence[NDArray[Any]]) -> tuple[float, float]:
    """Scale down the class of larger sum in place so that y'x = 0; return both sums before that.

    `classes` are the rows with y = +1 and those with y = -1, as indices or as masks.
    """
    plus, minus = (float(np.sum(x[rows])) for rows in classes)
    if plus != minus:
        x[classes[0] if plus > minus else classes[1]] *= min(plus, minus) / max(plus, minus)
    return plus, minus
