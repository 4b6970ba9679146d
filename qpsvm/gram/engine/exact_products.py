"""Sums of Gaussian kernel values in float64: what a certificate and a prediction are made of.

Every entry costs an inner product and an exponential, whatever is done. Beyond that nothing should
be paid for: blocks stay in cache from the product to the sum, their memory is used again, and an
entry between two points of the support is evaluated once and used for both. Inner products of whole
multiples of a unit are exact in float32, where they take half the time, and those of binary points a
tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.gram.engine.sweep import gaussian_sums
from qpsvm.gram.engine.tiles import add_both
from qpsvm.gram.storage.points import DENSIFIED, Points, products, squared_norms
from qpsvm.numerics.parallel import parallel_for, scratch

PART = 512  # support points of a block
FEW = 2048  # support points below which it has half as many, for threads to share out
STRIP = 512  # other points of a block: 2 MB
HELD = 1 << 24  # coordinates of the support that are kept: 128 MB

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Part = tuple[Points, Vector]  # points as they are multiplied, and their squared norms


def gaussian_product(
    points: Callable[[Indices], Points], m: int, gamma: float, x: Vector, rows: Any = None
) -> Vector:
    """Return K x, or its entries `rows`, with k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    points : callable
        ``points(indices)`` returns these points: in float64, or in float32 or packed where all inner
        products are exact there.
    m : int
        Number of points.
    gamma : float
    x : ndarray, shape (m,)
    rows : array_like of int, optional
    """
    support = np.flatnonzero(x != 0)
    size = PART if len(support) >= FEW else PART // 2
    parts = _parts(points, support, size)
    wanted = np.ones(m, bool)
    if rows is not None:
        wanted[:] = False
        wanted[rows] = True
    out = np.zeros(m)
    if wanted[support].all():
        out[support] = _inside(parts, support, x[support], gamma, size)
        wanted[support] = False
    others = np.flatnonzero(wanted)

    def strip(first: int) -> None:
        chosen = others[first : first + STRIP]
        out[chosen] = gaussian_expansion(parts, x[support], gamma, points(chosen), size)

    parallel_for(strip, list(range(0, len(others), STRIP)))
    return out if rows is None else out[rows]


def gaussian_expansion(
    parts: Callable[[int], Part], coef: Vector, gamma: float, some: Points, size: int
) -> Vector:
    """Return sum_j coef_j k(x_j, z) for the points z of `some`, in this thread.

    Parameters
    ----------
    parts : callable
        ``parts(k)`` returns the k-th `size` points x_j, and their squared norms.
    coef : ndarray
    gamma : float
    some : ndarray, csr_matrix or Bits
    size : int
    """
    some, b = prepared(some)
    total = np.zeros(len(b))
    for k, at in enumerate(range(0, len(coef), size)):
        few, a = parts(k)
        _add(few, a, some, b, gamma, coef[at : at + size], total)
    return total


def _add(few: Points, a: Vector, some: Points, b: Vector, gamma: float, *sums: Vector) -> None:
    """Sum up the kernel values of a block, as `gaussian_sums` does."""
    if not (sp.issparse(few) or sp.issparse(some)):
        return add_both(few, a, some, b, gamma, *sums)
    with scratch(len(a) * len(b), some.dtype) as room:
        K = products(few, some, room.reshape(len(a), len(b)))
        gaussian_sums(K, gamma, a, b, *sums)


def prepared(some: Points) -> Part:
    """Return points as they are multiplied, dense ones if their features are few, and norms."""
    if sp.issparse(some) and some.shape[1] <= DENSIFIED:
        some = some.toarray()
    return some, squared_norms(some).astype(np.float64)


def _parts(
    points: Callable[[Indices], Points], support: Indices, size: int
) -> Callable[[int], Part]:
    """Return what gives the k-th part of the support, dense or packed, and its squared norms."""

    def part(k: int) -> Part:
        few = points(support[k * size : (k + 1) * size])
        return prepared(few.toarray() if sp.issparse(few) else few)

    if not len(support) or len(support) * points(support[:1]).shape[1] > HELD:
        return part
    held = [part(k) for k in range(-(-len(support) // size))]
    return held.__getitem__


def _inside(
    parts: Callable[[int], Part], support: Indices, x: Vector, gamma: float, size: int
) -> Vector:
    """Return the entries of K x on the support, by the blocks on and above the diagonal."""
    out = np.zeros(len(support))
    columns = range(-(-len(support) // size))
    backward = [np.empty(0)] * len(columns)  # what a column of blocks adds to the rows above it

    def column(j: int) -> None:
        some, b = parts(j)
        here = slice(j * size, j * size + len(b))
        total, above = np.zeros(len(b)), np.zeros(j * size)
        for k in range(j + 1):
            few, a = parts(k)
            there = slice(k * size, k * size + len(a))
            both = () if k == j else (x[here], above[there])
            _add(few, a, some, b, gamma, x[there], total, *both)
        out[here], backward[j] = total, above

    parallel_for(column, list(columns)[::-1])  # the longest first
    for above in backward:
        out[: len(above)] += above
    return out
