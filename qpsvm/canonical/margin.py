"""The margin form: a penalty on w and a loss of the margins, with its own dual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Bounds, Form, enclose
from qpsvm.clock import Expired, completing
from qpsvm.domains import BoxHyperplane
from qpsvm.gram.feature_map import CoefficientFeatures, Features, GramFeatures
from qpsvm.gram.psd import psd_defect
from qpsvm.gram.translation import bias_of, level_at
from qpsvm.numerics.products import weighted_sum, weighted_sum_depth

Vector = NDArray[np.float64]


class Point(NamedTuple):
    """The parts of the variable: the primal point (w, b) and the dual weights a."""

    w: Vector
    b: float
    a: Vector


class Products(NamedTuple):
    """Products with the data that bounds need."""

    values: Vector  # w'phi(x_i), shape (m,)
    v: Vector  # sum a_i y_i phi(x_i), shape (n,)
    paired: Vector  # the dual vector of v: v itself, or Kv of a Gram


@dataclass(frozen=True, eq=False)
class MarginProblem(Form):
    r"""Minimize R(w) + sum C_i loss(1 - y_i (w'phi(x_i) + b)) over w and b.

    Its dual, with v = sum a_i y_i phi(x_i), is to maximize sum a - R*(v) - sum C_i loss*(a_i / C_i),
    subject to y'a = 0 where there is a bias:

    ============  ====================  ==================================
    penalty       R(w)                  R*(v)
    ``"l2"``      1/2 w'w               1/2 v'v
    ``"l1"``      sum of all abs(w_j)   0, with abs(v_j) <= 1
    loss          loss(q)               C loss*(a / C)
    ``"hinge"``   max(0, q)             0, with 0 <= a <= C
    ``"squared"``  q^2                  a^2 / (4C)
    ============  ====================  ==================================

    The gap of any feasible pair is a sum of nonnegative terms, one for the penalty and one for each point
    (Fenchel and Young), and is computed as such.

    The variable x is w, then b, then a: shape (n + 1 + m,).

    Attributes
    ----------
    features : Features
        The points.
    y, C : ndarray, shape (m,)
        Labels -1 and +1; penalties, positive and finite.
    loss : str
        ``"hinge"`` or ``"squared"``.
    penalty : str
        ``"l2"`` or ``"l1"``.
    bias : bool
        Whether b is free; it is 0 otherwise.
    convex : bool
        Whether the Gram is positive semidefinite.
    defect : float
        Bound on the distance of its least eigenvalue below 0, by the rounding of its entries.
    origin : ndarray, shape (n,), or None
        Translation that was subtracted from the points.
    """

    features: Features
    y: Vector
    C: Vector
    loss: str = "hinge"
    penalty: str = "l2"
    bias: bool = True
    convex: bool = True
    defect: float = 0.0
    negated: bool = False
    origin: Vector | None = None

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of points."""
        return self.features.m

    @property
    def n(self) -> int:
        """Number of entries of w."""
        return self.features.n

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries of the data that a gradient reads, each twice."""
        return 2 * self.features.work + self.m

    @contextmanager
    def with_store(
        self, memory_limit: int, *, low_precision: bool = False, whole_columns: bool = True
    ) -> Iterator[Self]:
        """Store a Gram in memory where it fits, and test whether it is positive semidefinite."""
        try:
            stored = self.features.with_matrix(memory_limit)
        except Expired:  # the remaining work needs no matrix
            stored = self.features
        with completing():
            defect = psd_defect(stored.gram) if isinstance(stored, GramFeatures) else 0.0
        known = replace(self, features=stored, convex=defect < np.inf)
        yield replace(known, defect=defect) if known.convex else known

    def nonconvex(self) -> MarginProblem:
        """Return the problem without any lower bound."""
        return replace(self, convex=False)

    @property
    def counters(self) -> dict[str, int]:
        """Columns of a Gram stored in memory."""
        kernel = isinstance(self.features, GramFeatures | CoefficientFeatures)
        stored = kernel and self.features.K is not None  # type: ignore[attr-defined]
        return {"columns": self.m if stored else 0}

    def split(self, x: Vector) -> Point:
        """Return the parts of x; w and a are views."""
        return Point(x[: self.n], float(x[self.n]), x[self.n + 1 :])

    def join(self, w: Vector, b: float, a: Vector) -> Vector:
        """Return the variable of these parts."""
        return np.concatenate([w, [b], a])

    def n_support(self, x: Vector) -> int:
        """Return the number of nonzero dual weights."""
        return super().n_support(self.split(x).a)

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging x
    def product(self, x: Vector) -> Products:
        """Recompute the products: one with the points, one with their transpose."""
        w, _, a = self.split(x)
        v = self.features.combine(self.y * a)
        return Products(self.features.values(w), v, self.features.paired(v))

    def repair(self, x: Vector) -> Vector:
        """Return x with weights within their bounds and, where there is a bias, y'a = 0."""
        w, b, a = self.split(x)
        if self.loss == "squared":
            if self.bias:
                a = a - self.C * self.y * (float(self.y @ a) / float(np.sum(self.C)))
        elif self.bias:
            a = BoxHyperplane(self.C, self.y).repair(a)
        else:
            a = np.clip(a, 0.0, self.C)
        return self.join(w, b if self.bias else 0.0, a)

    def violation(self, x: Vector) -> float:
        """Return the largest violation of the bounds of a and of y'a = 0."""
        a = self.split(x).a
        violations = [0.0, abs(float(self.y @ a)) if self.bias else 0.0]
        if self.loss == "hinge":
            violations += [float(-np.min(a)), float(np.max(a - self.C))]
        return max(violations)

    @np.errstate(invalid="ignore", over="ignore")
    def feasible(self, x: Vector, product: Products) -> tuple[Vector, Products]:
        """Return x with its weights scaled to the best dual value, and with its best bias.

        Scaling keeps y'a = 0; the dual value is t sum(a) - t^2 r / 2, and t is bounded by the
        penalties and, with an l1 penalty, by abs(v_j) <= 1.
        """
        w, _, a = self.split(x)
        values, v, paired = product
        t = self.best_scale(a, v, paired)
        b = self.stored_bias(w, self.best_bias(values)) if self.bias else 0.0
        a = np.minimum(t * a, self.C) if self.loss == "hinge" else t * a
        return self.join(w, b, a), Products(values, t * v, t * paired)

    def best_scale(self, a: Vector, v: Vector, paired: Vector) -> float:
        """Return the t >= 0 at which t a has the best dual value."""
        total = float(np.sum(a))
        if total <= 0.0:
            return 0.0 if a.any() else 1.0
        curvature = float(v @ paired) if self.penalty == "l2" else 0.0
        max_scale = np.inf
        if self.penalty == "l1":
            steepest = float(np.max(np.abs(v)))
            max_scale = 1.0 / steepest if steepest > 0 else np.inf
        if self.loss == "squared":
            curvature += float(np.sum(a * a / (2.0 * self.C)))
        else:
            positive = a > 0
            max_scale = min(max_scale, float(np.min(self.C[positive] / a[positive])))
        return min(max_scale, total / curvature if curvature > 0 else np.inf)

    def stored_bias(self, w: Vector, b: float) -> float:
        """Return b after its rounding in the coordinates of the user's points."""
        return level_at(w, bias_of(w, b, self.origin), self.origin)

    def best_bias(self, values: Vector) -> float:
        """Return the exactly optimal b for these values."""
        if self.loss == "squared":
            return float(self.C @ (self.y - values)) / float(np.sum(self.C))
        return BoxHyperplane(self.C, self.y).best_multiplier(self.y * values - 1.0)

    @np.errstate(invalid="ignore", over="ignore")
    def value(self, w: Vector, b: float, values: Vector) -> float:
        """Return the primal value."""
        shortfall = 1.0 - self.y * (values + b)
        if self.penalty == "l2":
            penalty = 0.5 * weighted_sum(w, self.features.paired(w, values))
        else:
            penalty = float(np.sum(np.abs(w)))
        loss = np.maximum(shortfall, 0.0) if self.loss == "hinge" else shortfall * shortfall
        return penalty + weighted_sum(self.C, loss)

    def dual_value(self, a: Vector, v: Vector, paired: Vector) -> float:
        """Return the dual value of feasible weights."""
        total = float(np.sum(a))
        if self.penalty == "l2":
            total -= 0.5 * float(v @ paired)
        return total - float(np.sum(a * a / (4.0 * self.C))) * (self.loss == "squared")

    @np.errstate(invalid="ignore", over="ignore")
    def bounds(self, x: Vector, product: Products) -> Bounds:
        """Return the primal value, the dual value, and their difference without cancellation."""
        w, b, a = self.split(x)
        values, v, paired = product
        shortfall = 1.0 - self.y * (values + b)
        if self.penalty == "l2":
            gap = 0.5 * float((w - v) @ (self.features.paired(w, values) - paired))
        else:
            gap = float(np.sum(np.abs(w) - w * v))
        if self.loss == "hinge":
            gap += float(
                (self.C - a) @ np.maximum(shortfall, 0.0) + a @ np.maximum(-shortfall, 0.0)
            )
        else:
            gap += float(np.sum((a - 2.0 * self.C * shortfall) ** 2 / (4.0 * self.C)))
        value = self.value(w, b, values)
        roundoff = self.roundoff(x, product, value)
        least = 0.0 if self.convex else -np.inf
        return enclose(value, gap, roundoff, least, np.array([b]))

    @np.errstate(invalid="ignore", over="ignore")
    def roundoff(self, x: Vector, product: Products, value: float) -> float:
        """Return a bound on the rounding error of value and gap from float64 products.

        A value has an error of 4 eps |w| |x_i|, which enters the primal by the slope of its loss; v has
        one of 4 eps times the sum of all a_i |x_i|. For a Gram the values of w = sum c_j phi(x_j) have
        errors of 4 eps |x_i| times the sum of all |c_j| |x_j|: that is no less than |w| and does not
        cancel, unlike the square of the norm, which may even become negative. The defect of K from
        positive semidefiniteness is treated as an error of K. Where a margin is met up to its rounding a
        hinge has a slope, too, and a squared loss the square of that rounding; at w = 0 it has none.
        The terms of the value have a few roundings each, and those of their sum (`weighted_sum_depth`).
        """
        w, b, a = self.split(x)
        values, v, _ = product
        lengths, w_norm = self.features.lengths, float(np.linalg.norm(w))
        longest, total = float(np.max(lengths)), float(np.sum(np.abs(a)))
        weight = float(np.sum(np.abs(w))) + total
        on_gram = isinstance(self.features, GramFeatures)
        length = float(np.abs(w) @ lengths) if on_gram else w_norm
        size, margin_error = longest * length + abs(b), 0.0
        if length > 0.0:
            margin_error = 4.0 * FLOAT64_EPS * size + self.features.error * weight
            margin_error += self.defect * w_norm
        shortfall = 1.0 - self.y * (values + b)
        if self.loss == "hinge":  # a margin that is met up to rounding may be missed
            slope, curved = (shortfall > -margin_error).astype(np.float64), 0.0
        else:
            slope, curved = 2.0 * np.abs(shortfall), float(np.sum(self.C)) * margin_error**2
        total_slope = float(self.C @ slope)
        if on_gram:
            reach = float(np.abs(a) @ lengths)
            squares = length**2 + reach**2
            lost = self.defect * ((w_norm + float(np.linalg.norm(a))) ** 2 + total_slope * w_norm)
        else:
            v_error = 4.0 * FLOAT64_EPS * longest * total
            reach = total if self.penalty == "l1" else float(np.linalg.norm(v)) + v_error
            squares, lost = longest * reach * total, 0.0
        terms = total_slope * size + squares
        entries = self.features.error * weight * (weight + total_slope)
        sums = 0.5 * FLOAT64_EPS * (weighted_sum_depth(max(self.m, self.n)) + 8)
        of_value = sums * (abs(value) + (length**2 if on_gram else 0.0))
        return 4.0 * FLOAT64_EPS * terms + of_value + entries + lost + curved
