"""The dense block of `mnp`: a small problem with the Cholesky factor of its face.

Problem: minimize h(x) = 1/2 x'Qx + c'x over n members, x >= 0, the weights of each group summing
to 1. `active_set` solves it; here it is made, enlarged, compacted, factored, and approached by SMO.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from qpsvm.clock import poll
from qpsvm.gram.column_store import Columns
from qpsvm.solvers.smo.pair_steps import pairs

MEMBERS, FACE = 0, 1  # entries of Block.sizes
EPS = 2.220446049250313e-16
WORK_BETWEEN_LOOKS = 20_000_000  # entries touched by pairs between two looks at the clock
DEPENDENT = 4.0 * EPS  # a pivot below this, times the size of the face, is roundoff of zero


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
    level: NDArray[np.float64]  # (n_groups,) mean of f over each group, weighted by x
    sigma: NDArray[np.float64]  # (1,)
    sizes: NDArray[np.int64]  # (2,): n members, members of the face


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
        level=np.empty(n_groups),
        sigma=np.array([sigma]),
        sizes=np.zeros(2, np.int64),
    )


def enlarged(block: Block, capacity: int) -> Block:
    """Return the block in larger arrays."""
    n, s = map(int, block.sizes)
    new = empty_block(capacity, len(block.level), float(block.sigma[0]))
    new.Q[:n, :n], new.R[:s, :s], new.U[:s] = block.Q[:n, :n], block.R[:s, :s], block.U[:s]
    for name in ("c", "group", "x", "face"):
        getattr(new, name)[:n] = getattr(block, name)[:n]
    new.sizes[:] = block.sizes
    return new


def keep_face(block: Block) -> NDArray[np.int64]:
    """Drop the members outside the face and put the face first; return its old places."""
    s = int(block.sizes[FACE])
    kept = block.face[:s].copy()
    block.Q[:s, :s] = block.Q[np.ix_(kept, kept)]
    for part in (block.c, block.group, block.x):
        part[:s] = part[kept]
    block.face[:s] = np.arange(s)
    block.sizes[MEMBERS] = s
    return kept


def factor_face(block: Block, support: NDArray[np.int64]) -> None:
    """Put the support on the face by one factorization, or nothing where it is dependent."""
    s, group = len(support), block.group[support]
    H = block.Q[np.ix_(support, support)]
    np.add(H, block.sigma[0], out=H, where=group[:, None] == group)
    own = np.diagonal(H).copy()
    # LAPACK reads H by columns: its lower factor is R by rows, in place
    lower, failed = scipy.linalg.lapack.dpotrf(H.T, lower=1, clean=0, overwrite_a=1)
    block.sizes[FACE] = 0
    if not failed and np.all(np.diagonal(lower) ** 2 > DEPENDENT * (s + 4) * own):
        A = (group[:, None] == np.arange(block.U.shape[1])).astype(np.float64)
        block.R[:s, :s] = lower.T
        block.U[:s] = scipy.linalg.solve_triangular(lower, A, lower=True, check_finite=False)
        block.face[:s] = support
        block.sizes[FACE] = s


def approach(block: Block, share: float, n_steps: int) -> int:
    """Solve the block roughly by SMO, until the gradient's spread is a share of what it was.

    Then factor the new support. Thousands of cheap pairs stand for hundreds of majors; return the
    number of pairs.
    """
    n, n_groups = int(block.sizes[MEMBERS]), block.U.shape[1]
    Q, x, group = block.Q[:n], block.x[:n], block.group[:n]
    Q.flags.writeable = False
    ones, zeros = np.ones(n), np.zeros(n)
    slots = np.arange(n), np.zeros(n, np.int64), np.zeros(1, np.int64)
    columns = Columns(Q, *slots, np.diagonal(Q).copy(), ones, zeros, 0.0, 1.0)
    support = np.flatnonzero(x)
    f = block.c[:n] + x[support] @ Q[support, :n]
    grow = np.where(group == np.arange(n_groups)[:, None], 0.0, np.inf)
    shrink = np.where(x > 0, grow, np.inf)
    spread = share * float(np.max((f - shrink).max(axis=1) - (f + grow).min(axis=1)))
    missing = np.empty(2, np.int64)
    sides, limits = (ones, np.full(n, np.inf), x, f, grow, shrink), (spread, missing)
    done, size = 0, max(1, WORK_BETWEEN_LOOKS // n)
    while done < n_steps:
        asked = min(size, n_steps - done)
        more, _ = pairs(columns, *sides, asked, *limits)
        done += int(more)
        if more < asked:
            break
        poll()
    x /= np.bincount(group, weights=x)[group]
    factor_face(block, np.flatnonzero(x))
    return done
