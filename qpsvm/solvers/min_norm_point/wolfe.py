"""Wolfe's active-set method on one dense block: the inner problem of `mnp`.

Problem: minimize h(x) = 1/2 x'Qx + c'x over n members, x >= 0, the weights of each group summing
to 1. Q is dense and symmetric, its ridge included.

The face is the set S of members with a positive weight, A the 0/1 matrix of the groups on it, and

    H = Q_SS + sigma A'A = R'R,    sigma > 0,    U = R^-T A',

is regular exactly where the members of S are affinely independent, for any rank of Q. From a
point x of the face with gradient f, the minimizer on its affine hull is x + d with

    d = R^-1 (U nu - R^-T f_S),    (U'U) nu = U'R^-T f_S,

so each step starts from the true gradient and corrects the rounding of the last one. U is updated
with R as if its columns were columns of R: to add a member costs a forward solve, to drop one a sweep
of rotations, a direction a forward and a backward solve.

Source: Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.numerics.jit import compiled, njit
from qpsvm.solvers.min_norm_point.face import (
    DEPENDENCE_TOLERANCE,
    FACE_SIZE,
    MEMBER_COUNT,
    Block,
)

MAJOR_STEPS, MINOR_STEPS = 0, 1
"""Entries of the step counts: members added to the face, and dropped from it."""

BLOCK_OPTIMAL, BLOCK_UNFINISHED, BLOCK_NONCONVEX, WORK_EXHAUSTED = 0, 1, 2, 3
"""Stop codes of `descend`."""

MAX_STALLED_MAJORS = 12
"""Majors without progress after which only roundoff is left."""


@compiled
def descend(b: Block, budget: int, work: float, counts: Any) -> int:
    """Minimize on the face, add the most violating member, repeat; return the code of the stop.

    Members with a weight are put on the face first; with a budget of 0 majors nothing else is done.
    After `work` entries the code is WORK_EXHAUSTED, and the same call continues from there.
    A major strictly decreases h in exact arithmetic, so no face occurs twice.
    In floating point the decrease, of second order in the violation, vanishes before the violation
    does: majors without a visible decrease continue while the largest violation shrinks, and for
    twelve more.
    """
    n = b.sizes[MEMBER_COUNT]
    z = np.empty(n)
    nu = np.empty(b.threshold.shape[0])
    M = np.empty((nu.shape[0], nu.shape[0]))
    futile = np.zeros(n, np.bool_)  # members dropped at once since the last progress
    left = np.full(1, work)

    # 1. The members with a weight are put on the face, and h is minimized there.
    size = largest_diagonal(b)
    code = add_support(b, z, left, counts)
    if code != BLOCK_UNFINISHED or budget == 0:
        return code
    least_value = np.inf
    least_violation = np.inf
    stalled_majors = 0
    majors = 0
    polished = False
    gradient(b)
    if not minimize_on_face(b, z, nu, M, left, counts):
        return WORK_EXHAUSTED
    while True:
        # 2. The most violating member, and whether the last major made progress.
        value = gradient(b)
        i = most_violating(b, 4.0 * FLOAT64_EPS * size, futile)
        violation = b.threshold[b.group[i]] - b.f[i] if i >= 0 else 0.0
        if (
            value < least_value - 4.0 * FLOAT64_EPS * abs(least_value)
            or violation < 0.5 * least_violation
        ):
            stalled_majors = 0
            for k in range(n):
                futile[k] = False
        else:
            stalled_majors += 1
        least_value = min(value, least_value)
        least_violation = min(violation, least_violation)

        # 3. It joins the face; without one a last correction of the rounding ends the method.
        if i >= 0 and stalled_majors <= MAX_STALLED_MAJORS:
            if majors == budget or left[0] <= 0.0:
                return BLOCK_UNFINISHED
            majors += 1
            counts[MAJOR_STEPS] += 1
            if not add_to_face(b, i, z, left, counts):
                return BLOCK_NONCONVEX
        elif polished:
            return BLOCK_OPTIMAL
        polished = i < 0 or stalled_majors > MAX_STALLED_MAJORS

        # 4. h is minimized on the new face.
        if not minimize_on_face(b, z, nu, M, left, counts):
            return WORK_EXHAUSTED
        if i >= 0:
            futile[i] = b.x[i] == 0.0


@compiled
def largest_diagonal(b: Block) -> float:
    """Return the largest absolute diagonal entry of Q."""
    size = 0.0
    for k in range(b.sizes[MEMBER_COUNT]):
        size = max(size, abs(b.Q[k, k]))
    return size


@compiled
def add_support(b: Block, z: Any, left: Any, counts: Any) -> int:
    """Put the members with a weight on the face; return BLOCK_UNFINISHED once all of them are."""
    n = b.sizes[MEMBER_COUNT]
    on_face = np.zeros(n, np.bool_)
    for k in range(b.sizes[FACE_SIZE]):
        on_face[b.face[k]] = True
    for k in range(n):
        if b.x[k] > 0.0 and not on_face[k]:
            if left[0] <= 0.0:
                return WORK_EXHAUSTED
            if not add_to_face(b, k, z, left, counts):
                return BLOCK_NONCONVEX
    return BLOCK_UNFINISHED


@compiled
def gradient(b: Block) -> float:
    """Set f = Qx + c over all members, and the thresholds; return h(x)."""
    n, s = b.sizes
    f = b.f
    for k in range(n):
        f[k] = b.c[k]
    for first in range(0, s - 3, 4):  # four rows in a sweep
        i, j, k, l = b.face[first], b.face[first + 1], b.face[first + 2], b.face[first + 3]
        xi, xj, xk, xl = b.x[i], b.x[j], b.x[k], b.x[l]
        qi, qj, qk, ql = b.Q[i], b.Q[j], b.Q[k], b.Q[l]
        for o in range(n):
            f[o] += (xi * qi[o] + xj * qj[o]) + (xk * qk[o] + xl * ql[o])
    for last in range(s - s % 4, s):
        xi = b.x[b.face[last]]
        qi = b.Q[b.face[last]]
        for o in range(n):
            f[o] += xi * qi[o]
    for g in range(b.threshold.shape[0]):
        b.threshold[g] = 0.0
    value = 0.0
    for k in range(s):
        i = b.face[k]
        b.threshold[b.group[i]] += b.x[i] * f[i]
        value += 0.5 * b.x[i] * (f[i] + b.c[i])
    return value


@compiled
def most_violating(b: Block, least: float, futile: Any) -> int:
    """Return the member off the face with the largest KKT violation above `least`, or -1."""
    best = -1
    for k in range(b.sizes[MEMBER_COUNT]):
        v = b.threshold[b.group[k]] - b.f[k]
        if v > least and b.x[k] == 0.0 and not futile[k]:
            least = v
            best = k
    return best


@compiled
def add_to_face(b: Block, i: int, z: Any, left: Any, counts: Any) -> bool:
    """Add member i to the face; return False where Q has a negative eigenvalue.

    With r = R^-T h_i the new column of R is r over the square root of h_ii - r'r. Where that is 0,
    i depends affinely on S: along d = (-R^-1 r, 1) there is no curvature and h is linear. Then x
    first descends along d until a weight vanishes, and that member is dropped.
    """
    while True:
        s = b.sizes[FACE_SIZE]
        left[0] -= float(s) * s
        row = b.Q[i]
        own = row[i] + b.sigma[0]
        for k in range(s):
            j = b.face[k]
            z[k] = row[j] + (b.sigma[0] if b.group[i] == b.group[j] else 0.0)
        forward(b.R, s, z)
        pivot = own - dot(z, z, s)
        if row[i] < 0.0 or pivot < -max(1e-6, rounding(b.R, s) * own) * own:
            return False
        if pivot > DEPENDENCE_TOLERANCE * (s + 4) * own:
            append_column(b, i, z, np.sqrt(pivot))
            return True
        backward(b.R, s, z)
        slope = b.c[i]
        for k in range(s):
            slope -= b.c[b.face[k]] * z[k]
        sign = -1.0 if b.x[i] > 0.0 and slope > 0.0 else 1.0
        counts[MINOR_STEPS] += 1
        if not move_along(b, i, z, sign):
            return True


@compiled
def rounding(R: Any, s: int) -> float:
    """Return the relative rounding error that the old pivots may leave in a new one."""
    least = np.inf
    for k in range(s):
        least = min(least, R[k, k])
    return DEPENDENCE_TOLERANCE * (s + 4) / (least * least)


@compiled
def move_along(b: Block, i: int, z: Any, sign: float) -> bool:
    """Move x by sign (-z, 1) until a weight vanishes; return whether it is one of the face."""
    s = b.sizes[FACE_SIZE]
    theta = np.inf if sign > 0.0 else b.x[i]
    out = s
    for k in range(s):
        down = sign * z[k]
        if down > 0.0 and b.x[b.face[k]] < theta * down:
            theta = b.x[b.face[k]] / down
            out = k
    for k in range(s):
        j = b.face[k]
        b.x[j] = max(b.x[j] - sign * theta * z[k], 0.0)
    if out == s:
        b.x[i] = 0.0
        return False
    b.x[i] = max(b.x[i] + sign * theta, 0.0)
    drop_from_face(b, out)
    return True


@compiled
def minimize_on_face(b: Block, z: Any, nu: Any, M: Any, left: Any, counts: Any) -> bool:
    """Move to the minimizer on the affine hull of the face; members whose weight vanishes are dropped.

    Return False where the work `left` ends before that; x and the face then still agree.
    """
    n_groups = nu.shape[0]
    while True:
        direction(b, z, nu, M)
        s = b.sizes[FACE_SIZE]
        left[0] -= float(s) * s
        theta = 1.0
        out = s
        for k in range(s):
            x = b.x[b.face[k]]
            if x + z[k] <= 0.0 and (out == s or x < -theta * z[k]):
                theta = -x / z[k] if z[k] < 0.0 else 0.0
                out = k
        for k in range(s):
            i = b.face[k]
            b.x[i] = max(b.x[i] + theta * z[k], 0.0)
            b.f[i] += theta * (nu[b.group[i]] - b.f[i])
        if out == s:
            break
        counts[MINOR_STEPS] += 1
        drop_from_face(b, out)
        if left[0] <= 0.0:
            return False
    for g in range(n_groups):
        nu[g] = 0.0
    for k in range(s):
        nu[b.group[b.face[k]]] += b.x[b.face[k]]
    for k in range(s):
        b.x[b.face[k]] /= nu[b.group[b.face[k]]]
    return True


@compiled
def direction(b: Block, z: Any, nu: Any, M: Any) -> None:
    """Set z = d, the step to the minimizer, and nu, the gradient of each group there.

    The threshold is subtracted from f before the solve, so that small differences keep their digits.
    """
    s = b.sizes[FACE_SIZE]
    n_groups = nu.shape[0]
    for k in range(s):
        i = b.face[k]
        z[k] = b.f[i] - b.threshold[b.group[i]]
    forward(b.R, s, z)
    for g in range(n_groups):
        nu[g] = 0.0
        for h in range(n_groups):
            M[g, h] = 0.0
    for k in range(s):
        for g in range(n_groups):
            nu[g] += b.U[k, g] * z[k]
            for h in range(n_groups):
                M[g, h] += b.U[k, g] * b.U[k, h]
    for g in range(n_groups):  # elimination; M is small and positive definite
        for h in range(g + 1, n_groups):
            t = M[h, g] / M[g, g]
            nu[h] -= t * nu[g]
            for l in range(g, n_groups):
                M[h, l] -= t * M[g, l]
    for g in range(n_groups - 1, -1, -1):
        for h in range(g + 1, n_groups):
            nu[g] -= M[g, h] * nu[h]
        nu[g] /= M[g, g]
    for k in range(s):
        z[k] = -z[k]
        for g in range(n_groups):
            z[k] += b.U[k, g] * nu[g]
    backward(b.R, s, z)
    for g in range(n_groups):
        nu[g] += b.threshold[g]


@compiled
def append_column(b: Block, i: int, r: Any, pivot: float) -> None:
    """Append member i to the face: r and the pivot are the new column of R."""
    s = b.sizes[FACE_SIZE]
    for g in range(b.U.shape[1]):
        total = 1.0 if b.group[i] == g else 0.0
        for k in range(s):
            total -= r[k] * b.U[k, g]
        b.U[s, g] = total / pivot
    for k in range(s):
        b.R[k, s] = r[k]
    b.R[s, s] = pivot
    b.face[s] = i
    b.sizes[FACE_SIZE] = s + 1


@compiled
def drop_from_face(b: Block, out: int) -> None:
    """Drop the member at position `out` from the face; rotations make R triangular again."""
    s = b.sizes[FACE_SIZE]
    b.x[b.face[out]] = 0.0
    for k in range(out):
        row = b.R[k]
        for l in range(out + 1, s):
            row[l - 1] = row[l]
    for k in range(out, s - 1):
        upper, lower = b.R[k], b.R[k + 1]
        length = np.sqrt(upper[k + 1] ** 2 + lower[k + 1] ** 2)
        cosine = upper[k + 1] / length
        sine = lower[k + 1] / length
        for l in range(k + 1, s):
            u = upper[l]
            v = lower[l]
            upper[l - 1] = cosine * u + sine * v
            lower[l] = cosine * v - sine * u
        for g in range(b.U.shape[1]):
            u = b.U[k, g]
            v = b.U[k + 1, g]
            b.U[k, g] = cosine * u + sine * v
            b.U[k + 1, g] = cosine * v - sine * u
        b.face[k] = b.face[k + 1]
    b.sizes[FACE_SIZE] = s - 1


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


# Its sum may be reordered, so that it vectorizes: the same machine code still gives the same bits.
@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def dot(a: Any, b: Any, n: int) -> float:
    """Return the inner product of the first n entries."""
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total
