"""Seconds of the L2-SVM over those of the hinge machine, and of one-class machines on many points.

python -m docs.make.grid_losses > docs/make/grid_losses.jsonl
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import qpsvm
from asv_benchmarks import exact_kernel, grid
from asv_benchmarks.grid_cells import Cell

PENALTY_VALUES = (1.0, 10.0, 100.0)
"""Values of C of both losses."""

WARM_POINTS = 6000
"""Points of the solves before those that are timed: enough for the methods of many points."""

MANY_POINTS = Cell("rbf", "float64", 100_000, 10, 1, None, "one-class")
"""The one-class machine; the soft ball has the same points."""

CLASS_OVERLAP = 0.08
"""Overlap of the classes of the set of 20,000 points."""


def sets() -> Iterator[tuple[str, Any, Any, float]]:
    """Yield name, points, labels and gamma."""
    X, y = exact_kernel.load("a9a")
    yield "a9a", X, y, exact_kernel.DATA_SETS["a9a"][1]
    data = grid.make(Cell("rbf", "float64", 20_000, 50, 20, 1.0, "hinge"), CLASS_OVERLAP)
    yield "20,000 x 50", data.X, data.y, data.gamma


def seconds(problem: Any) -> tuple[float, Any]:
    """Return the seconds of a solve, and its answer."""
    begun = time.perf_counter()
    result = qpsvm.solve(problem)
    return time.perf_counter() - begun, result


def measure() -> Iterator[dict[str, Any]]:
    """Yield the rows, after small problems of the same kinds."""
    losses = qpsvm.HingeDual, qpsvm.L2SVMDual
    given = list(sets())
    for _, X, y, gamma in given:
        for loss in losses:
            qpsvm.solve(loss(qpsvm.RBF(X[:WARM_POINTS], gamma), y[:WARM_POINTS], 1.0))
    for C in PENALTY_VALUES:
        for name, X, y, gamma in given:
            for loss in losses:
                took, result = seconds(loss(qpsvm.RBF(X, gamma), y, C))
                yield {
                    "data": name, "problem": loss.__name__, "C": C, "seconds": took,
                    "gap": result.certificate.relative_gap, "support": len(result.support),
                }  # fmt: skip
    for form in ("one-class", "soft ball"):
        for support in (1, 20):
            cell = MANY_POINTS._replace(formulation=form, support=support)
            took, result = seconds(grid.declare(cell, grid.make(cell, np.nan)))
            yield {
                "data": f"100,000 x 10, {support}%", "problem": form, "C": None, "seconds": took,
                "gap": result.certificate.relative_gap, "support": len(result.support),
            }  # fmt: skip


if __name__ == "__main__":
    for found in measure():
        print(found, file=sys.stderr, flush=True)
        print(json.dumps(found), flush=True)
