"""The fresh product K x of a Gaussian kernel in float64: what a certificate is made of.

Every entry costs an inner product and an exponential, whatever is done. Beyond that nothing should
be paid for: blocks stay in cache from the product to the sum, their memory is used again, and an
entry between two points of the support is evaluated once and used for both. Inner products of small
integers are exact in float32, where they take half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.points import DENSIFIED, Points, products, squared_norms
from qpsvm.gram.sweep import gaussian_sums
from qpsvm.threads import scratch, spread

PART = 512  # support points of a block
STRIP = 512  # other points of a block: 2 MB
HELD = 1 << 24  # coordinates of the support that are kept in float64: 128 MB

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


def gaussian_product(
    points: Callable[[Indices], Points], m: int, gamma: float, x: Vector, rows: Any = None
) -> Vector:
    """Return K x, or its entries `rows`, with k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    points : callable
        ``points(indices)`` returns these points, dense or CSR: in float64, or in float32 where all
        inner products are exact there.
    m : int
        Number of points.
    gamma : float
    x : ndarray, shape (m,)
    rows : array_like of int, optional
    """
    support = np.flatnonzero(x)
    parts = _parts(points, support)
    nothing = np.empty(0)
    if rows is None:
        out = np.zeros(m)
        out[support] = _inside(parts, support, x[support], gamma)
        wanted = np.flatnonzero(x == 0)
    else:
        wanted = np.asarray(rows)
        out = np.zeros(len(wanted))

    def strip(first: int) -> None:
        chosen = wanted[first : first + STRIP]
        some = points(chosen)
        if sp.issparse(some) and some.shape[1] <= DENSIFIED:
            some = some.toarray()
        b, total = squared_norms(some).astype(np.float64), np.zeros(len(chosen))
        with _room(some, len(b)) as room:
            for k, at in enumerate(range(0, len(support), PART)):
                few, a = parts(k)
                K, values = room(len(a))
                products(few, some, K)
                weights = x[support[at : at + PART]]
                gaussian_sums(K, values, gamma, a, b, weights, total, nothing, nothing)
        out[chosen if rows is None else slice(first, first + STRIP)] = total

    spread(strip, list(range(0, len(wanted), STRIP)))
    return out


def _parts(points: Callable[[Indices], Points], support: Indices) -> Callable[[int], Any]:
    """Return what gives the k-th part of the support, dense, and its squared norms."""

    def part(k: int) -> tuple[NDArray[np.floating], Vector]:
        few = points(support[k * PART : (k + 1) * PART])
        few = few.toarray() if sp.issparse(few) else few
        return few, squared_norms(few).astype(np.float64)

    if not len(support) or len(support) * points(support[:1]).shape[1] > HELD:
        return part
    held = [part(k) for k in range(-(-len(support) // PART))]
    return held.__getitem__


@contextmanager
def _room(points: Points, width: int) -> Iterator[Callable[[int], Any]]:
    """Lend what gives room for the products of n points with `points`, and for kernel values."""
    with scratch(PART * width, np.float64) as values, scratch(PART * width, points.dtype) as first:
        second = values if points.dtype == np.float64 else first
        yield lambda n: [part[: n * width].reshape(n, width) for part in (second, values)]


def _inside(parts: Callable[[int], Any], support: Indices, x: Vector, gamma: float) -> Vector:
    """Return the entries of K x on the support, by the blocks on and above the diagonal."""
    out, nothing = np.zeros(len(support)), np.empty(0)
    columns = range(-(-len(support) // PART))
    backward = [np.empty(0)] * len(columns)  # what a column of blocks adds to the rows above it

    def column(j: int) -> None:
        some, b = parts(j)
        here = slice(j * PART, j * PART + len(b))
        total, above = np.zeros(len(b)), np.zeros(j * PART)
        with _room(some, len(b)) as room:
            for k in range(j + 1):
                few, a = parts(k)
                there = slice(k * PART, k * PART + len(a))
                K, values = room(len(a))
                products(few, some, K)
                z, back = (nothing, nothing) if k == j else (x[here], above[there])
                gaussian_sums(K, values, gamma, a, b, x[there], total, z, back)
        out[here], backward[j] = total, above

    spread(column, list(columns)[::-1])  # the longest first
    for above in backward:
        out[: len(above)] += above
    return out
