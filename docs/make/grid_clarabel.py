"""Problems of the grid as quadratic programs of Clarabel, an interior-point solver.

With fewer features than points the variables are the weights and v = X' diag(y) a, so that no matrix of
all points is formed; otherwise the weights, with the kernel matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_benchmarks import grid
from asv_benchmarks.grid_cells import Cell

MAX_MATRIX_POINTS = 2_000
"""Points up to which the kernel matrix is handed over."""

MAX_FEATURES = 1_000
"""Features up to which the normal matrices of v are."""

MAX_STORED_ENTRIES = 3e7
"""Stored entries of the points up to which they are."""


def is_possible(cell: Cell) -> bool:
    """Return whether a cell is within these limits."""
    if cell.m <= MAX_MATRIX_POINTS:
        return True
    width = 60 if cell.storage == "csr" else cell.d
    return (
        cell.kernel == "linear" and cell.d <= MAX_FEATURES and cell.m * width <= MAX_STORED_ENTRIES
    )


def solve(cell: Cell, data: grid.Data, tol: float, matrix: Any) -> Any:
    """Return the weights to a relative gap of `tol`."""
    import clarabel

    m, labeled = len(data.y), cell.C is not None
    y = data.y if labeled else np.ones(m)
    bias = cell.formulation == "l2"
    ridge = 1.0 / cell.C if cell.formulation == "l2" else 0.0
    factor = 2.0 if "ball" in cell.formulation else 1.0
    nu = max(cell.support / 100, 1.0 / m)
    cap = {"hinge": cell.C, "one-class": 1.0 / (nu * m), "soft ball": 1.0 / (nu * m)}.get(
        cell.formulation
    )
    with_v = cell.kernel == "linear" and data.X.shape[1] < m
    if with_v:
        X = sp.csr_matrix(data.X, dtype=np.float64)
        diagonal = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        Z = sp.hstack([X, np.ones((m, 1))]) if bias else X
        Z = sp.diags(y) @ Z
        d = Z.shape[1]
        P = sp.diags(np.r_[np.full(m, ridge), np.full(d, factor)])
        rows, right = [sp.hstack([Z.T, -sp.eye(d)])], [np.zeros(d)]
    else:
        K = matrix(cell, data) + float(bias)
        diagonal, d = np.diag(K), 0
        P = sp.triu(factor * y[:, None] * K * y + ridge * np.eye(m))
        rows, right = [], []
    q = np.zeros(m + d)
    if "ball" in cell.formulation:
        q[:m] = -diagonal
    if cell.formulation == "hinge":
        q[:m] = -1.0
    else:
        rows.append(sp.csr_matrix(np.r_[np.ones(m), np.zeros(d)]))
        right.append(np.ones(1))
    if cell.formulation == "hinge" and cell.kernel != "linear":
        rows.append(sp.csr_matrix(y[None, :]))
        right.append(np.zeros(1))
    n_equal = sum(map(len, right))
    weights = sp.eye(m, m + d)
    rows.append(-weights)
    right.append(np.zeros(m))
    if cap is not None:
        rows.append(weights)
        right.append(np.full(m, cap))
    A, b = sp.vstack(rows).tocsc(), np.concatenate(right)
    cones = [clarabel.ZeroConeT(n_equal)] * (n_equal > 0)
    cones.append(clarabel.NonnegativeConeT(len(b) - n_equal))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = tol
    found = clarabel.DefaultSolver(sp.csc_matrix(P), q, A, b, cones, settings).solve()
    return np.clip(np.asarray(found.x)[:m], 0.0, cap)
