"""The QP of a dual whose points are in shards: products stay there, bounds are sums over shards.

Formulas and roundoffs are those of `qpsvm.canonical`; see `multiplier` for the multiplier of the sum.
Sums are made in float64 and added in the order of the shards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Bounds, enclose
from qpsvm.canonical.qp import QP
from qpsvm.distributed.group import ShardGroup
from qpsvm.distributed.kernel_sums import Limits, is_translatable, moved, stacked
from qpsvm.distributed.messages import AtWeights, PointCopies, Setup, Violators
from qpsvm.distributed.multiplier import Levels, best_levels
from qpsvm.distributed.violators import joined
from qpsvm.domains import BoxHyperplane, CappedSimplex, SimplexProduct
from qpsvm.errors import InputError
from qpsvm.gram.base import Gram
from qpsvm.gram.psd import SAMPLE_POINTS, psd_defect
from qpsvm.gram.signed import SignedGram

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Product(NamedTuple):
    """The name of a product G x that the shards hold: "running" or "exact"."""

    name: str


class Known(NamedTuple):
    """The weights of a product, and the extremes of its signed gradient in each group."""

    x: Vector
    low: Any = -np.inf  # minimum over I_up of each group, (n_groups,)
    high: Any = np.inf  # maximum over I_low


class Coefficients(NamedTuple):
    """Coefficients of points."""

    sign: Vector
    ridge: Vector
    upper: Vector


@dataclass(frozen=True, eq=False)
class ShardedGram(Gram):
    """What the QP needs to know of a kernel whose points are in shards."""

    shards: ShardGroup
    limits: Limits
    origin_of_points: Vector | None = None
    is_kernel = True

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of points."""
        return self.shards.layout.points.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Precision of the points."""
        return self.shards.layout.points.dtype

    @property
    def psd(self) -> str:  # type: ignore[override]
        """What is known of the definiteness of K: that of the kernel."""
        return self.shards.kernel.psd

    @property
    def origin(self) -> Vector | None:
        """The point that is subtracted from the points of a kernel with features, as in one process."""
        return self.origin_of_points if self.shards.kernel.by_factor else None

    @property
    def error(self) -> float:
        """Bound on the error of a float64 entry."""
        return self.limits.error

    @cached_property
    def _diagonal(self) -> Vector:
        out = np.empty(self.m)
        for k, part in enumerate(self.shards.call("diagonal")):
            out[self.shards.layout.rows(k)] = part
        return out

    def diag(self) -> Vector:
        """Return the diagonal, shape (m,), read from the shards once."""
        return self._diagonal

    def block(self, columns: Indices, rows: Any = None, dtype: Any = None) -> NDArray[Any]:
        """Raise InputError: points are in shards."""
        raise InputError("K must not be gathered: its points are in shards")

    def take(self, rows: Indices) -> Gram:
        """Raise InputError: no point may be omitted."""
        raise InputError(
            "C and sample_weight must be > 0 for every point of chunked rows; got 0, which omits a point"
        )

    def cross(self, points: Any, columns: Indices) -> Vector:
        """Raise InputError: points are in shards."""
        raise InputError("K must not be gathered: its points are in shards")


class Remembered:
    """Copies at the client of the points that were sent to the shards, or will be, in their order."""

    def __init__(self, m: int) -> None:
        self.row = np.empty(0, np.int64)  # index of each point, (k,)
        self.id = np.full(m, -1, np.int64)  # place among them by index, -1 for others
        self.points: Any = None
        self.diagonal = np.empty(0)
        self.n_known = 0  # number of points, the first ones, that the shards have
        self.value = 0.0  # absolute value of the objective at the last bounds
        self.level: Vector | None = None  # multipliers of the last bounds

    def add(self, rows: Indices, found: PointCopies) -> None:
        """Append points."""
        self.id[rows] = len(self.row) + np.arange(len(rows))
        self.row = np.concatenate([self.row, rows])
        self.points = found.points if self.points is None else stacked(self.points, found.points)
        self.diagonal = np.concatenate([self.diagonal, found.diagonal])

    def unsent(self) -> tuple[int, Any]:
        """Return the place of the first point that the shards lack, and these points, as sent now."""
        start, self.n_known = self.n_known, len(self.row)
        return start, None if start == self.n_known else self.points[start:]


@dataclass(frozen=True, eq=False)
class ShardedQP(QP):
    """A QP on simplices, on one with bounds, or a box with a hyperplane, whose products are in shards."""

    shards: ShardGroup = None  # type: ignore[assignment]
    remembered: Remembered = None  # type: ignore[assignment]
    known: dict[str, Known] = field(default_factory=dict)  # of each product of the shards

    @classmethod
    def of(cls, qp: QP, shards: ShardGroup) -> Self:
        """Return the QP that the shards take part in."""
        fields = {name: getattr(qp, name) for name in QP.__dataclass_fields__}
        problem = cls(**fields, shards=shards, remembered=Remembered(qp.m))
        shards.call("start", each=[(problem.setup(k),) for k in range(shards.n)])
        for name in ("running", "exact"):
            problem.known[name] = Known(np.zeros(qp.m))
        shards.restore = problem.restore
        return problem.with_sampled_defect()

    @property
    def kind(self) -> str:
        """The kind of its domain."""
        if isinstance(self.domain, BoxHyperplane):
            return "hyperplane"
        return "capped" if isinstance(self.domain, CappedSimplex) else "simplex"

    @property
    def n_groups(self) -> int:
        """Number of simplices; a box with a hyperplane is one group."""
        return getattr(self.domain, "n_groups", 1)

    def groups(self, rows: Any = slice(None)) -> Indices:
        """Return the groups of points."""
        one = np.broadcast_to(np.int64(0), (self.m,))
        return getattr(self.domain, "group", one)[rows]

    def setup(self, k: int) -> Setup:
        """Return the coefficients of the points of a shard."""
        rows, upper = self.shards.layout.rows(k), getattr(self.domain, "upper", np.inf)

        def own(values: Any) -> Any:
            values = np.asarray(values, np.float64)
            if values.ndim == 0 or np.all(values == values[0]):
                return float(values if values.ndim == 0 else values[0])
            return values[rows]

        gram = self.gram
        arrays = own(gram.sign), own(gram.ridge), own(upper), own(self.linear), own(self.groups())
        largest = self.scale, np.max(np.abs(self.linear)), np.max(gram.ridge)
        numbers = self.n_groups, float(gram.shift), float(gram.scale), self.m
        return Setup(self.kind, *arrays, *numbers, self.limits, np.array(largest))

    def with_sampled_defect(self) -> Self:
        """Return the problem with the defect of the kernel at a sample of its points."""
        if self.shards.kernel.psd != "check":
            return self
        rows = np.unique(np.linspace(0, self.m - 1, min(self.m, SAMPLE_POINTS)).astype(np.int64))
        sample = self.shards.kernel._over(self.fetch(rows).points)
        defect = psd_defect(sample)
        if defect == np.inf:
            return replace(self, convex=False)
        return replace(self, defect=defect * self.gram.scale)

    def coefficients(self, rows: Indices) -> Coefficients:
        """Return the signs, ridges and upper bounds of points."""
        upper = getattr(self.domain, "upper", None)
        own = np.full(len(rows), np.inf) if upper is None else upper[rows]
        return Coefficients(self.gram.sign[rows], self.gram.ridge[rows], own)

    def fetch(self, rows: Indices) -> PointCopies:
        """Return copies of points, in the order of `rows`."""
        parts = self.shards.layout.split(rows)
        found = self.shards.call("rows", each=[(local,) for _, local in parts])
        order = np.argsort(np.concatenate([at for at, _ in parts]), kind="stable")
        return _together(found, order)

    def remember(self, rows: Indices, found: list[Violators] | None = None) -> Indices:
        """Remember points that are not yet remembered; return the places of all of them.

        Points that came with the violators `found` are not fetched.
        """
        new = rows[self.remembered.id[rows] < 0]
        if len(new) and found:
            index = self.shards.layout.index
            came = [
                (index(k, local[: len(first.diagonal)]), first)
                for k, v in enumerate(found)
                for local, first in ((v.up, v.first_up), (v.down, v.first_down))
            ]
            at = np.concatenate([rows for rows, _ in came])
            _, places = np.unique(at, return_index=True)
            places = places[np.isin(at[places], new)]
            self.remembered.add(at[places], _together([first for _, first in came], places))
            new = new[self.remembered.id[new] < 0]
        if len(new):
            self.remembered.add(new, self.fetch(new))
        return self.remembered.id[rows]

    # --- products ---------------------------------------------------------------------------------

    def product(self, x: Vector) -> Any:
        """Let the shards recompute G x in float64, where its bounds may depend on it."""
        level, moved = self.remembered.level, np.inf
        if level is not None and not self.defect:
            moved = float(np.sum(np.abs(x - self.known["running"].x))) * self.scale
        at = self._at(x, level if np.isfinite(moved) else None, moved)
        found = self.shards.call("recompute", *self._weights(x), at, each=self._own(x))
        self.known["exact"] = Known(x.copy(), *joined(found))
        return Product("exact")

    def support_product(self, x: Vector, rows: Indices) -> Vector:
        """Return the product at remembered points, which include the support, without the shards."""
        of_points = self.gram.kernel
        assert isinstance(of_points, ShardedGram)
        ids = self.remember(rows)
        points = moved(self.remembered.points[ids], of_points.origin_of_points, np.float64)
        kernel, (sign, ridge, _) = self.shards.kernel._over(points), self.coefficients(rows)
        gram = SignedGram(kernel, sign, ridge, self.gram.shift, self.gram.scale)
        return gram.product(x[rows])

    def _at(self, x: Vector, level: Vector | None = None, moved: float = np.inf) -> AtWeights:
        """Return what shards need to know of x."""
        return AtWeights(float(np.sum(x)), float(np.max(self.entry_roundoff(x))), level, moved)

    def _weights(self, x: Vector) -> tuple[int, Any, Indices, Vector]:
        """Return points that the shards lack, places of the support, and its signed weights."""
        support = np.flatnonzero(x != 0)
        ids = self.remember(support)
        return *self.remembered.unsent(), ids, self.gram.sign[support] * x[support]

    def _own(self, x: Vector) -> list[tuple[Indices, Vector]]:
        """Return, for each shard, its points with weights and these weights."""
        support = np.flatnonzero(x != 0)
        parts = self.shards.layout.split(support)
        return [(local, x[support[at]]) for at, local in parts]

    def take_exact(self) -> None:
        """Let the shards continue from the recomputed product."""
        self.shards.call("take_exact")
        self.known["running"] = self.known["exact"]

    def restore(self, k: int) -> None:
        """Bring a shard that was loaded again to the state of the others."""
        shards, memory = self.shards, self.remembered
        shards.call_one(k, "summary")
        shards.call_one(k, "move", getattr(self.gram.kernel, "origin_of_points", None))
        shards.call_one(k, "start", self.setup(k))
        if memory.n_known:
            shards.call_one(k, "remember", 0, memory.points[: memory.n_known])
        for name in ("running", "exact"):
            x = self.known[name].x
            support = np.flatnonzero(x != 0)
            weights = self.gram.sign[support] * x[support]
            at, own = self._at(x), self._own(x)[k]
            shards.call_one(k, "recompute", -1, None, memory.id[support], weights, at, *own)
            if name == "running":
                shards.call_one(k, "take_exact")

    # --- bounds -----------------------------------------------------------------------------------

    @cached_property
    def scale(self) -> float:
        """Largest absolute diagonal entry of G."""
        return self.gram.scale * (self.largest + self.gram.shift)

    @property
    def limits(self) -> Limits:
        """Limits of the kernel values of all shards."""
        kernel = self.gram.kernel
        assert isinstance(kernel, ShardedGram)
        return kernel.limits

    @property
    def largest(self) -> float:
        """Largest |k(x, x)|."""
        return self.limits.diagonal

    def bounds(self, x: Vector, product: Any, error: Any = None) -> Bounds:
        """Return the bounds at x, whose product the shards hold: see `QP.bounds`.

        Bounds by the running product leave out the rounding of its sums: they decide when to certify.
        """
        name = product.name
        t, gap, sums, _ = self.best_levels(name)
        quadratic = sum(own.quadratic for own in sums)
        value = 0.5 * quadratic + 0.5 * sum(own.ridge for own in sums)
        value = value + sum(own.linear for own in sums) + self.constant
        self.remembered.value, own_roundoff = abs(value), 0.0
        if name == "exact" or self.defect:
            gap, own_roundoff = self._gap(name, x, t)
        else:
            self.remembered.level = t
        weights = float(np.linalg.norm(x, 1))
        weight = self.domain.total if isinstance(self.domain, BoxHyperplane) else weights
        some = np.flatnonzero(x != 0)
        roundoff = self.gram.roundoff(self.scale, x[some], some, weight, quadratic)
        roundoff += 8.0 * np.finfo(np.float64).eps * abs(value)
        multipliers, of_sum = t, self.domain.error_of_sums(x, t)
        if self.kind == "hyperplane":
            gap, multipliers = gap + own_roundoff + of_sum, np.append(t, 1.0)
        else:
            roundoff += own_roundoff + of_sum
            if self.defect:  # |a - x|^2 is at most sum of a and x'x
                left = 0.5 * self.defect * (self.n_groups + float(x @ x))
                roundoff += left
        floor = self.floor(roundoff, self.total_of(x))
        least = self.known_least
        if least == 0.0 and self.gram.kernel.psd == "check":
            least = -roundoff
        found = enclose(value, gap, roundoff, least, multipliers, floor)
        return found._replace(upper=-found.lower, lower=-found.upper) if self.negated else found

    def best_levels(self, name: str) -> Levels:
        """Return the best multipliers of a product, and the gap there."""
        known = self.known[name]
        extremes = known.low, known.high
        return best_levels(self.shards, name, self.domain, self.gram.ridge, extremes)

    def _gap(self, name: str, x: Vector, t: Vector) -> tuple[float, float]:
        """Return the gap with the multipliers t, and its roundoff besides that of G."""
        entry = float(np.max(self.entry_roundoff(x)))
        parts = self.shards.call("gap", name, t, entry, self.defect)
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)

    @property
    def counters(self) -> dict[str, int]:
        """Bytes sent between client and shards, and round trips."""
        return self.shards.counters


def qp_of(problem: Any, shards: ShardGroup, translates: bool) -> ShardedQP:
    """Return the QP of a formulation whose kernel is in shards; the points are moved to their mean."""
    parts = shards.call("summary")
    origin = None
    if translates or is_translatable(shards.kernel):
        origin = sum(part[1] for part in parts) / sum(part[0] for part in parts)
    limits = Limits(*np.max(shards.call("move", origin), axis=0).tolist())
    gram = ShardedGram(shards, limits, origin)
    qp = replace(problem, K=gram).as_qp()
    assert isinstance(qp.domain, (SimplexProduct, CappedSimplex, BoxHyperplane))
    return ShardedQP.of(replace(qp, primal=None), shards)


def _together(found: list[PointCopies], places: Indices) -> PointCopies:
    """Return points by their places in those of all parts."""
    parts = [part.points for part in found if part.points.shape[0]]
    diagonal = np.concatenate([part.diagonal for part in found])
    return PointCopies(stacked(*parts)[places], diagonal[places])
