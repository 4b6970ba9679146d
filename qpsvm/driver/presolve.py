"""Presolve: points with equal coordinates and labels are merged into one, an exact reduction.

Let x_1 .. x_n be the weights of equal points with equal labels. The products G x depend on their sum s
alone, and so do the linear term and the constraints, except for the bounds and the ridge:

- 0 <= x_i <= u_i can be met wherever 0 <= s <= sum u_i, for example by x_i = s u_i / sum u;
- the least of 1/2 sum d_i x_i^2 for a given s is 1/2 s^2 / sum 1 / d_i, at x_i in proportion to 1 / d_i.

So one point with the bound sum u_i, or with 1 / d = sum 1 / d_i, represents all of them: a value or lower
bound of the reduced problem is one of the full problem at the weights distributed in this way, and its
certificate is valid there. Penalties add up, for u_i = C_i and d_i = 1 / C_i. Without bounds and ridge
all but one of the points are redundant, and the first keeps the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS, Certified, Form
from qpsvm.canonical.penalty_gap import HINGE_DOMAINS
from qpsvm.canonical.primal_point import TubePoint
from qpsvm.canonical.qp import QP
from qpsvm.domains import (
    BoxHyperplane,
    CappedSimplex,
    Domain,
    Orthant,
    PenaltyBox,
    SimplexProduct,
)
from qpsvm.expansion import Expansion
from qpsvm.gram import Gram, SignedGram
from qpsvm.gram.base import slices
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.repeated import RepeatedGram
from qpsvm.gram.storage.base import StoredPoints
from qpsvm.gram.storage.points import Points
from qpsvm.result import Progress

MIN_POINTS_FOR_SEARCH = 1000
"""Minimum number of points at which duplicates are searched for by default."""

MIN_DUPLICATE_SHARE = 0.05
"""Minimum share of duplicates among the points at which they are merged by default."""

CHUNK_ENTRIES = 1 << 17
"""Number of coordinates compared at a time, in cache."""

HASH_BINS_PER_POINT = 16
"""Number of hash bins per point: three in a hundred distinct points collide."""

RIDGE_DOMAINS = (SimplexProduct, Orthant)
"""Domains without upper bounds, on which a point's share of a weight is that of 1 / d."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Duplicates(NamedTuple):
    """Groups of equal points."""

    first: Indices  # the first point of each group, ascending, shape (n,)
    label: Indices  # the group of each point, as a position in `first`, shape (m,)


@dataclass(frozen=True, eq=False)
class Presolve:
    """A problem on distinct points in place of a problem with duplicates.

    Attributes
    ----------
    full, reduced : QP
    duplicates : Duplicates
    part : ndarray, shape (m,)
        Bound of a point's weight, or a number in proportion to its share of its group's weight.
    total : ndarray, shape (n,)
        The sum of `part` over each group.
    rank : ndarray of int, shape (m,), or None
        Number of equal points before a point; -1 where their bounds differ. None without bounds.
    n_bytes : int
        Memory of the distinct points.
    n_copies : int
        Coordinates that each point has: 2 in a regression, which has both signs of it.
    """

    full: QP
    reduced: QP
    duplicates: Duplicates
    part: Vector
    total: Vector
    rank: Indices | None
    n_bytes: int
    n_copies: int = 1

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.full.m // self.n_copies

    @property
    def n_duplicates(self) -> int:
        """Number of points that equal an earlier one."""
        return (self.full.m - self.reduced.m) // self.n_copies

    def start(self, x0: Vector | None) -> Vector | None:
        """Return the weights of the distinct points at a starting point."""
        if x0 is None:
            return None
        x = self.full.repair(x0)
        return np.bincount(self.duplicates.label, weights=x).astype(np.float64)

    def expand(self, x: Vector) -> Vector:
        """Return the weights of all points.

        Points with equal bounds are filled one after the other, which keeps the support small.
        """
        label, part = self.duplicates.label, self.part
        share = (x / self.total)[label]
        if self.rank is None:
            return share * part
        filled = np.clip(x[label] - self.rank * part, 0.0, part)
        filled[filled <= 4.0 * FLOAT64_EPS * x[label]] = 0.0
        return np.where((share < 1.0) & (self.rank >= 0), filled, share * part)

    def certified(self, reduced: Certified) -> Certified:
        """Return the certified point of the full problem; the bounds are the same."""
        x = self.expand(reduced.x)
        certificate = replace(reduced.certificate, violation=self.full.violation(x))
        product = reduced.product[self.duplicates.label]
        return Certified(x, product, reduced.multipliers, certificate, primal=reduced.primal)

    def model(self, model: Any, given: Indices) -> Any:
        """Return the model with expansions over distinct points, which predicts faster.

        `given` holds the model's indices of the points of the full problem.
        """
        found = {f.name: getattr(model, f.name) for f in fields(model)}
        expansions = {k: v for k, v in found.items() if isinstance(v, Expansion)}
        first, label = self.duplicates
        for name, own in expansions.items():
            like = label[np.searchsorted(given, own.indices)]
            at, one, inverse = np.unique(like, return_index=True, return_inverse=True)
            coef = np.bincount(inverse, weights=own.coef).astype(np.float64)
            expansions[name] = own.over(one, given[first[at]], coef)
        return replace(model, **expansions) if expansions else model

    def callback(
        self, user_callback: Callable[[Progress], Any] | None
    ) -> Callable[[Progress], Any] | None:
        """Return a callback that passes the weights of all points to the user's."""
        if user_callback is None:
            return None
        return lambda progress: user_callback(
            replace(progress, _read=lambda: self.expand(progress.x))
        )


def presolve(form: Form | None, memory_limit: int, *, asked: bool) -> Presolve | None:
    """Return the reduction to distinct points, or None where duplicates are not merged.

    Unless it was `asked` for, it needs many points, a share of duplicates, and a problem that is not
    quick: see `_is_quick`. The distinct points may take the memory that shorter columns save.
    """
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return None
    given, n_copies = form.gram.kernel, 1
    kernel = given
    if isinstance(given, RepeatedGram):
        kernel, n_copies = given.gram, given.n_copies
    inner = kernel.gram if isinstance(kernel, Cached) else kernel
    if not isinstance(inner, PointGram) or not n_copies:
        return None
    if inner.m < (2 if asked else MIN_POINTS_FOR_SEARCH) or (not asked and _is_quick(form)):
        return None
    points = inner.coordinates
    kinds = [kind for all_kinds in _kinds(form) for kind in np.split(all_kinds, n_copies)]
    kinds = [kind for kind in kinds if np.any(kind != kind[0])]
    found = equal_points(points, kinds, 1 if asked else int(MIN_DUPLICATE_SHARE * inner.m))
    duplicates = None if found is None else _with_copies(found, n_copies)
    shares = None if duplicates is None else _shares(form, duplicates)
    if found is None or duplicates is None or shares is None:
        return None
    share = len(found.first) / inner.m
    n_bytes = int(_n_bytes(points if inner.dtype == np.float64 else inner.X) * share)
    distinct: Gram | None = None
    if isinstance(kernel, Cached):
        distinct = kernel.reduced(found.first)
    elif n_bytes <= (1.0 - share) * memory_limit:
        distinct = kernel.take_for_solve(found.first)
    if distinct is None:
        return None
    if n_copies > 1:
        distinct = RepeatedGram(distinct, np.tile(np.arange(distinct.m), n_copies))
    first, (part, total, domain, ridge) = duplicates.first, shares
    rank = None if isinstance(domain, RIDGE_DOMAINS) else _rank(duplicates, part)
    gram = replace(form.gram, kernel=distinct, sign=form.gram.sign[first], ridge=ridge)
    primal = form.primal.take(found.first) if isinstance(form.primal, TubePoint) else form.primal
    reduced = replace(form, gram=gram, linear=form.linear[first], domain=domain, primal=primal)
    return Presolve(form, reduced, duplicates, part, total, rank, n_bytes, n_copies)


def _with_copies(points: Duplicates, n_copies: int) -> Duplicates:
    """Return the groups of equal coordinates, of which each point has `n_copies`."""
    first = [points.first + k * len(points.label) for k in range(n_copies)]
    label = [points.label + k * len(points.first) for k in range(n_copies)]
    return Duplicates(np.concatenate(first), np.concatenate(label))


def _is_quick(qp: QP) -> bool:
    """Return whether a few passes over the points solve a problem: finding duplicates takes as many.

    That holds for a factor, except for the ridge of the polytope distance, and for repeated points of the
    orthant alone.
    """
    domain, ridge = qp.domain, qp.gram.ridge
    if isinstance(domain, Orthant) and isinstance(qp.gram.kernel, RepeatedGram):
        return qp.gram.kernel.gram.factor() is not None
    one = isinstance(domain, SimplexProduct) and (domain.n_groups == 1 or not ridge.any())
    return qp.gram.kernel.factor() is not None and (one or isinstance(domain, HINGE_DOMAINS))


def equal_points(points: Points, kinds: list[NDArray[Any]], least: int) -> Duplicates | None:
    """Return the groups of equal points, or None where fewer than `least` points are duplicates.

    Points whose products with a random vector are equal are compared coordinate by coordinate.

    Parameters
    ----------
    points : ndarray, csr_matrix or StoredPoints, shape (m, d)
    kinds : list of ndarray, shape (m,)
        Numbers that must be equal too.
    least : int
    """
    m = points.shape[0]
    hashed = _hashed(points, kinds)
    n_bins = 1 << (HASH_BINS_PER_POINT * m).bit_length()  # few distinct points share one
    taken = np.zeros(n_bins, np.bool_)
    taken[hashed.view(np.uint32)[::2] & (n_bins - 1)] = True
    if m - np.count_nonzero(taken) < max(least, 1):
        return None
    order = np.argsort(hashed)
    follows = hashed[order[1:]] == hashed[order[:-1]]
    starts = np.flatnonzero(np.concatenate([[True], ~follows]))
    first_equal = np.empty(m, np.int64)  # the first point with the same product
    first_equal[order] = np.repeat(
        np.minimum.reduceat(order, starts), np.diff(np.append(starts, m))
    )
    others = np.flatnonzero(first_equal != np.arange(m))
    same = _equal(points, others, first_equal[others])
    for kind in kinds:
        same &= kind[others] == kind[first_equal[others]]
    first_equal[others[~same]] = others[~same]
    if np.count_nonzero(same) < max(least, 1):
        return None
    one = first_equal == np.arange(m)
    return Duplicates(np.flatnonzero(one), (np.cumsum(one) - 1)[first_equal])


def _hashed(points: Points, kinds: list[NDArray[Any]]) -> Vector:
    """Return the products of points and kinds with a random vector; equal ones in the same order."""
    X = points.words if isinstance(points, StoredPoints) else points
    draw = np.random.default_rng(0).standard_normal(X.shape[1] + len(kinds))
    own, hashed = draw[: X.shape[1]], np.empty(X.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            hashed[:] = X @ own
        else:  # not by BLAS, whose sums of the last rows may be in another order
            for at in slices(len(X), max(1, CHUNK_ENTRIES // X.shape[1])):
                hashed[at] = np.einsum("ij,j->i", np.ascontiguousarray(X[at], np.float64), own)
        for kind, factor in zip(kinds, draw[X.shape[1] :], strict=True):
            hashed += factor * kind
    return hashed


def _equal(points: Points, some: Indices, others: Indices) -> NDArray[np.bool_]:
    """Return which of the points `some` equal those of `others`, by coordinates."""
    X = points.words if isinstance(points, StoredPoints) else points
    if sp.issparse(X):
        return _equal_rows(X, some, others)
    same = np.empty(len(some), np.bool_)
    for at in slices(len(some), max(1, CHUNK_ENTRIES // X.shape[1])):
        same[at] = np.all(X[some[at]] == X[others[at]], axis=1)
    return same


def _equal_rows(X: Any, some: Indices, others: Indices) -> NDArray[np.bool_]:
    """Return which CSR rows store the same entries in the same order."""
    length = np.diff(X.indptr).astype(np.int64)
    same = length[some] == length[others]
    alike = np.flatnonzero(same)
    n = length[some[alike]]
    row = np.repeat(np.arange(len(alike)), n)
    within = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n)
    a, b = (X.indptr[rows[alike]][row] + within for rows in (some, others))
    differs = (X.indices[a] != X.indices[b]) | (X.data[a] != X.data[b])
    same[alike[row[differs]]] = False
    return same


def _n_bytes(points: Points) -> int:
    """Return the memory of points."""
    if sp.issparse(points):
        return int(points.data.nbytes + points.indices.nbytes + points.indptr.nbytes)
    return int((points.words if isinstance(points, StoredPoints) else points).nbytes)


def _kinds(qp: QP) -> list[NDArray[Any]]:
    """Return the data that must be equal besides the points: they enter products or constraints."""
    kinds: list[NDArray[Any]] = [qp.gram.sign, qp.linear]
    if isinstance(qp.domain, SimplexProduct | CappedSimplex):
        kinds.append(qp.domain.group)
    elif isinstance(qp.domain, BoxHyperplane) and qp.domain.y is not qp.gram.sign:
        kinds.append(qp.domain.y)
    return [kind for kind in kinds if np.any(kind != kind[0])]


def _shares(qp: QP, duplicates: Duplicates) -> tuple[Vector, Vector, Domain, Vector] | None:
    """Return `part` and `total` of a presolve, and the domain and the ridge of the reduced problem.

    None where both bounds and ridge are present: these cannot be combined.
    """
    (first, label), domain = duplicates, qp.domain
    if isinstance(domain, RIDGE_DOMAINS):
        with np.errstate(divide="ignore"):
            size = 1.0 / qp.gram.ridge
    elif isinstance(domain, BoxHyperplane | PenaltyBox | CappedSimplex) and not qp.gram.ridge.any():
        size = domain.upper
    else:
        return None
    sums = np.bincount(label, weights=size).astype(np.float64)
    part, total, endless = size, sums, np.isinf(sums)
    if endless.any():  # one point of infinite size replaces several
        free = np.flatnonzero(np.isinf(size))
        heads = free[np.unique(label[free], return_index=True)[1]]
        part, total = np.where(endless[label], 0.0, size), np.where(endless, 1.0, sums)
        part[heads] = 1.0
    if isinstance(domain, RIDGE_DOMAINS):
        return part, total, domain.take(first), 1.0 / sums
    boxed: Domain
    if isinstance(domain, BoxHyperplane):
        boxed = BoxHyperplane(sums, domain.y[first])
    elif isinstance(domain, CappedSimplex):
        boxed = CappedSimplex(sums, domain.group[first], domain.total)
    else:
        boxed = type(domain)(sums)
    return part, total, boxed, np.zeros(len(first))


def _rank(duplicates: Duplicates, bound: Vector) -> Indices:
    """Return the number of equal points before each point; -1 where their bounds differ."""
    first, label = duplicates
    count = np.bincount(label)
    rank, several = np.zeros(len(label), np.int64), np.flatnonzero(count[label] > 1)
    order = several[np.argsort(label[several], kind="stable")]
    count = count[count > 1]
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    uneven = label[bound != bound[first][label]]
    rank[np.isin(label, uneven)] = -1
    return rank
