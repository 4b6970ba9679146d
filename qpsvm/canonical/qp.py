"""The quadratic program over a domain: the canonical form of most formulations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import (
    FLOAT64_EPS,
    ROUNDED_PRODUCT,
    ROUNDOFFS_OF_ZERO,
    Bounds,
    Form,
    ProductError,
    enclose,
)
from qpsvm.canonical.penalty_gap import (
    HINGE_DOMAINS,
    PENALTY_DOMAINS,
    best_bias,
    linear_roundoff,
    penalty_gap,
    penalty_roundoff,
    ridge_roundoff,
    slope_roundoff,
)
from qpsvm.canonical.primal_point import BallPoint, HingePoint, TubePoint
from qpsvm.canonical.zero_values import largest_zero
from qpsvm.clock import completing
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, PenaltyBox, SimplexProduct
from qpsvm.gram import SignedGram
from qpsvm.gram.column_store import Columns, ColumnStore
from qpsvm.gram.operator import QuadraticGram, Residual
from qpsvm.gram.psd import psd_defect
from qpsvm.numerics.products import weighted_sum

Vector = NDArray[np.float64]

MAX_RAY_FACTOR = 1e100
"""Factor from which a point of a cone is not moved along its ray: the value is unbounded there."""


@dataclass(frozen=True, eq=False)
class QP(Form):
    """Minimize 1/2 x'(G + D)x + c'x + constant over a domain, D = diag(ridge) >= 0.

    Attributes
    ----------
    gram : SignedGram
        G and its ridge.
    linear : ndarray, shape (m,)
        c.
    domain : Domain
    constant : float
    negated : bool
        Whether the declared problem minimizes the negative of this value (it is a primal whose
        dual is solved here).
    vanishing : bool
        Whether the optimal value may be 0, where a relative test alone may never pass.
    noise : float
        Rounding error of the value from the preparation of the data, such as centering.
    least : float
        A lower bound known in advance where G is positive semidefinite: 0 where c = 0.
    convex : bool
        Whether G is positive semidefinite; otherwise there is no lower bound.
    defect : float
        Bound on the distance of the least eigenvalue of G below 0, by the rounding of its entries.
    store : ColumnStore or None
        Cached columns of one solve.
    """

    gram: SignedGram
    linear: Vector
    domain: Domain
    constant: float = 0.0
    negated: bool = False
    vanishing: bool = False
    noise: float = 0.0
    least: float = -np.inf
    convex: bool = True
    defect: float = 0.0
    store: ColumnStore | None = None
    primal: HingePoint | BallPoint | TubePoint | None = None

    @cached_property
    def m(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return self.gram.m

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries of a column."""
        return self.m

    @contextmanager
    def with_store(
        self, memory_limit: int, *, low_precision: bool = False, whole_columns: bool = True
    ) -> Iterator[Self]:
        """Yield the problem with a store of columns, tested for positive semidefiniteness."""
        kernel = self.gram.kernel
        kernel = kernel.low_precision() if low_precision else kernel
        hold = kernel.hold if whole_columns else kernel.hold_points
        with hold(memory_limit) as store:
            yield replace(self.with_defect(store), store=store)

    def with_defect(self, store: ColumnStore | None = None) -> Self:
        """Return the problem with `convex` and `defect`: how far G is from positive semidefinite."""
        with completing():  # otherwise no lower bound would be valid
            defect = psd_defect(self.gram.kernel, store)
        if defect == np.inf:
            return replace(self, convex=False)
        scale = self.gram.scale if isinstance(self.gram, SignedGram) else 1.0
        return replace(self, defect=defect * scale)

    def nonconvex(self) -> Self:
        """Return the problem without any lower bound."""
        return replace(self, convex=False)

    def to_float64(self) -> QP:
        """Return the problem with columns in float64, or itself."""
        gram = replace(self.gram, kernel=self.gram.kernel.to_float64())
        return self if gram.kernel is self.gram.kernel else replace(self, gram=gram)

    @property
    def counters(self) -> dict[str, int]:
        """Columns computed."""
        if self.store is None:
            return {"columns": 0, "bytes": 0}
        return {"columns": self.store.n_computed, "bytes": self.store.n_bytes}

    def product(self, x: Vector) -> Vector:
        """Return G x, recomputed in float64; of least squares A x."""
        if self.store is None or not isinstance(self.gram, SignedGram):
            return self.gram.product(x)
        return self.gram.product(x, store=self.store)

    def entry_roundoff(self, x: Vector) -> float | Vector:
        """Return a bound on the rounding error of each entry of a recomputed G x."""
        own = 4.0 * FLOAT64_EPS * self.scale * float(np.linalg.norm(x, 1))
        some = np.flatnonzero(x != 0)
        return own + self.gram.scale * self.gram.kernel.dot_error(x[some], some)

    def product_error(self, x: Vector, error: Vector) -> ProductError:
        """Return what bounds on the errors of the entries of G x make of the terms of `bounds`."""
        support = x != 0
        error = np.where(support, error, 0.0)
        vertex = float(error @ self.domain.linear_min(-error))
        return ProductError(float(error @ np.abs(x)), vertex, float(np.max(error, initial=0.0)))

    @np.errstate(invalid="ignore")  # thresholds may be infinite: then all entries matter
    def entries_that_matter(
        self, x: Vector, product: Vector, known: NDArray[np.bool_], margin: float | Vector = 0.0
    ) -> NDArray[np.bool_] | None:
        """Return where the bounds at x may depend on an entry of G x; None where that is everywhere.

        Entries of `product` that are not `known` are lower bounds. With a `margin`, return also where
        they would depend on an entry that was less by it, at the same multipliers.
        """
        domain, g = self.domain, product + self.linear
        if isinstance(domain, HINGE_DOMAINS) and not domain.bounded:  # `feasible` moves x
            return None
        if isinstance(domain, HINGE_DOMAINS):
            multipliers = np.array([best_bias(self, g)])
        else:
            multipliers = domain.multipliers(x, g, self.gram.ridge)
        found = domain.entries_that_matter(g - margin, multipliers, known)
        if found is None:
            return None
        if isinstance(domain, HINGE_DOMAINS) and self.is_hinge:  # the least margin's points
            some = np.flatnonzero(known)
            if not len(some):
                return None
            least, bias = domain.take(some).cone_multiplier(product[some])
            if least > 0.0:
                less = product - (least + margin)
                found |= domain.entries_that_matter(less, np.array([bias]), known)
        return found | (x != 0)

    def repair(self, x: Vector) -> Vector:
        """Return a point of the domain near x."""
        return self.domain.repair(x)

    def violation(self, x: Vector) -> float:
        """Return the largest violation of the domain by x."""
        return self.domain.violation(x)

    @cached_property
    def scale(self) -> float:
        """Largest absolute diagonal entry of G: the size of the data; for least squares b'b."""
        if isinstance(self.gram, Residual):
            return self.gram.scale
        return self.gram.scale * (float(np.max(np.abs(self.gram.kernel.diag()))) + self.gram.shift)

    @cached_property
    def is_hinge(self) -> bool:
        """Whether it is a hinge dual: c = -1, so that a multiple of w may have margins of 1."""
        return bool(np.all(self.linear == -1.0)) and self.has_penalties

    @cached_property
    def has_penalties(self) -> bool:
        """Whether it is the dual of penalized errors of margins, whose signs are those of the one sum."""
        if not isinstance(self.domain, HINGE_DOMAINS):
            return False
        same = isinstance(self.domain, PenaltyBox) or self.domain.y is self.gram.sign
        return same or np.array_equal(self.domain.y, self.gram.sign)  # type: ignore[union-attr]

    @cached_property
    def level(self) -> float | None:
        """The constant entry of c on simplices, which shifts the multipliers alone; else None."""
        same = isinstance(self.domain, SimplexProduct) and np.all(self.linear == self.linear[0])
        return float(self.linear[0]) if same else None

    def columns(self) -> Columns:
        """Return the columns as compiled steps read them."""
        assert self.store is not None, "columns need a store: see with_store"
        return self.gram.columns(self.store)

    @cached_property
    def known_least(self) -> float:
        """A lower bound of the optimal value from the ridge, and from `least` where G allows it.

        On a simplex 1/2 x'Dx is at least 1/2 over the sum of all 1 / d_i, for every x.
        """
        if not self.convex or self.least != 0.0 or isinstance(self.gram, Residual):
            return self.least if self.convex else -np.inf
        if not isinstance(self.domain, SimplexProduct):
            return -np.inf if self.defect else 0.0
        ridge = self.gram.ridge - self.defect
        if np.min(ridge) < 0.0:
            return 0.5 * float(np.min(ridge)) * self.domain.n_groups
        with np.errstate(divide="ignore"):
            sums = np.bincount(self.domain.group, weights=1.0 / ridge)
        return (1.0 - 64.0 * FLOAT64_EPS) * float(np.sum(0.5 / sums))

    def floor(self, roundoff: float, total: float = 1.0) -> float:
        """Return the size below which a value counts as zero, for weights whose sum is `total`.

        It is 0 where the optimum is positive.
        """
        return largest_zero(self, roundoff, total) if self.vanishing else 0.0

    def total_of(self, x: Vector) -> float:
        """Return the sum of the weights that a declared value is relative to: of a simplex its total."""
        if isinstance(self.domain, PENALTY_DOMAINS):
            return float(np.sum(x))
        return float(np.max(self.domain.total)) if isinstance(self.domain, CappedSimplex) else 1.0

    def roundoff(self, x: Vector, product: Vector, value: float) -> float:
        """Return a bound on the rounding error of value and gap from float64 products."""
        if isinstance(self.gram, Residual):
            return self.gram.roundoff(x, product)
        some = np.flatnonzero(x != 0)
        return self._roundoff(x[some], product[some], some, value)

    def _roundoff(self, x: Vector, product: Vector, some: NDArray[np.int64], value: float) -> float:
        """Return that bound; x and `product` have the entries `some`, the support."""
        weight = float(np.linalg.norm(x, 1))
        hinge = isinstance(self.domain, HINGE_DOMAINS) and self.domain.bounded
        if hinge:  # its gap weighs the error of a margin by x_i or by upper_i - x_i
            weight = self.domain.total  # type: ignore[attr-defined]
        sharp = isinstance(self.domain, (*PENALTY_DOMAINS, SimplexProduct, CappedSimplex))
        quadratic = weighted_sum(x, product) if sharp else np.inf
        own = self.gram.roundoff(self.scale, x, some, weight, quadratic)
        return own + 8.0 * FLOAT64_EPS * abs(value)

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging x
    def bounds(self, x: Vector, product: Vector, error: ProductError = ROUNDED_PRODUCT) -> Bounds:
        """Return the bounds at a feasible x, given `product` = G x, whose error may exceed its rounding.

        upper = constant + 1/2 x'Gx + 1/2 x'Dx + c'x, and
        lower = constant - 1/2 x'Gx + min over a in the domain of (Gx + c)'a + 1/2 a'Da:
        the ridge is minimized exactly, which is far sharper than the Frank-Wolfe gap. Least
        squares come in residual form: `product` is Ax, and G x + c is A'(Ax - b).
        """
        if isinstance(self.gram, Residual):
            value, slope = self.gram.value(product), self.gram.slope(product)
            gap, multipliers = self.domain.separable_gap(x, slope, np.zeros(self.m))
            roundoff = self.gram.roundoff(x, product)
            roundoff += self.domain.error_of_sums(x, multipliers)
            floor = self.floor(roundoff)
            return enclose(value, gap, roundoff, self.known_least, multipliers, floor)
        ridge = self.gram.ridge
        xs = x[some := np.flatnonzero(x != 0)]  # reads the support alone
        products = product[some]
        quadratic = weighted_sum(xs, products)
        value = 0.5 * quadratic + 0.5 * weighted_sum(ridge[some] * xs, xs)
        value = value + weighted_sum(self.linear[some], xs) + self.constant
        roundoff = self._roundoff(xs, products, some, value)
        value += 0.5 * error.quadratic
        if isinstance(self.domain, HINGE_DOMAINS):
            gap, multipliers = penalty_gap(
                self, x, product, quadratic, value, some, self.entry_roundoff(x), error
            )
            roundoff += penalty_roundoff(self, x, product, multipliers, gap)
        else:
            slope = product if self.level is not None else product + self.linear
            gap, multipliers = self._separable_gap(x, slope)
            gap += error.quadratic + error.vertex
            multipliers = multipliers if self.level is None else multipliers + self.level
            roundoff += self.domain.error_of_sums(x, multipliers)
            if isinstance(self.domain, PENALTY_DOMAINS):
                roundoff += ridge_roundoff(self, x, slope, self._moved_defect)
        if isinstance(self.gram, QuadraticGram):
            roundoff += slope_roundoff(self, x)
        elif isinstance(self.domain, CappedSimplex) and self.linear.any():
            roundoff += linear_roundoff(self, x, product, multipliers)
        floor = self.floor(roundoff, self.total_of(xs))
        roundoff += self._lost_by_defect(x)
        least = self.known_least
        if least == 0.0 and self.gram.kernel.psd == "check":
            least = -roundoff  # rounded entries give no exact zero
        found = enclose(value, gap, roundoff, least, multipliers, floor)
        return found._replace(upper=-found.lower, lower=-found.upper) if self.negated else found

    @cached_property
    def _moved_defect(self) -> float:
        """The part of the defect that the ridge compensates: it is moved from D to G."""
        return min(self.defect, float(np.min(self.gram.ridge))) if self.defect else 0.0

    def _lost_by_defect(self, x: Vector) -> float:
        """Return the loss of the lower bound where (a - x)'G(a - x) may be negative."""
        left = self.defect - self._moved_defect
        if left <= 0.0 or isinstance(self.domain, HINGE_DOMAINS):
            return 0.0  # these duals have their own: see `penalty_gap`
        return 0.5 * left * self.domain.farthest(x)

    def _separable_gap(self, x: Vector, slope: Vector) -> tuple[float, Vector]:
        ridge, moved = self.gram.ridge, self._moved_defect
        if moved:
            slope, ridge = slope + moved * x, ridge - moved
        return self.domain.separable_gap(x, slope, ridge)

    @property
    def cone(self) -> bool:
        """Whether it is the hinge dual of a hard margin: its domain has no bounds."""
        return isinstance(self.domain, HINGE_DOMAINS) and not self.domain.bounded

    @cached_property
    def hulls(self) -> QP | None:
        """The distance of the two hulls, whose nearest points give the hard margin, of a cone.

        Without a bias, the distance of the hull of all y_i phi(x_i) to the origin. Its weights are points
        of the cone, and the best multiple of its optimum is optimal there. None where one class is empty,
        or where the domain is no cone.
        """
        if not self.cone:
            return None
        bias = isinstance(self.domain, BoxHyperplane)
        group = (self.gram.sign < 0).astype(np.int64) if bias else np.zeros(self.m, np.int64)
        if bias and np.ptp(group) == 0:
            return None
        return replace(self, linear=np.zeros(self.m), domain=SimplexProduct(group))

    def refuted(self, x: Vector, product: Vector) -> bool:
        """Return whether the value is unbounded below along x, at the precision of the data.

        That holds on a cone where x'Gx = 0 < -c'x: no hyperplane separates the classes then, since
        the combinations of their points with the weights x are one point. Half of x'Gx, where the sum
        of x is 2, is their squared distance, which counts as zero within its rounding error.
        """
        total = float(np.sum(x)) if self.cone and self.convex else 0.0
        if not 0.0 < total < np.inf:
            return False
        unit = x[some := np.flatnonzero(x != 0)] * (2.0 / total)
        quadratic = float(unit @ product[some]) * (2.0 / total)
        roundoff = self.gram.roundoff(self.scale, unit, some, 2.0, quadratic)
        zero = largest_zero(self, roundoff / ROUNDOFFS_OF_ZERO, 1.0)
        return max(0.5 * abs(quadratic), roundoff) <= zero

    @np.errstate(invalid="ignore", over="ignore")  # the loop detects a diverging x
    def feasible(self, x: Vector, product: Vector) -> tuple[Vector, Vector]:
        """Return x and G x scaled to the best value where the domain is a cone."""
        if self.cone:
            quadratic, slope = float(x @ product), -float(self.linear @ x)
            if quadratic > 0 and 0 < slope < MAX_RAY_FACTOR * quadratic:
                return x * (slope / quadratic), product * (slope / quadratic)
        return x, product

    def take(self, rows: NDArray[np.int64]) -> QP:
        """Return the same problem over the coordinates `rows` alone."""
        gram, linear, domain = self.gram.take(rows), self.linear[rows], self.domain.take(rows)
        return replace(self, gram=gram, linear=linear, domain=domain, store=None)
