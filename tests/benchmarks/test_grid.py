"""The grid of the benchmarks: its cells are those of the design, and the independent gap is right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import qpsvm
from asv_benchmarks import grid
from asv_benchmarks.grid_cells import N_CELLS, QUOTAS, Cell, is_possible
from docs.make import independent_gap

GRID_CELLS = [cell for cell, _ in grid.cells().values()]


def test_all_cells_are_possible_and_no_two_are_equal():
    assert len(set(GRID_CELLS)) == N_CELLS
    assert all(map(is_possible, GRID_CELLS))


@pytest.mark.parametrize("factor", QUOTAS)
def test_levels_occur_as_often_as_their_quotas_say(factor):
    counts = Counter(getattr(cell, factor) for cell in GRID_CELLS)
    assert all(abs(counts[level] - quota) <= 1 for level, quota in QUOTAS[factor].items())


def test_cells_that_asv_tracks_exist():
    assert set(grid.TRACKED_CELLS) <= set(grid.cells())


SMALL_CELLS = [
    Cell("rbf", "float64", 150, 10, 20, 10.0, "hinge"),
    Cell("linear", "float32", 150, 10, 20, 10.0, "hinge"),
    Cell("poly3", "integers", 150, 10, 20, 1.0, "l2"),
    Cell("laplacian", "csr", 120, 100, 20, None, "one-class"),
    Cell("custom", "binary", 150, 50, 20, None, "soft ball"),
    Cell("poly2", "csr", 150, 100, 1, None, "ball"),
    Cell("precomputed", "float64", 150, 10, 20, None, "one-class"),
    Cell("sigmoid", "csr", 120, 10_000, 20, 1.0, "hinge"),
]


@pytest.mark.parametrize("cell", SMALL_CELLS, ids=lambda cell: cell.name)
def test_independent_bounds_enclose_the_optimum_and_agree_with_the_certificate(cell):
    data = grid.make(cell, 0.1)
    nu = cell.support / 100
    C = cell.C or (1.0 if cell.formulation == "ball" else 1.0 / (nu * cell.m))
    exact = qpsvm.solve(grid.declare(cell, data), tol=1e-9).certificate
    for tol in (1e-2, 1e-6):
        result = qpsvm.solve(grid.declare(cell, data), tol=tol)
        upper, lower, violation = independent_gap.bounds(
            cell.formulation, data, cell.kernel, result.x, C, cell.kernel != "linear"
        )
        slack = 1e-8 * abs(exact.upper)
        assert upper == pytest.approx(result.certificate.upper, rel=1e-7)
        assert lower - slack <= exact.upper
        assert exact.lower <= upper + slack
        assert upper - lower <= 10.0 * tol * max(abs(upper), abs(lower))
        assert violation <= 1e-9 * max(1.0, np.abs(result.x).sum())
