"""Feasible points of Clarabel at 1e-10: what they prove is computed by the judge, not believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tests.fuzz.quadratic import Quadratic

LARGEST_FOR_CLARABEL = 60
"""Number of points up to which Clarabel is asked."""

CLARABEL_TOLERANCE = 1e-10
"""What Clarabel is asked for."""


def clarabel_point(program: Quadratic) -> np.ndarray | None:
    """Return a feasible point near the minimizer, or None where Clarabel finds none."""
    import clarabel

    n = len(program.linear)
    if program.radius is not None:
        return None
    at = program.point
    G = program.factor * np.outer(program.sign, program.sign) * program.kernel.K[np.ix_(at, at)]
    P = (G + np.diag(program.ridge)).astype(np.float64)
    q = program.linear.astype(np.float64)
    size = max(float(np.abs(P).max(initial=0.0)), float(np.abs(q).max(initial=0.0)))
    if not 0.0 < size < np.inf:
        return None
    rows, right, cones = [], [], []
    for group in program.groups:
        row = np.zeros(n)
        row[group.where] = group.sign
        rows.append(row[None])
        right.append([group.total])
    cones += [clarabel.ZeroConeT(len(rows))] if rows else []
    bounded = np.isfinite(program.upper)
    rows += [-np.eye(n), np.eye(n)[bounded]]
    right += [np.zeros(n), program.upper[bounded].astype(np.float64)]
    cones.append(clarabel.NonnegativeConeT(n + int(bounded.sum())))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 200
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, CLARABEL_TOLERANCE)
    found = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(P / size)), q / size, sp.csc_matrix(np.vstack(rows)),
        np.concatenate(right).astype(np.float64), cones, settings,
    ).solve()  # fmt: skip
    x = np.array(found.x)
    return repaired(program, x) if np.isfinite(x).all() else None


def repaired(program: Quadratic, x: Any) -> np.ndarray | None:
    """Return x moved into the domain; the equalities hold up to the last digits of extended precision."""
    x = np.clip(np.asarray(x, dtype=np.longdouble), 0.0, program.upper)
    for group in program.groups:
        own = x[group.where]
        for _ in range(60):
            missed = group.total - (group.sign * own).sum()
            if missed == 0:
                break
            up = group.sign * missed > 0  # coordinates that grow
            space = np.where(up, program.upper[group.where] - own, own)
            space = np.where(np.isinf(space), np.maximum(own, 1.0), space)
            total = space.sum()
            if not total > 0:
                return None
            own = own + np.where(up, 1.0, -1.0) * space * min(1.0, abs(missed) / total)
            own = np.clip(own, 0.0, program.upper[group.where])
        x[group.where] = own
    size = max(float(np.abs(x).sum()), 1e-300)
    return x if program.violation(x) <= 1e-17 * max(size, 1.0) else None
