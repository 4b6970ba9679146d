"""Newton steps on the face of the free weights, between the pair steps of `smo`.

Pair steps find the face of the optimum soon, and then solve a linear system in its free weights slowly
where that is ill-conditioned, as at large penalties. A Newton step solves it by a Cholesky factor: with d
the change of the weights, f the gradient and A the coefficients of the equality constraints, it minimizes
f'd + 1/2 d'Qd over A d = 0, where weights at a bound are fixed. Those that would pass a bound are fixed
there by further equality constraints, with the same factor while these are few, until none does. The step
ends at the minimum of the line, or where it leaves the domain.

Steps begin where pair steps are many, and take about as long as these at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from qpsvm.canonical.qp import QP
from qpsvm.gram import SignedGram

MAX_FACTORS = 10
"""Maximum number of factors of a Newton step; each is over the weights that are not fixed so far."""

MAX_FIXED_FRACTION = 0.2
"""Fraction of the weights of a factor that are fixed with it; more of them cost as much as another."""

FIRST_STEPS_PER_POINT = 1.0
"""Number of pair steps per point before the first Newton step: often these suffice."""

FACTOR_OPERATIONS_PER_ENTRY = 30.0
"""Multiplications of a factor in the time in which a pair step updates an entry."""

OVERHEAD_ENTRIES = 400_000.0
"""Entries that pair steps update in the time in which a Newton step calls its routines."""

PAIR_OVERHEAD_ENTRIES = 75.0
"""Entries that are updated in the time which a pair step takes besides."""

Vector = NDArray[np.float64]


def pair_steps_worth(n_free: int, m: int) -> int:
    """Return the number of pair steps that take as long as a Newton step."""
    entries = OVERHEAD_ENTRIES + n_free**3 / 3.0 / FACTOR_OPERATIONS_PER_ENTRY + m * m
    return int(entries / (PAIR_OVERHEAD_ENTRIES + m))


def first_face_step(m: int) -> float:
    """Return the number of pair steps from which the time of the first Newton step counts."""
    return FIRST_STEPS_PER_POINT * m


def face_step(
    problem: QP, group: NDArray[np.int64], z: Vector, x: Vector, upper: Vector, f: Vector
) -> tuple[Vector, Vector] | None:
    """Return the weights after a Newton step and the change of G x; None where none is possible.

    The columns of free weights must be cached. `group` and `z` are the equality constraint of each
    weight and its coefficient there, f is the gradient.
    """
    store, gram = problem.store, problem.gram
    assert store is not None
    face = np.flatnonzero((x > 0.0) & (x < upper))
    if len(face) < 2:
        return None
    rows, sign, ridge = store.store[store.slot[face]], gram.sign, gram.ridge
    Q = _matrix(rows, gram, face)
    Q[np.diag_indices_from(Q)] = gram.scale * (store.diag[face] + gram.shift) + ridge[face]
    groups, own = np.unique(group[face], return_inverse=True)
    A = np.where(own[:, None] == np.arange(len(groups)), z[face, None], 0.0)
    d = _change(Q, A, f[face], x[face], upper[face])
    if d is None:
        return None
    signed = sign[face] * d
    image = gram.scale * sign * (signed @ rows + gram.shift * float(np.sum(signed)))
    slope, curvature = float(f[face] @ d), float(d @ (image[face] + ridge[face] * d))
    if not (slope < 0.0 < curvature < np.inf):
        return None
    slack = np.where(d < 0.0, x[face], upper[face] - x[face])
    t = min(-slope / curvature, 1.0 / max(1.0, float(np.max(np.abs(d) / slack))))
    x_new = x.copy()
    x_new[face] = np.clip(x[face] + t * d, 0.0, upper[face])
    return x_new, t * image


def _matrix(rows: NDArray[np.floating], gram: SignedGram, face: NDArray[np.int64]) -> Vector:
    """Return G over the face, in float64, from the rows of K that belong to it."""
    Q = rows.take(face, axis=1).astype(np.float64, copy=False)
    if gram.shift:
        Q += gram.shift
    if not gram.plain:
        Q *= gram.sign[face]
        Q *= (gram.scale * gram.sign[face])[:, None]
    elif gram.scale != 1.0:
        Q *= gram.scale
    return Q


def _change(Q: Vector, A: Vector, f: Vector, x: Vector, upper: Vector) -> Vector | None:
    """Return d of least f'd + 1/2 d'Qd with A'd = 0, which ends at the bounds that it would pass.

    Where it would pass many, these are fixed, and the others have a factor of their own.
    """
    d, free = np.zeros(len(x)), np.ones(len(x), bool)
    balanced: Vector | None = None
    for _ in range(MAX_FACTORS):
        at, fixed = np.flatnonzero(free), np.flatnonzero(~free)
        part, slope, sums = Q[at[:, None], at], f[at], np.zeros(A.shape[1])
        if len(fixed):
            slope = slope + Q[at[:, None], fixed] @ d[fixed]
            sums = sums - A[fixed].T @ d[fixed]
        found = _on_factor(part, A[at], sums, slope, x[at], upper[at])
        if found is None:
            break
        d[at], passed = found
        balanced = d.copy() if np.all(np.isfinite(d)) else None
        if not len(passed) or balanced is None:
            break
        passed = at[passed]
        d[passed] = np.where(d[passed] < 0.0, -x[passed], upper[passed] - x[passed])
        free[passed] = False
        if not np.all(A[free].any(axis=0)):  # a group that is fixed as a whole
            break
    return balanced


def _on_factor(
    Q: Vector, A: Vector, sums: Vector, f: Vector, x: Vector, upper: Vector
) -> tuple[Vector, NDArray[np.int64]] | None:
    """Return d of least f'd + 1/2 d'Qd with A'd = sums, and which bounds it passes where these are many.

    With the equality constraints E'd = w, those of the fixed weights among them, d is
    Q^-1 (E v - f) for the multipliers v with E'Q^-1 E v = w + E'Q^-1 f.
    """
    n = len(x)
    # a symmetric matrix in rows is the same in columns, which LAPACK factors without a copy
    factor, info = lapack.dpotrf(Q.T, lower=1, overwrite_a=1, clean=0)
    if info != 0:
        return None
    E, w, fixed = A, sums, np.zeros(n, bool)
    found, _ = lapack.dpotrs(factor, np.column_stack([-f, A]), lower=1)
    free_solution, V = found[:, 0], found[:, 1:]
    while True:
        try:
            multipliers = np.linalg.solve(E.T @ V, w - E.T @ free_solution)
        except np.linalg.LinAlgError:
            return None
        d = free_solution + V @ multipliers
        target = x + d
        passed = np.flatnonzero(((target < 0.0) | (target > upper)) & ~fixed)
        fixed[passed] = True
        if not len(passed) or np.count_nonzero(fixed) > MAX_FIXED_FRACTION * n:
            return d, np.flatnonzero(fixed) if len(passed) else passed
        new = np.zeros((n, len(passed)), order="F")
        new[passed, np.arange(len(passed))] = 1.0
        bound = np.where(target[passed] < 0.0, 0.0, upper[passed])
        E, w = np.hstack([E, new]), np.concatenate([w, bound - x[passed]])
        V = np.hstack([V, lapack.dpotrs(factor, new, lower=1)[0]])
