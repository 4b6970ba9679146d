"""Polish an approximate answer on its active set, in extended precision.

A primal active-set method (Nocedal and Wright 2006, section 16.5) for the standard form

    minimize  1/2 x'Qx + c'x    subject to  Ax = b,  0 <= x <= upper

from a point that is nearly optimal. The steps come from a float64 eigendecomposition of the
Hessian on the free variables; gradients, step lengths and the point itself are kept in extended
precision, so that repeated steps on one face are iterative refinement.
"""

from __future__ import annotations

import numpy as np

from reference.textbook import EXTENDED_PRECISION, Array, StandardForm

EPS = np.finfo(EXTENDED_PRECISION).eps
MAX_STEPS = 400
"""Steps at most, over all faces."""
MAX_REFINEMENTS = 6
"""Steps at most on one face that none of its bounds blocks."""
FLAT_CURVATURE = 1e-14
"""Curvature, relative to the largest, that float64 cannot tell from 0."""


def polish(qp: StandardForm, x: Array) -> Array:
    """Return a feasible point close to x, exact to the last digits when all goes well."""
    x = snap(qp, qp.repair(x))
    free = (x > 0) & (x < qp.upper)
    face, refinements = None, 0
    for _ in range(MAX_STEPS):
        gradient = qp.Q @ x + qp.c
        if face is None and free.any():
            face, refinements = Face(qp, free), 0
        if face is not None and refinements < MAX_REFINEMENTS:
            direction = face.direction(gradient[free])
            length, blocking = line_search(qp, x, free, gradient, direction)
            x[free] += length * direction
            if blocking is None:
                settled = np.abs(direction).max() <= 4 * EPS * np.abs(x).max()
                refinements = MAX_REFINEMENTS if settled else refinements + 1
            else:
                x[blocking] = 0 if x[blocking] < qp.upper[blocking] / 2 else qp.upper[blocking]
                free[blocking], face = False, None
        else:
            entering = most_wrong(qp, x, free, gradient)
            if entering is None:
                break
            free[entering], face = True, None
    return qp.repair(x)


def snap(qp: StandardForm, x: Array) -> Array:
    """Move to their bounds the variables that are closer to them than to a zero multiplier."""
    gradient = qp.Q @ x + qp.c
    reduced = gradient.copy()
    slack = np.minimum(x, qp.upper - x)
    for row in qp.A:
        weight = np.where(row != 0, slack, 0)
        if weight.sum() > 0:
            reduced -= row * (weight @ (row * gradient)) / weight.sum()
    multiplier = np.abs(reduced) / (np.abs(gradient).max() or 1)
    bound = slack / (slack.max() or 1) < multiplier
    return qp.repair(np.where(bound, np.where(x < qp.upper / 2, 0, qp.upper), x))


class Face:
    """The quadratic on the free variables: Newton steps within Ax = const."""

    def __init__(self, qp: StandardForm, free: Array) -> None:
        rows = qp.A[:, free].astype(float)
        self.rows = rows[np.abs(rows).any(axis=1)]
        basis = np.linalg.qr(self.rows.T, mode="complete")[0][:, len(self.rows) :]
        hessian = basis.T @ qp.Q[np.ix_(free, free)].astype(float) @ basis
        eigenvalues, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
        largest = max(eigenvalues.max(initial=0), 1e-3 * float(np.abs(qp.Q).max()))
        self.curved = eigenvalues > FLAT_CURVATURE * largest
        self.eigenvalues, self.basis = eigenvalues, basis @ vectors

    def direction(self, gradient: Array) -> Array:
        """Return the Newton step; where the quadratic is flat but slopes, steepest descent."""
        slopes = self.basis.T @ gradient.astype(float)
        flat = np.where(self.curved, 0.0, slopes)
        if np.abs(flat).max(initial=0) > 1e-9 * np.abs(gradient).max():
            step = -flat
        else:
            step = np.where(self.curved, -slopes / np.where(self.curved, self.eigenvalues, 1), 0)
        step = (self.basis @ step).astype(EXTENDED_PRECISION)
        for row in self.rows.astype(EXTENDED_PRECISION):  # stay on Ax = b to the last digit
            step -= row * (row @ step) / (row @ row)
        return step


def line_search(
    qp: StandardForm, x: Array, free: Array, gradient: Array, direction: Array
) -> tuple[np.longdouble, int | None]:
    """Return the exact line search's length and the variable that blocks it, if one does."""
    curvature = direction @ (qp.Q[np.ix_(free, free)] @ direction)
    slope = gradient[free] @ direction
    if slope >= 0:
        return EXTENDED_PRECISION(0), None
    length = -slope / curvature if curvature > 0 else EXTENDED_PRECISION(np.inf)
    slack = np.full(len(direction), np.inf, dtype=EXTENDED_PRECISION)
    down, up = direction < 0, direction > 0
    slack[down] = -x[free][down] / direction[down]
    slack[up] = (qp.upper[free][up] - x[free][up]) / direction[up]
    nearest = slack.argmin()
    if slack[nearest] < length:
        return slack[nearest], int(np.flatnonzero(free)[nearest])
    return (length, None) if np.isfinite(length) else (EXTENDED_PRECISION(0), None)


def most_wrong(qp: StandardForm, x: Array, free: Array, gradient: Array) -> int | None:
    """Return the variable on a bound whose multiplier has the wrong sign by most, or None."""
    noise = 64 * EPS * (np.abs(qp.Q) @ x + np.abs(qp.c))
    reduced = gradient.copy()
    for row in qp.A:
        free_in_row = free & (row != 0)
        if free_in_row.any():
            reduced -= row * (row[free_in_row] @ gradient[free_in_row]) / free_in_row.sum()
        else:  # no free variable fixes this multiplier: take the least wrong of the kinks
            members = np.flatnonzero((row != 0) & (qp.upper > 0))
            kinks = gradient[members] * row[members]
            trial = gradient[members] - np.outer(kinks, row[members])
            wrong = np.where(x[members] > 0, np.maximum(trial, 0), np.maximum(-trial, 0))
            best = wrong.sum(axis=1).argmin()
            if wrong[best].max() > noise.max():
                return int(members[best])
            reduced -= row * kinks[best]
    wrong = np.where(x > 0, reduced, -reduced)
    wrong[free | (qp.upper == 0)] = 0
    worst = wrong.argmax()
    return int(worst) if wrong[worst] > noise[worst] else None
