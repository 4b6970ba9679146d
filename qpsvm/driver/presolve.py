"""Points that are equal, label included, solved as one: an exact reduction, and the way back.

Let x_1 .. x_n be the weights of equal points with equal labels. The products G x know their sum s alone,
and so do the linear term and the constraints, but for the bounds and the ridge:

- 0 <= x_i <= u_i can be met wherever 0 <= s <= sum u_i, by x_i = s u_i / sum u among others;
- the least of 1/2 sum d_i x_i^2 for a given s is 1/2 s^2 / sum 1 / d_i, at x_i in proportion to 1 / d_i.

So one point with the bound sum u_i, or with 1 / d = sum 1 / d_i, stands for all of them: a value or lower
bound of the small problem is one of the whole, at weights that are shared out like that, and its
certificate is valid there. Penalties add up, for u_i = C_i and d_i = 1 / C_i. Without bound and ridge
all but one of the points are redundant, and the first keeps the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.base import EPS, Certified, Form
from qpsvm.canonical.qp import HINGE, QP
from qpsvm.domains import BoxHyperplane, CappedSimplex, Domain, PenaltyBox, SimplexProduct
from qpsvm.gram import Gram, SignedGram
from qpsvm.gram.base import slices
from qpsvm.gram.cached import Cached
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.integer import PackedBits
from qpsvm.gram.storage.points import Points
from qpsvm.models import Expansion
from qpsvm.result import Progress

FEW = 1000
"""Points from which it is looked for equal ones where nobody asked for it."""

WORTH = 0.05
"""Share of the points that must be copies then."""

PIECE = 1 << 17
"""Coordinates compared at a time, in cache."""

SPARSE = 16
"""Bins for each point: three in a hundred points meet another one there."""

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Copies(NamedTuple):
    """Which points are equal."""

    first: Indices  # the points that stand for themselves and their copies, ascending, shape (n,)
    label: Indices  # the position in `first` of what stands for each point, shape (m,)


@dataclass(frozen=True, eq=False)
class Merging:
    """A problem on distinct points in place of a problem with copies.

    Attributes
    ----------
    whole, small : QP
    copies : Copies
    part : ndarray, shape (m,)
        Bound of a point's weight, or what its share in the weight of its like is in proportion to.
    total : ndarray, shape (n,)
        The sum of `part` over the points that are alike.
    rank : ndarray of int, shape (m,), or None
        How many equal points come before a point; -1 where their bounds differ. None without bounds.
    n_bytes : int
        Memory of the distinct points.
    """

    whole: QP
    small: QP
    copies: Copies
    part: Vector
    total: Vector
    rank: Indices | None
    n_bytes: int

    @property
    def n_copies(self) -> int:
        """Number of points that another one stands for."""
        return self.whole.m - self.small.m

    def start(self, x0: Vector | None) -> Vector | None:
        """Return the weights of the distinct points at a starting point."""
        if x0 is None:
            return None
        x = self.whole.repair(x0)
        return np.bincount(self.copies.label, weights=x).astype(np.float64)

    def point(self, x: Vector) -> Vector:
        """Return the weights of all points.

        Equal bounds are filled one after the other: then few of the points have weight.
        """
        label, part = self.copies.label, self.part
        share = (x / self.total)[label]
        if self.rank is None:
            return share * part
        filled = np.clip(x[label] - self.rank * part, 0.0, part)
        filled[filled <= 4.0 * EPS * x[label]] = 0.0
        return np.where((share < 1.0) & (self.rank >= 0), filled, share * part)

    def certified(self, small: Certified) -> Certified:
        """Return the point of the whole problem that was certified; the bounds are the same."""
        x = self.point(small.x)
        certificate = replace(small.certificate, violation=self.whole.violation(x))
        product = small.product[self.copies.label]
        return Certified(x, product, small.multipliers, certificate, primal=small.primal)

    def model(self, model: Any, given: Indices) -> Any:
        """Return a model whose expansions are over distinct points: it predicts faster.

        `given` are the indices by which it knows the points of the whole problem.
        """
        found = {f.name: getattr(model, f.name) for f in fields(model)}
        expansions = {k: v for k, v in found.items() if isinstance(v, Expansion)}
        first, label = self.copies
        for name, own in expansions.items():
            like = label[np.searchsorted(given, own.indices)]
            at, one, inverse = np.unique(like, return_index=True, return_inverse=True)
            coef = np.bincount(inverse, weights=own.coef).astype(np.float64)
            expansions[name] = own.over(one, given[first[at]], coef)
        return replace(model, **expansions) if expansions else model

    def callback(
        self, theirs: Callable[[Progress], Any] | None
    ) -> Callable[[Progress], Any] | None:
        """Return a callback that shows theirs the weights of all points."""
        if theirs is None:
            return None
        return lambda seen: theirs(replace(seen, _read=lambda: self.point(seen.x)))


def merging(form: Form | None, memory_limit: int, *, asked: bool) -> Merging | None:
    """Return how copies among the points of a problem are merged, or None where they are not.

    Where it was not `asked` for, the points must be many, their copies worth it, and the problem no quick
    one: see `_quick`. The distinct points may take as much of the memory as shorter columns leave.
    """
    if not isinstance(form, QP) or not isinstance(form.gram, SignedGram):
        return None
    kernel = form.gram.kernel
    inner = kernel.gram if isinstance(kernel, Cached) else kernel
    if not isinstance(inner, PointGram) or form.m < (2 if asked else FEW):
        return None
    if not asked and _quick(form):
        return None
    points = inner.coordinates
    copies = equal_points(points, _kinds(form), 1 if asked else int(WORTH * form.m))
    shares = None if copies is None else _shares(form, copies)
    if copies is None or shares is None:
        return None
    share = len(copies.first) / form.m
    n_bytes = int(_n_bytes(points if inner.dtype == np.float64 else inner.X) * share)
    reduced: Gram | None = None
    if isinstance(kernel, Cached):
        reduced = kernel.reduced(copies.first)
    elif n_bytes <= (1.0 - share) * memory_limit:
        reduced = kernel.take_for_solve(copies.first)
    if reduced is None:
        return None
    first, (part, total, domain, ridge) = copies.first, shares
    rank = None if isinstance(domain, SimplexProduct) else _rank(copies, part)
    gram = replace(form.gram, kernel=reduced, sign=form.gram.sign[first], ridge=ridge)
    small = replace(form, gram=gram, linear=form.linear[first], domain=domain)
    return Merging(form, small, copies, part, total, rank, n_bytes)


def _quick(qp: QP) -> bool:
    """Return whether a few passes over the points solve a problem: to find copies takes as many.

    So it is on a factor, but for the polytope distance's ridge.
    """
    domain, ridge = qp.domain, qp.gram.ridge
    one = isinstance(domain, SimplexProduct) and (domain.n_groups == 1 or not ridge.any())
    return qp.gram.kernel.factor() is not None and (one or isinstance(domain, HINGE))


def equal_points(points: Points, kinds: list[NDArray[Any]], least: int) -> Copies | None:
    """Return which points are equal and of the same kinds, or None where fewer than `least` are copies.

    Points whose products with a random vector are equal are compared coordinate by coordinate.

    Parameters
    ----------
    points : ndarray, csr_matrix or Bits, shape (m, d)
    kinds : list of ndarray, shape (m,)
        Numbers that must be equal too.
    least : int
    """
    m = points.shape[0]
    hashed = _hashed(points, kinds)
    n_bins = 1 << (SPARSE * m).bit_length()  # in few of them are points that are not copies
    taken = np.zeros(n_bins, np.bool_)
    taken[hashed.view(np.uint32)[::2] & (n_bins - 1)] = True
    if m - np.count_nonzero(taken) < max(least, 1):
        return None
    order = np.argsort(hashed)
    follows = hashed[order[1:]] == hashed[order[:-1]]
    starts = np.flatnonzero(np.concatenate([[True], ~follows]))
    stands = np.empty(m, np.int64)  # the first of those with the same product
    stands[order] = np.repeat(np.minimum.reduceat(order, starts), np.diff(np.append(starts, m)))
    others = np.flatnonzero(stands != np.arange(m))
    same = _equal(points, others, stands[others])
    for kind in kinds:
        same &= kind[others] == kind[stands[others]]
    stands[others[~same]] = others[~same]
    if np.count_nonzero(same) < max(least, 1):
        return None
    one = stands == np.arange(m)
    return Copies(np.flatnonzero(one), (np.cumsum(one) - 1)[stands])


def _hashed(points: Points, kinds: list[NDArray[Any]]) -> Vector:
    """Return the products of points and kinds with a random vector; equal ones in the same order."""
    X = points.words if isinstance(points, PackedBits) else points
    draw = np.random.default_rng(0).standard_normal(X.shape[1] + len(kinds))
    own, hashed = draw[: X.shape[1]], np.empty(X.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            hashed[:] = X @ own
        else:  # not by BLAS, whose sums of the last rows may be in another order
            for at in slices(len(X), max(1, PIECE // X.shape[1])):
                hashed[at] = np.einsum("ij,j->i", np.ascontiguousarray(X[at], np.float64), own)
        for kind, factor in zip(kinds, draw[X.shape[1] :], strict=True):
            hashed += factor * kind
    return hashed


def _equal(points: Points, some: Indices, others: Indices) -> NDArray[np.bool_]:
    """Return which of the points `some` equal those of `others`, by coordinates."""
    X = points.words if isinstance(points, PackedBits) else points
    if sp.issparse(X):
        return _equal_rows(X, some, others)
    same = np.empty(len(some), np.bool_)
    for at in slices(len(some), max(1, PIECE // X.shape[1])):
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
    return int((points.words if isinstance(points, PackedBits) else points).nbytes)


def _kinds(qp: QP) -> list[NDArray[Any]]:
    """Return what must be equal besides the points: it enters products, linear term or constraints."""
    kinds: list[NDArray[Any]] = [qp.gram.sign, qp.linear]
    if isinstance(qp.domain, SimplexProduct):
        kinds.append(qp.domain.group)
    elif isinstance(qp.domain, BoxHyperplane) and qp.domain.y is not qp.gram.sign:
        kinds.append(qp.domain.y)
    return [kind for kind in kinds if np.any(kind != kind[0])]


def _shares(qp: QP, copies: Copies) -> tuple[Vector, Vector, Domain, Vector] | None:
    """Return `part` and `total` of a merging, and the domain and the ridge of the small problem.

    None where bounds and ridge together do not add up.
    """
    (first, label), domain = copies, qp.domain
    if isinstance(domain, SimplexProduct):
        with np.errstate(divide="ignore"):
            size = 1.0 / qp.gram.ridge
    elif isinstance(domain, BoxHyperplane | PenaltyBox | CappedSimplex) and not qp.gram.ridge.any():
        size = domain.upper
    else:
        return None
    sums = np.bincount(label, weights=size).astype(np.float64)
    part, total, endless = size, sums, np.isinf(sums)
    if endless.any():  # one of infinite size is as good as several
        free = np.flatnonzero(np.isinf(size))
        heads = free[np.unique(label[free], return_index=True)[1]]
        part, total = np.where(endless[label], 0.0, size), np.where(endless, 1.0, sums)
        part[heads] = 1.0
    if isinstance(domain, SimplexProduct):
        return part, total, domain.take(first), 1.0 / sums
    boxed: Domain
    if isinstance(domain, BoxHyperplane):
        boxed = BoxHyperplane(sums, domain.y[first])
    else:
        boxed = type(domain)(sums)
    return part, total, boxed, np.zeros(len(first))


def _rank(copies: Copies, bound: Vector) -> Indices:
    """Return how many equal points come before a point; -1 where their bounds differ."""
    first, label = copies
    count = np.bincount(label)
    rank, several = np.zeros(len(label), np.int64), np.flatnonzero(count[label] > 1)
    order = several[np.argsort(label[several], kind="stable")]
    count = count[count > 1]
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    uneven = label[bound != bound[first][label]]
    rank[np.isin(label, uneven)] = -1
    return rank
