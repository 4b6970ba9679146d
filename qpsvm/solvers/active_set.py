"""Wolfe's active-set method on one dense block: the exact inner problem of `mnp`.

Problem: minimize h(x) = 1/2 x'Qx + c'x over n members, x >= 0, the weights of each group summing
to 1. Q is dense and symmetric, its ridge included.

The face is the set S of members with a positive weight. With A the 0/1 matrix of the groups on S,

    H = Q_SS + sigma A'A = R'R,    sigma > 0,

is regular exactly where the members of S are affinely independent, whatever the rank of Q. The
minimizer on the affine hull of the face is

    z = R^-1 (U mu - w),    U = R^-T A',  w = R^-T c_S,    (U'U) mu = 1 + U'w.

U and w are held with R as if they were further columns of it, so an entering member costs one
forward solve, a leaving one a sweep of rotations, and each z one backward solve.

Source: Wolfe, "Finding the nearest point in a polytope" (1976); the sum constraint and the linear
term as in the text above.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from qpsvm.solvers.steps import compiled

MEMBERS, FACE = 0, 1  # entries of Block.count
MAJOR, MINOR = 0, 1  # entries of the step counts
OPTIMAL, UNFINISHED, STUCK = 0, 1, 2  # why `descend` came back
IDLE_MAJORS = 12  # majors without progress after which roundoff is what is left
EPS = 2.220446049250313e-16

# Sums may be reordered: the same machine code still gives the same bits.
summing = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
)


class Block(NamedTuple):
    """The inner problem and the factor of its face, in arrays that may be larger than needed."""

    Q: NDArray[np.float64]  # (cap, cap)
    c: NDArray[np.float64]  # (cap,)
    group: NDArray[np.int64]  # (cap,)
    x: NDArray[np.float64]  # (cap,) weights
    f: NDArray[np.float64]  # (cap,) gradient Qx + c
    face: NDArray[np.int64]  # (cap,) members of S in the order of the factor
    R: NDArray[np.float64]  # (cap, cap) upper triangular
    E: NDArray[np.float64]  # (cap, n_groups + 1): U and w
    level: NDArray[np.float64]  # (n_groups,) mean of f over the face, weighted by x
    sigma: NDArray[np.float64]  # (1,)
    count: NDArray[np.int64]  # (2,): n members, members of the face


def empty_block(capacity: int, n_groups: int) -> Block:
    """Return a block without members."""
    return Block(
        Q=np.empty((capacity, capacity)),
        c=np.empty(capacity),
        group=np.empty(capacity, np.int64),
        x=np.zeros(capacity),
        f=np.empty(capacity),
        face=np.empty(capacity, np.int64),
        R=np.empty((capacity, capacity)),
        E=np.empty((capacity, n_groups + 1)),
        level=np.empty(n_groups),
        sigma=np.empty(1),
        count=np.zeros(2, np.int64),
    )


def enlarged(block: Block, capacity: int) -> Block:
    """Return the block in larger arrays."""
    n = int(block.count[MEMBERS])
    new = empty_block(capacity, len(block.level))
    for old, into in zip(block, new, strict=True):
        part = tuple(slice(min(n, size)) for size in old.shape[: 2 if old.ndim == 2 else 1])
        into[part] = old[part]
    new.count[:] = block.count
    return new


def keep_face(block: Block) -> NDArray[np.int64]:
    """Drop the members outside the face, put the face first; return the old places of the rest."""
    s = int(block.count[FACE])
    kept = block.face[:s].copy()
    block.Q[:s, :s] = block.Q[np.ix_(kept, kept)]
    for part in (block.c, block.group, block.x):
        part[:s] = part[kept]
    block.face[:s] = np.arange(s)
    block.count[MEMBERS] = s
    return kept


@compiled
def descend(b: Block, budget: int, counts: Any) -> int:
    """Enter the most violating member, go to the optimum of the face, repeat; say why it ended.

    A major strictly decreases h in exact arithmetic, so no face occurs twice. In floating point
    the decrease, of second order in the violation, is lost before the violation is: majors
    without a visible decrease go on while the largest violation shrinks, and for a dozen more.
    """
    n = b.count[MEMBERS]
    n_groups = b.level.shape[0]
    size = 0.0
    for k in range(n):
        size = max(size, abs(b.Q[k, k]))
    r = np.empty(b.x.shape[0])
    z = np.empty(b.x.shape[0])
    futile = np.zeros(n, np.bool_)  # members that left at once since the last progress
    mu = np.empty(n_groups)
    M = np.empty((n_groups, n_groups))
    least_value = np.inf
    least_violation = np.inf
    idle = 0
    for major in range(budget + 1):
        value = gradient(b)
        i = -1
        violation = 4.0 * EPS * size
        for k in range(n):
            v = b.level[b.group[k]] - b.f[k]
            if v > violation and b.x[k] == 0.0 and not futile[k]:
                violation = v
                i = k
        if i < 0:
            refine(b, r, z, mu, M)
            return OPTIMAL
        if value < least_value - 4.0 * EPS * abs(least_value) or violation < 0.5 * least_violation:
            idle = 0
            futile[:] = False
        else:
            idle += 1
        least_value = min(value, least_value)
        least_violation = min(violation, least_violation)
        if idle > IDLE_MAJORS:
            refine(b, r, z, mu, M)
            return STUCK
        if major == budget:
            return UNFINISHED
        counts[MAJOR] += 1
        enter(b, i, r, z, counts)
        to_optimum(b, z, mu, M, counts)
        futile[i] = b.x[i] == 0.0
    return UNFINISHED


@compiled
def gradient(b: Block) -> float:
    """Set f = Qx + c over all members and the level of each group; return h(x)."""
    n, s = b.count
    f = b.f
    f[:n] = b.c[:n]
    for first in range(0, s - 3, 4):
        i, j, k, l = b.face[first], b.face[first + 1], b.face[first + 2], b.face[first + 3]
        add_rows(f, b.Q[i], b.Q[j], b.Q[k], b.Q[l], b.x[i], b.x[j], b.x[k], b.x[l], n)
    for last in range(s - s % 4, s):
        i = b.face[last]
        t = b.x[i]
        row = b.Q[i]
        for k in range(n):
            f[k] += t * row[k]
    b.level[:] = 0.0
    value = 0.0
    for k in range(s):
        i = b.face[k]
        b.level[b.group[i]] += b.x[i] * f[i]
        value += 0.5 * b.x[i] * (f[i] + b.c[i])
    return value


@compiled
def add_rows(
    f: Any, p: Any, q: Any, u: Any, v: Any, tp: float, tq: float, tu: float, tv: float, n: int
) -> None:
    """Add four multiples of rows to f in one sweep."""
    for k in range(n):
        f[k] += (tp * p[k] + tq * q[k]) + (tu * u[k] + tv * v[k])


@compiled
def enter(b: Block, i: int, r: Any, z: Any, counts: Any) -> None:
    """Append member i to the face; where it depends affinely on S, first move until one leaves.

    A dependent member lies in the affine hull of S: d = (-R^-1 r, 1) has Qd = 0, and h is linear
    along it. The move goes downhill and ends where the first weight becomes zero.
    """
    while True:
        s = b.count[FACE]
        own = b.Q[i, i] + b.sigma[0]
        rho = lift(b, i, r)
        if rho > 4.0 * EPS * (s + 4.0) * own:
            append(b, i, r, np.sqrt(rho))
            return
        z[:s] = r[:s]
        backward(b.R, s, z)  # d = -z on the face, 1 at i
        slope = b.c[i]
        for k in range(s):
            slope -= b.c[b.face[k]] * z[k]
        sign = 1.0 if b.x[i] == 0.0 or slope <= 0.0 else -1.0
        theta = np.inf if sign > 0.0 else b.x[i]
        out = -1
        for k in range(s):
            down = sign * z[k]
            if down > 0.0 and b.x[b.face[k]] < theta * down:
                theta = b.x[b.face[k]] / down
                out = k
        if theta == np.inf:
            return
        for k in range(s):
            j = b.face[k]
            b.x[j] = max(b.x[j] - sign * theta * z[k], 0.0)
        b.x[i] = max(b.x[i] + sign * theta, 0.0)
        counts[MINOR] += 1
        if out < 0:
            b.x[i] = 0.0
            return
        b.x[b.face[out]] = 0.0
        remove(b, out)


@compiled
def to_optimum(b: Block, z: Any, mu: Any, M: Any, counts: Any) -> None:
    """Move to the minimizer on the affine hull of the face; where a weight ends, shrink the face."""
    while True:
        affine_optimum(b, z, mu, M)
        s = b.count[FACE]
        theta = 1.0
        out = -1
        for k in range(s):
            if z[k] <= 0.0:
                x = b.x[b.face[k]]
                t = x / (x - z[k]) if x > 0.0 else 0.0
                if out < 0 or t < theta:
                    theta = t
                    out = k
        for k in range(s):
            j = b.face[k]
            b.x[j] = max(b.x[j] + theta * (z[k] - b.x[j]), 0.0) if out >= 0 else z[k]
        if out < 0:
            return
        counts[MINOR] += 1
        b.x[b.face[out]] = 0.0
        remove(b, out)


@compiled
def affine_optimum(b: Block, z: Any, mu: Any, M: Any) -> None:
    """Set z = R^-1 (U mu - w), (U'U) mu = 1 + U'w, its groups rescaled to sum 1 exactly."""
    s = b.count[FACE]
    n_groups = mu.shape[0]
    mu[:] = 1.0
    for k in range(s):
        for g in range(n_groups):
            mu[g] += b.E[k, g] * b.E[k, n_groups]
    multipliers(b, mu, M)
    for k in range(s):
        total = -b.E[k, n_groups]
        for g in range(n_groups):
            total += b.E[k, g] * mu[g]
        z[k] = total
    backward(b.R, s, z)
    mu[:] = 0.0
    for k in range(s):
        mu[b.group[b.face[k]]] += z[k]
    for k in range(s):
        z[k] /= mu[b.group[b.face[k]]]


@compiled
def refine(b: Block, r: Any, z: Any, mu: Any, M: Any) -> None:
    """Correct x on its face from its own gradient, while that makes the gradient flatter.

    The correction d = R^-1 (U mu - R^-T f_S), (U'U) mu = U'R^-T f_S, keeps the groups' sums.
    """
    n_groups = mu.shape[0]
    worst = unevenness(b)
    for _ in range(2):
        s = b.count[FACE]
        for k in range(s):
            r[k] = b.f[b.face[k]]
        forward(b.R, s, r)
        mu[:] = 0.0
        for k in range(s):
            for g in range(n_groups):
                mu[g] += b.E[k, g] * r[k]
        multipliers(b, mu, M)
        for k in range(s):
            total = -r[k]
            for g in range(n_groups):
                total += b.E[k, g] * mu[g]
            r[k] = total
        backward(b.R, s, r)
        inside = True
        for k in range(s):
            z[k] = b.x[b.face[k]]
            inside = inside and z[k] + r[k] > 0.0
        if not inside:
            return
        for k in range(s):
            b.x[b.face[k]] = z[k] + r[k]
        gradient(b)
        now = unevenness(b)
        if now < worst:
            worst = now
        else:
            for k in range(s):
                b.x[b.face[k]] = z[k]
            gradient(b)
            return


@compiled
def unevenness(b: Block) -> float:
    """Return the largest deviation of the gradient from its level on the face."""
    worst = 0.0
    for k in range(b.count[FACE]):
        i = b.face[k]
        worst = max(worst, abs(b.f[i] - b.level[b.group[i]]))
    return worst


@compiled
def multipliers(b: Block, mu: Any, M: Any) -> None:
    """Solve (U'U) mu = mu in place by elimination; the matrix is small and positive definite."""
    n_groups = mu.shape[0]
    M[:] = 0.0
    for k in range(b.count[FACE]):
        for g in range(n_groups):
            for h in range(n_groups):
                M[g, h] += b.E[k, g] * b.E[k, h]
    for g in range(n_groups):
        for h in range(g + 1, n_groups):
            t = M[h, g] / M[g, g]
            M[h] -= t * M[g]
            mu[h] -= t * mu[g]
    for g in range(n_groups - 1, -1, -1):
        for h in range(g + 1, n_groups):
            mu[g] -= M[g, h] * mu[h]
        mu[g] /= M[g, g]


@compiled
def lift(b: Block, i: int, r: Any) -> float:
    """Set r = R^-T h_i with h_i the column of H for member i; return h_ii - r'r."""
    s = b.count[FACE]
    row = b.Q[i]
    for k in range(s):
        j = b.face[k]
        r[k] = row[j] + (b.sigma[0] if b.group[i] == b.group[j] else 0.0)
    forward(b.R, s, r)
    return row[i] + b.sigma[0] - dot(r, r, s)


@compiled
def append(b: Block, i: int, r: Any, pivot: float) -> None:
    """Make member i the last of the face: r and the pivot are the new column of R."""
    s = b.count[FACE]
    n_groups = b.level.shape[0]
    for g in range(n_groups):
        b.E[s, g] = 1.0 if b.group[i] == g else 0.0
    b.E[s, n_groups] = b.c[i]
    for k in range(s):
        b.R[k, s] = r[k]
        for g in range(n_groups + 1):
            b.E[s, g] -= r[k] * b.E[k, g]
    for g in range(n_groups + 1):
        b.E[s, g] /= pivot
    b.R[s, s] = pivot
    b.face[s] = i
    b.count[FACE] = s + 1


@compiled
def remove(b: Block, out: int) -> None:
    """Take the member at place `out` off the face; rotations make R triangular again."""
    s = b.count[FACE]
    R = b.R
    for k in range(out):
        for l in range(out + 1, s):
            R[k, l - 1] = R[k, l]
    for k in range(out, s - 1):
        upper, lower = R[k], R[k + 1]
        a, c = upper[k + 1], lower[k + 1]
        length = np.hypot(a, c)
        a /= length
        c /= length
        for l in range(k + 1, s):
            u = upper[l]
            v = lower[l]
            upper[l - 1] = a * u + c * v
            lower[l] = a * v - c * u
        for g in range(b.E.shape[1]):
            u = b.E[k, g]
            v = b.E[k + 1, g]
            b.E[k, g] = a * u + c * v
            b.E[k + 1, g] = a * v - c * u
        b.face[k] = b.face[k + 1]
    b.count[FACE] = s - 1


@compiled
def forward(R: Any, s: int, v: Any) -> None:
    """Solve R'v = v in place, by rows of R."""
    for k in range(s):
        row = R[k]
        t = v[k] / row[k]
        v[k] = t
        for l in range(k + 1, s):
            v[l] -= t * row[l]


@compiled
def backward(R: Any, s: int, v: Any) -> None:
    """Solve Rv = v in place, by rows of R."""
    for k in range(s - 1, -1, -1):
        row = R[k]
        v[k] = (v[k] - dot(row[k + 1 :], v[k + 1 :], s - k - 1)) / row[k]


@summing
def dot(a: Any, b: Any, n: int) -> float:
    """Return the inner product of the first n entries."""
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total
