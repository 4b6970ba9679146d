"""OSQP on a standard-form quadratic program, with polish and tight tolerances."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from reference.textbook import Array, StandardForm


def solve_standard_form(qp: StandardForm) -> Array:
    """Return OSQP's point, whatever its status.

    OSQP sees the problem in units in which the largest entry of Q is 1: the objective is divided
    for a simplex; where b = 0 the variable is scaled, since nothing else fixes its unit.
    """
    import osqp

    m = len(qp.c)
    largest = max(float(np.abs(qp.Q).max()), 0.0) or 1.0
    unit = 1.0 if (qp.b > 0).any() else largest
    c = qp.c * unit / largest
    solver = osqp.OSQP()
    solver.setup(
        P=scipy.sparse.csc_matrix(np.triu((qp.Q / largest).astype(float))),
        q=c.astype(float),
        A=scipy.sparse.vstack(
            [scipy.sparse.csc_matrix(qp.A.astype(float)), scipy.sparse.eye(m)], format="csc"
        ),
        l=np.concatenate([qp.b, np.zeros(m)]).astype(float),
        u=np.concatenate([qp.b, np.asarray(qp.upper * unit, dtype=float)]).astype(float),
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=20_000,
        polishing=True,
        verbose=False,
    )
    x = solver.solve(raise_error=False).x
    return np.asarray(x, dtype=float) / unit
