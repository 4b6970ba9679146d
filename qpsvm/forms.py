"""Canonical forms: what a formulation compiles to and a method works on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.clock import completing
from qpsvm.domains import BoxHyperplane, Domain, PenaltyBox, SimplexProduct
from qpsvm.gram import Gram, SignedGram
from qpsvm.gram.columns import Columns, ColumnStore
from qpsvm.gram.psd import is_psd
from qpsvm.gram.quadratic import Residual

EPS = float(np.finfo(np.float64).eps)
MANY, FEW = 5000, 200
"""Points from which a few of the support are asked first whether any margin is left, and how many."""
HINGE = (BoxHyperplane, PenaltyBox)  # the domains of a hinge dual, with a free bias and without


def centering_noise(gram: Gram) -> float:
    """Return the square of the error of centered points: 16 ulp of the farthest one."""
    eps = float(np.finfo(gram.dtype).eps)
    return 0.0 if gram.origin is None else (16 * eps) ** 2 * float(np.max(gram.diag()))


class Held(NamedTuple):
    """Products as a method maintains them."""

    x: NDArray[np.float64]  # the point that they belong to
    product: NDArray[np.float64]  # G x, about
    error: NDArray[np.float64]  # a bound on the error of each entry


class Bounds(NamedTuple):
    """Upper and lower bound of the declared value, their gap, and the domain's multipliers."""

    upper: float
    lower: float
    gap: float
    multipliers: NDArray[np.float64]


class Form(ABC):
    """What the loop and `certify` ask of a canonical form; x is its variable, one flat array.

    Attributes
    ----------
    m : int
        Number of points.
    work : int
        Entries that a step touches, about.
    convex : bool
        Whether a lower bound may be believed.
    negated : bool
        Whether the declared problem minimises the negative of this value.
    """

    m: int
    work: int
    convex: bool
    negated: bool

    @abstractmethod
    def product(self, x: NDArray[np.float64]) -> Any:
        """Return the products with the data that `bounds` needs, afresh in float64."""

    @abstractmethod
    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a point near x that meets the constraints which need no product."""

    @abstractmethod
    def feasible(self, x: NDArray[np.float64], product: Any) -> tuple[NDArray[np.float64], Any]:
        """Return x and its products, moved in O(m) to where the bounds are valid and best."""

    @abstractmethod
    def bounds(self, x: NDArray[np.float64], product: Any) -> Bounds:
        """Return the bounds at a feasible x, in O(m)."""

    @abstractmethod
    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest violation of a constraint by x."""

    @abstractmethod
    def roundoff(self, x: NDArray[np.float64], product: Any, value: float) -> float:
        """Return a bound on the rounding error of the gap from fresh float64 products."""

    @abstractmethod
    def floor(self, tol: float) -> float:
        """Return the size below which a value counts as zero."""

    @abstractmethod
    def lend(self, memory_limit: int, *, narrow: bool = False) -> Any:
        """Return a context that lends this problem with its memory to one solve.

        With `narrow` the columns may be of less precision than the Gram.
        """

    @property
    @abstractmethod
    def counters(self) -> dict[str, int]:
        """What the loan has counted."""


@dataclass(frozen=True, eq=False)
class QP(Form):
    """Minimise 1/2 x'(G + D)x + c'x + constant over a domain, D = diag(ridge) >= 0.

    Attributes
    ----------
    gram : SignedGram
        G and its ridge.
    linear : ndarray, shape (m,)
        c.
    domain : Domain
    constant : float
    negated : bool
        Whether the declared problem minimises the negative of this value (it is a primal whose
        dual is solved here).
    vanishing : bool
        Whether the optimal value may be 0, so that a relative test alone might never pass.
    noise : float
        Rounding error of the value that entered with the data, before this problem was made.
    least : float
        A lower bound known beforehand: 0 where c = 0.
    convex : bool
        Whether G is positive semidefinite; without it there is no lower bound.
    store : ColumnStore or None
        Held columns, lent for the time of one solve.
    """

    gram: SignedGram
    linear: NDArray[np.float64]
    domain: Domain
    constant: float = 0.0
    negated: bool = False
    vanishing: bool = False
    noise: float = 0.0
    least: float = -np.inf
    convex: bool = True
    store: ColumnStore | None = None

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return self.gram.m

    @property
    def work(self) -> int:  # type: ignore[override]
        """Entries of a column."""
        return self.m

    @contextmanager
    def lend(self, memory_limit: int, *, narrow: bool = False) -> Iterator[Self]:
        """Lend a store of columns, and say whether G is positive semidefinite."""
        kernel = self.gram.kernel
        with (kernel.narrow() if narrow else kernel).hold(memory_limit) as store:
            with completing():  # without an answer no lower bound could be believed
                convex = is_psd(kernel)
            yield replace(self, store=store, convex=convex)

    def wide(self) -> QP:
        """Return the problem with columns in float64; itself where they are."""
        kernel = self.gram.kernel.wide()
        same = kernel is self.gram.kernel
        return self if same else replace(self, gram=replace(self.gram, kernel=kernel))

    @property
    def counters(self) -> dict[str, int]:
        """Columns computed."""
        if self.store is None:
            return {"columns": 0, "bytes": 0}
        return {"columns": self.store.n_computed, "bytes": self.store.n_bytes}

    def product(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G x; of least squares A x."""
        return self.gram.product(x)

    def entry_roundoff(self, x: NDArray[np.float64]) -> float:
        """Return a bound on the rounding error of an entry of a fresh G x."""
        return (4.0 * EPS * self.scale + self.gram.error) * float(np.linalg.norm(x, 1))

    @np.errstate(invalid="ignore")  # levels may be infinite: then all is reached
    def reached(
        self, x: NDArray[np.float64], product: NDArray[np.float64], known: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """Return where the bounds at x may depend on an entry of G x; None where that is everywhere.

        Entries of `product` that are not `known` are lower bounds.
        """
        domain, g = self.domain, product + self.linear
        if isinstance(domain, HINGE) and not domain.bounded:  # `feasible` moves x
            return None
        found = domain.reached(g, domain.multipliers(x, g, self.gram.ridge), known)
        if found is None:
            return None
        if isinstance(domain, HINGE):  # those that may set the least margin, if there is any
            some = np.flatnonzero(known)
            if not len(some):
                return None
            least, bias = domain.take(some).cone_multiplier(product[some])
            if least > 0.0:
                found |= domain.reached(product - least, np.array([bias]), known)
        return found | (x != 0)

    def repair(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a point of the domain near x."""
        return self.domain.repair(x)

    def violation(self, x: NDArray[np.float64]) -> float:
        """Return the largest violation of the domain by x."""
        return self.domain.violation(x)

    @cached_property
    def scale(self) -> float:
        """Largest diagonal entry of G: the size of the data, whatever the starting point.

        For least squares b'b.
        """
        if isinstance(self.gram, Residual):
            return self.gram.scale
        return self.gram.scale * (float(np.max(self.gram.kernel.diag())) + self.gram.shift)

    @cached_property
    def level(self) -> float | None:
        """The one entry of c on simplices: there it moves the multipliers alone; else None."""
        same = isinstance(self.domain, SimplexProduct) and np.all(self.linear == self.linear[0])
        return float(self.linear[0]) if same else None

    @cached_property
    def ridge(self) -> NDArray[np.float64]:
        """The diagonal of D; where it is one number, a view of that: then looks need not read it."""
        ridge = self.gram.ridge
        return np.broadcast_to(ridge[0], self.m) if np.all(ridge == ridge[0]) else ridge

    def columns(self) -> Columns:
        """Return what compiled steps read."""
        assert self.store is not None, "a solve lends the store"
        return self.gram.columns(self.store)

    def floor(self, tol: float) -> float:
        """Return the size below which a value counts as zero; 0 where the optimum is positive.

        It is tol * max(tol, 1e-7) times the largest diagonal entry, but never below what float64
        can tell from zero: 16 eps of that entry, and `noise`.
        """
        if not self.vanishing:
            return 0.0
        return max(max(tol * max(tol, 1e-7), 16 * EPS) * self.scale, self.noise)

    def roundoff(self, x: NDArray[np.float64], product: NDArray[np.float64], value: float) -> float:
        """Return a bound on the rounding error of the gap from fresh float64 products."""
        if isinstance(self.gram, Residual):
            return self.gram.roundoff(product)
        total = weight = float(np.linalg.norm(x, 1))
        hinge = isinstance(self.domain, HINGE) and self.domain.bounded
        if hinge:  # its gap weighs the error of a margin by x_i or by upper_i - x_i
            weight = self.domain.total  # type: ignore[attr-defined]
        sharp = hinge or isinstance(self.domain, SimplexProduct)
        quadratic = float(x @ product) if sharp else np.inf
        error = self.gram.roundoff(self.scale, total, weight, quadratic)
        return error + 8.0 * EPS * abs(value)  # with a ridge that is most of it, in value and gap

    @np.errstate(invalid="ignore", over="ignore")  # a diverging x is the loop's to notice
    def bounds(self, x: NDArray[np.float64], product: NDArray[np.float64]) -> Bounds:
        """Return the bounds at a feasible x, given `product` = G x.

        upper = constant + 1/2 x'Gx + 1/2 x'Dx + c'x, and
        lower = constant - 1/2 x'Gx + min over a in the domain of (Gx + c)'a + 1/2 a'Da:
        the ridge is minimised exactly, which is far sharper than the Frank-Wolfe gap. Least
        squares come in residual form: `product` is Ax, and G x + c is A'(Ax - b).
        """
        if isinstance(self.gram, Residual):
            upper, slope = self.gram.value(product), self.gram.slope(product)
            gap, multipliers = self.domain.separable_gap(x, slope, np.zeros(self.m))
            gap = min(max(gap, 0.0) + self.gram.roundoff(product), max(upper - self.least, 0.0))
            return Bounds(upper, upper - gap, gap, multipliers)
        ridge = self.gram.ridge
        some = np.flatnonzero(x != 0)  # a short support of many points is read alone
        xs = x[some]
        quadratic = float(xs @ product[some])
        upper = 0.5 * quadratic + 0.5 * float(ridge[some] @ (xs * xs))
        upper = max(upper + float(self.linear[some] @ xs) + self.constant, self.least)
        if isinstance(self.domain, HINGE):
            gap, multipliers = self._hinge_gap(x, product, quadratic, upper, some)
        else:
            slope = product if self.level is not None else product + self.linear
            gap, multipliers = self._separable_gap(x, slope, some[xs > 0])
            multipliers = multipliers if self.level is None else multipliers + self.level
        gap = max(gap, 0.0) + self.roundoff(xs, product[some], upper)
        if upper - gap < self.least:
            gap = max(upper - self.least, 0.0)
        lower = upper - gap
        if self.negated:
            upper, lower = -lower, -upper
        return Bounds(upper, lower, gap, multipliers)

    def _separable_gap(
        self, x: NDArray[np.float64], slope: NDArray[np.float64], some: NDArray[np.int64]
    ) -> tuple[float, NDArray[np.float64]]:
        if isinstance(self.domain, SimplexProduct):
            return self.domain.separable_gap(x, slope, self.ridge, some)
        return self.domain.separable_gap(x, slope, self.gram.ridge)

    def _hinge_gap(
        self,
        x: NDArray[np.float64],
        product: NDArray[np.float64],
        quadratic: float,
        upper: float,
        some: NDArray[np.int64],
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the smaller of two gaps of a hinge dual, and its (b, t): the primal point is (t w, b).

        Either t = 1 with the slacks that this leaves, or t such that the least margin is 1 and no
        slack is left: the only one with infinite C, and the better one where C is large.
        """
        domain = self.domain
        assert isinstance(domain, HINGE)
        if domain.bounded:
            slope = product + self.linear
            gap, b = domain.separable_gap(x, slope, self.gram.ridge, some)
            soft = gap, np.array([b[0] if len(b) else 0.0, 1.0])
            few = some[:: 1 + len(some) // FEW]  # over all points the least margin is no greater
            if self.m >= MANY and gap < np.inf and len(few):
                if domain.take(few).cone_multiplier(product[few])[0] <= 0.0:
                    return soft  # hard is infinite
        least, bias = domain.cone_multiplier(product)
        t = 1.0 / least if least > 0 else np.inf
        hard = upper + (0.5 * t * t * quadratic if t and np.isfinite(t) else t) - self.constant
        if domain.bounded and (gap <= hard or not t):
            return soft
        return hard, np.array([bias * t if t and np.isfinite(t) else np.sign(bias), t or 1.0])

    def feasible(
        self, x: NDArray[np.float64], product: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return x and G x moved along their ray to the best value where the domain is a cone."""
        if isinstance(self.domain, HINGE) and not self.domain.bounded:
            quadratic, slope = float(x @ product), -float(self.linear @ x)
            if quadratic > 0 and slope > 0:
                return x * (slope / quadratic), product * (slope / quadratic)
        return x, product

    def take(self, rows: NDArray[np.int64]) -> QP:
        """Return the same problem over the coordinates `rows` alone."""
        return replace(
            self,
            gram=self.gram.take(rows),
            linear=self.linear[rows],
            domain=self.domain.take(rows),
            store=None,
        )
