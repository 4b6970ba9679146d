"""The dense block of `mnp`: a small problem with the Cholesky factor of its face.

Problem: minimize h(x) = 1/2 x'Qx + c'x over n members, x >= 0, the weights of each group summing
to 1. `wolfe` solves it. This module makes, enlarges, compacts and factors it, and approaches its
solution by SMO.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.clock import poll
from qpsvm.gram.column_store import Columns
from qpsvm.numerics.row_products import all_read_only
from qpsvm.solvers.smo.pair_steps import pairs

MEMBER_COUNT, FACE_SIZE = 0, 1
"""Entries of `Block.sizes`."""

PAIR_WORK_BETWEEN_POLLS = 20_000_000
"""Number of entries that SMO steps touch between two readings of the clock."""

DEPENDENCE_TOLERANCE = 4.0 * FLOAT64_EPS
"""Relative pivot, per member of the face, below which it is the roundoff of zero."""


class Block(NamedTuple):
    """The problem and the factor of its face, in arrays that may be larger than needed."""

    Q: NDArray[np.float64]  # (cap, cap), the ridge included
    c: NDArray[np.float64]  # (cap,)
    group: NDArray[np.int64]  # (cap,)
    x: NDArray[np.float64]  # (cap,) weights
    f: NDArray[np.float64]  # (cap,) gradient Qx + c
    face: NDArray[np.int64]  # (cap,) members of the face in the order of the factor
    R: NDArray[np.float64]  # (cap, cap) upper triangular: R'R = Q_SS + sigma A'A
    U: NDArray[np.float64]  # (cap, n_groups): R^-T A'
    threshold: NDArray[np.float64]  # (n_groups,) mean of f over each group, weighted by x
    sigma: NDArray[np.float64]  # (1,)
    sizes: NDArray[np.int64]  # (2,): number of members, and of members of the face


def empty_block(capacity: int, n_groups: int, sigma: float) -> Block:
    """Return a block without members."""
    return Block(
        Q=np.empty((capacity, capacity)),
        c=np.empty(capacity),
        group=np.empty(capacity, np.int64),
        x=np.zeros(capacity),
        f=np.empty(capacity),
        face=np.empty(capacity, np.int64),
        R=np.empty((capacity, capacity)),
        U=np.empty((capacity, n_groups)),
        threshold=np.empty(n_groups),
        sigma=np.array([sigma]),
        sizes=np.zeros(2, np.int64),
    )


def enlarged(block: Block, capacity: int) -> Block:
    """Return the block in larger arrays."""
    n, s = map(int, block.sizes)
    new = empty_block(capacity, len(block.threshold), float(block.sigma[0]))
    new.Q[:n, :n], new.R[:s, :s], new.U[:s] = block.Q[:n, :n], block.R[:s, :s], block.U[:s]
    for name in ("c", "group", "x", "face"):
        getattr(new, name)[:n] = getattr(block, name)[:n]
    new.sizes[:] = block.sizes
    return new


def keep_face(block: Block) -> NDArray[np.int64]:
    """Drop the members outside the face and put the face first; return its old positions."""
    s = int(block.sizes[FACE_SIZE])
    kept = block.face[:s].copy()
    block.Q[:s, :s] = block.Q[np.ix_(kept, kept)]
    for array in (block.c, block.group, block.x):
        array[:s] = array[kept]
    block.face[:s] = np.arange(s)
    block.sizes[MEMBER_COUNT] = s
    return kept


def factor_face(block: Block, support: NDArray[np.int64]) -> None:
    """Make the support the face by one factorization; the face is empty where it is dependent."""
    s, group = len(support), block.group[support]
    H = block.Q[np.ix_(support, support)]
    np.add(H, block.sigma[0], out=H, where=group[:, None] == group)
    diagonal = np.diagonal(H).copy()
    # LAPACK reads H by columns: its lower factor is R by rows, in place
    lower, failed = scipy.linalg.lapack.dpotrf(H.T, lower=1, clean=0, overwrite_a=1)
    block.sizes[FACE_SIZE] = 0
    if not failed and np.all(np.diagonal(lower) ** 2 > DEPENDENCE_TOLERANCE * (s + 4) * diagonal):
        A = (group[:, None] == np.arange(block.U.shape[1])).astype(np.float64)
        block.R[:s, :s] = lower.T
        block.U[:s] = scipy.linalg.solve_triangular(lower, A, lower=True, check_finite=False)
        block.face[:s] = support
        block.sizes[FACE_SIZE] = s


def approach(block: Block, share: float, n_steps: int) -> int:
    """Solve the block by SMO until the KKT violation is `share` of its first value; factor the face.

    Return the number of SMO steps: thousands of these cheap steps replace hundreds of majors.
    """
    n, n_groups = int(block.sizes[MEMBER_COUNT]), block.U.shape[1]
    Q, x, group = block.Q[:n], block.x[:n], block.group[:n]
    Q, diagonal = all_read_only(Q, np.diagonal(Q).copy())
    ones, zeros = np.ones(n), np.zeros(n)
    slots = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)
    columns = Columns(Q, *slots, diagonal, ones, zeros, 0.0, 1.0)
    support = np.flatnonzero(x)
    f = block.c[:n] + x[support] @ Q[support, :n]
    up = np.where(group == np.arange(n_groups)[:, None], 0.0, np.inf)  # 0 where x may increase
    low = np.where(x > 0, up, np.inf)  # 0 where x may decrease
    tolerance = share * float(np.max((f - low).max(axis=1) - (f + up).min(axis=1)))
    missing = np.empty(2, np.int64)
    sides, limits = (ones, np.full(n, np.inf), x, f, up, low), (tolerance, missing)
    done, chunk = 0, max(1, PAIR_WORK_BETWEEN_POLLS // n)
    while done < n_steps:
        requested = min(chunk, n_steps - done)
        made, _ = pairs(columns, *sides, requested, *limits)
        done += int(made)
        if made < requested:
            break
        poll()
    x /= np.bincount(group, weights=x)[group]
    factor_face(block, np.flatnonzero(x))
    return done
