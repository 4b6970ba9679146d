"""A point with few weights and its gradient, as the steps of Frank-Wolfe hold them.

A step moves few weights and, in one pass over all points, their gradient: see `gradient_pass`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import SimplexProduct
from qpsvm.numerics.argextremes import extreme_key_of, first_of
from qpsvm.numerics.jit import compiled, njit, vectorized
from qpsvm.numerics.work_sharing import TILE_POINTS, WorkSharing, work_sharing_for
from qpsvm.solvers.frank_wolfe.step_rules import STEP_KINDS
from qpsvm.solvers.shared.gradient_pass import Move, Points, find_tile_minima, move
from qpsvm.solvers.shared.prefetch import Prefetch, least_uncached


class Support(NamedTuple):
    """The coordinates with positive weight, side by side in the first entries, in any order."""

    at: NDArray[np.int64]  # (m,), the coordinate
    weight: NDArray[np.float64]  # (m,), its weight
    mark: NDArray[np.integer]  # (m,), its group
    slope: NDArray[np.float64]  # (m,), room for its gradient
    place: NDArray[np.int32]  # (m,), by coordinate: its entry here, or -1
    size: NDArray[np.int64]  # (1,), how many they are


def summing(function: Any) -> Any:
    """Compile like `compiled`, free to reorder sums."""
    flags = {"contract", "nnan", "nsz", "reassoc"}
    return njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function)


@dataclass
class FrankWolfeState:
    """A point of the domain with its gradient.

    The steps hold x as a list of the coordinates with weight; it is written out when asked for.
    """

    points: Points  # the problem as a pass over all points reads it
    gradient: NDArray[np.float64]  # (G + D)x
    support: Support  # the coordinates with weight
    keys: NDArray[np.int64]  # (n_groups, n_tiles), least gradient of the points of a tile
    point: NDArray[np.float64]  # x, unless it is stale
    counts: NDArray[np.int64]  # steps by STEP_KINDS
    ridge: NDArray[np.float64]  # D
    prefetch: Prefetch  # which columns come along with missing ones
    made: Move  # the last step
    team: WorkSharing  # who shares the passes
    written: NDArray[np.int64]  # where the point is not zero
    stale: bool = False

    @classmethod
    def at(cls, problem: QP, x: NDArray[np.float64]) -> FrankWolfeState:
        """Return the state at x."""
        domain, m, sign = problem.domain, problem.m, problem.gram.sign
        assert isinstance(domain, SimplexProduct)
        points = Points(
            side=sign.astype(np.int8),
            group=domain.group.astype(np.int8 if domain.n_groups < 128 else np.int32),
            linear=problem.linear,
            plain=problem.gram.plain,
            flat=problem.level is not None,
        )
        support = Support(
            at=np.empty(m, np.int64),
            weight=np.empty(m),
            mark=np.empty(m, points.group.dtype),
            slope=np.empty(m),
            place=np.full(m, -1, np.int32),
            size=np.zeros(1, np.int64),
        )
        keys = np.empty((domain.n_groups, -(-m // TILE_POINTS)), np.int64)
        counts = np.zeros(len(STEP_KINDS), np.int64)
        ridge, made = problem.gram.ridge, move(2 * domain.n_groups + 2)
        state = cls(
            *(
                points,
                np.empty(m),
                support,
                keys,
                x,
                counts,
                ridge,
                Prefetch(problem),
                made,
                work_sharing_for(m),
            ),
            written=support.at[:0],
        )
        state.look(problem, problem.gram.product(x))
        return state

    def look(self, problem: QP, product: NDArray[np.float64]) -> None:
        """Take over x, as it is written out, and G x."""
        x, support = self.point, self.support
        support.place[support.at[: support.size[0]]] = -1
        some = self.written = np.flatnonzero(x > 0)
        n = support.size[0] = len(some)
        support.at[:n], support.weight[:n] = some, x[some]
        support.mark[:n], support.place[some] = self.points.group[some], np.arange(n)
        self.gradient[:] = product
        self.gradient[some] += self.ridge[some] * x[some]
        find_tile_minima(self.points, self.gradient, self.keys)

    @property
    def x(self) -> NDArray[np.float64]:
        """The point, written out."""
        if self.stale:
            n = self.support.size[0]
            self.point[self.written] = 0.0
            self.written = self.support.at[:n].copy()
            self.point[self.written] = self.support.weight[:n]
            self.stale = False
        return self.point

    @property
    def product(self) -> NDArray[np.float64]:
        """G x, without the ridge."""
        n = self.support.size[0]
        some = self.support.at[:n]
        if not self.ridge[some].any():
            return self.gradient
        product = self.gradient.copy()
        product[some] -= self.ridge[some] * self.support.weight[:n]
        return product

    def wanted(self, slot: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return coordinates with the least gradients whose columns are not held."""
        f = self.gradient if self.points.flat else self.gradient + self.points.linear
        n_groups, group = len(self.keys), self.points.group
        share = -(-count // n_groups)
        found = [least_uncached(f, 1.0, group, g, -1, slot, share) for g in range(n_groups)]
        return np.concatenate(found)

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return dict(zip(STEP_KINDS, map(int, self.counts), strict=True))


@summing
def slopes(points: Points, support: Support, q: Any) -> Any:
    """Note the gradient over the support; return x'f and x'(G + D)x."""
    n = support.size[0]
    index, weight, slope = support.at[:n], support.weight[:n], support.slope[:n]
    stride = np.uintp(0 if points.flat else 1)
    xf = 0.0
    xqx = 0.0
    for a in range(n):
        k = np.uintp(index[a])  # an unsigned index is not looked at for its sign
        f = q[k] + points.linear[k * stride]
        slope[a] = f
        xf += weight[a] * f
        xqx += weight[a] * q[k]
    return xf, xqx


@vectorized
def extreme(support: Support, g: int, turned: int) -> Any:
    """Return the least gradient of a group on the support, or with `turned` = -1 the greatest.

    Also returns its coordinate.
    """
    n = support.size[0]
    slope, mark = support.slope[:n], support.mark[:n]
    key = extreme_key_of(slope, mark, g, turned)
    at = first_of(slope, key, mark, g, -1)
    if at < 0:
        return np.inf if turned == 0 else -np.inf, -1
    rest = at + 1
    while True:  # of equal ones the one with the least coordinate
        more = first_of(slope[rest:], key, mark[rest:], g, -1)
        if more < 0:
            return slope[at], support.at[at]
        at = rest + more if support.at[rest + more] < support.at[at] else at
        rest += more + 1


@compiled
def weight_of(support: Support, i: int) -> float:
    """Return the weight of a coordinate."""
    return support.weight[support.place[i]] if support.place[i] >= 0 else 0.0


@compiled
def move_weights(points: Points, support: Support, keep: float, made: Move, n: int) -> None:
    """Multiply all weights, and let the first n coordinates of a move gain theirs; they may enter.

    Those whose weight is then no more than its `least` leave.
    """
    at, weight, mark, place = support.at, support.weight, support.mark, support.place
    size = support.size[0]
    if keep != 1.0:
        for a in range(size):
            weight[a] *= keep
    for j in range(n):
        i = made.at[j]
        a = place[i]
        if a < 0:
            a = size
            size += 1
            at[a], weight[a], mark[a], place[i] = i, 0.0, points.group[i], a
        weight[a] += made.gain[j]
        made.rise[j] = made.gain[j]
    for j in range(n):
        i = made.at[j]
        a = place[i]
        if a >= 0 and weight[a] <= made.least[j]:
            made.rise[j] -= weight[a]
            size -= 1
            at[a], weight[a], mark[a] = at[size], weight[size], mark[size]
            place[at[a]] = a
            place[i] = -1
    support.size[0] = size
