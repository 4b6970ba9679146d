"""The cells of the performance grid: which problems are solved, drawn by a balanced design from one seed.

    python -m asv_benchmarks.grid_cells            # the cells
    python -m asv_benchmarks.grid_cells balance    # how often each level occurs

A cell is a level of each factor: kernel, storage, points, features, support, C and formulation. Random
cells that are possible (`is_possible`) are drawn. Of these the one is taken, again and again, whose
levels lack most of their quotas (`QUOTAS`) and that has most pairs of levels which have not met.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

DESIGN_SEED = 2026
"""Seed of the draw."""

N_CANDIDATES = 6000
"""Random cells of which the design is made."""

PAIR_WEIGHT = 0.15
"""Worth of a new pair of levels against a level none of whose quota is filled."""

QUOTAS: dict[str, dict[Any, int]] = {
    "kernel": {"rbf": 16, "linear": 11, "poly2": 7, "poly3": 7, "laplacian": 6, "precomputed": 5,
               "sigmoid": 4, "custom": 4},
    "storage": {"float64": 14, "float32": 9, "integers": 8, "binary": 8, "csr": 21},
    "m": {200: 9, 2_000: 13, 5_000: 11, 20_000: 13, 100_000: 9, 500_000: 5},
    "d": {2: 5, 10: 8, 50: 10, 200: 9, 780: 5, 5_000: 3, 100: 6, 10_000: 8, 1_000_000: 6},
    "support": {1: 21, 20: 20, 80: 19},
    "C": {0.1: 10, 10.0: 14, 1000.0: 12, None: 24},
    "formulation": {"hinge": 24, "l2": 12, "one-class": 9, "soft ball": 8, "ball": 7},
}  # fmt: skip
"""Levels of each factor, and the number of cells that shall have them; 60 in all."""

N_CELLS = sum(QUOTAS["kernel"].values())
"""Number of cells."""

CSR_FEATURES = (100, 10_000, 1_000_000)
"""Numbers of features of CSR points; dense ones have the others."""

MAX_ENTRIES = 1e8
"""Entries of dense points: 800 MB in double precision."""

MAX_OPERATIONS = 2e11
"""Estimate m^2 (support) (d + 30) of the work of a kernel machine; it is some ten seconds."""

WORDS_A_POINT = 60
"""Words of a CSR point, before equal ones are joined."""


class Cell(NamedTuple):
    """A level of each factor; `support` is the wanted percentage, C is None where there is none."""

    kernel: str
    storage: str
    m: int
    d: int
    support: int
    C: float | None
    formulation: str

    @property
    def name(self) -> str:
        """All levels in one word."""
        C = "" if self.C is None else f" C={self.C:g}"
        ball = "" if self.formulation == "ball" else f" {self.support}%"
        return f"{self.formulation} {self.kernel} {self.storage} {self.m}x{self.d}{ball}{C}"


def is_possible(cell: Cell) -> bool:
    """Return whether a cell has a meaning, fits into memory, and takes seconds, not hours."""
    csr = cell.storage == "csr"
    if csr != (cell.d in CSR_FEATURES):
        return False
    if (cell.C is None) == (cell.formulation in ("hinge", "l2")):
        return False
    if cell.formulation == "ball" and cell.support != 1:  # what it has is known afterwards
        return False
    if cell.storage == "binary" and cell.d < 50:  # few distinct points
        return False
    if not csr and cell.m * cell.d > MAX_ENTRIES:
        return False
    if cell.m == 200 and cell.support == 1:  # two points
        return False
    return cell.kernel == "linear" or (_kernel_fits(cell, csr) and _work_fits(cell, csr))


def _kernel_fits(cell: Cell, csr: bool) -> bool:
    if cell.kernel == "precomputed":  # the matrix, of 400 MB at most, has the storage
        return cell.storage in ("float64", "float32") and cell.m <= 5_000 and cell.d <= 50
    if cell.kernel == "custom":  # SVC takes functions of dense points
        return not csr and cell.m <= 5_000 and cell.d <= 780
    if cell.kernel == "laplacian":  # all peers need the whole matrix
        return cell.m <= (2_000 if csr else 20_000) and (csr or cell.d <= 200)
    if cell.kernel == "sigmoid":  # positive semidefinite with fewer points than dimensions
        wide = {5_000: 2_000, 780: 200, 10_000: 5_000, 1_000_000: 5_000}
        return cell.m <= wide.get(cell.d, 0)
    return True


def _work_fits(cell: Cell, csr: bool) -> bool:
    width = WORDS_A_POINT if csr else cell.d
    if cell.m**2 * cell.support / 100 * (width + 30) > MAX_OPERATIONS:
        return False
    if cell.C == 1000.0 and cell.support > 1 and cell.m > 5_000:  # steps grow with C
        return False
    return not (cell.formulation == "l2" and cell.m > 100_000)


def pairs(cell: Cell) -> set[Any]:
    """Return all pairs of levels of a cell."""
    return set(combinations(zip(Cell._fields, cell, strict=True), 2))


def draw() -> list[Cell]:
    """Return the cells, in the order of kernels, formulations and sizes."""
    rng = np.random.default_rng(DESIGN_SEED)
    levels = [list(QUOTAS[factor]) for factor in Cell._fields]
    found: dict[Cell, None] = {}
    while len(found) < N_CANDIDATES:
        cell = Cell(*(some[rng.integers(len(some))] for some in levels))
        if is_possible(cell):
            found[cell] = None
    taken: list[Cell] = []
    counts: Counter[Any] = Counter()
    met: set[Any] = set()

    def worth(cell: Cell) -> float:
        lacks = 0.0
        for factor, level in zip(Cell._fields, cell, strict=True):
            quota = QUOTAS[factor][level]
            lacks += (quota - counts[factor, level]) / quota
            if counts[factor, level] >= quota:
                lacks -= 1.0
        return lacks + PAIR_WEIGHT * len(pairs(cell) - met)

    while len(taken) < N_CELLS:
        best = max(found, key=worth)
        del found[best]
        taken.append(best)
        met |= pairs(best)
        counts.update(zip(Cell._fields, best, strict=True))
    orders = [QUOTAS[factor] for factor in ("kernel", "formulation", "m")]
    return sorted(
        taken,
        key=lambda c: [
            list(order).index(level)
            for order, level in zip(orders, (c.kernel, c.formulation, c.m), strict=True)
        ],
    )


if __name__ == "__main__":
    cells = draw()
    if sys.argv[1:] == ["balance"]:
        for factor, quotas in QUOTAS.items():
            reached = Counter(getattr(cell, factor) for cell in cells)
            print(factor, {level: f"{reached[level]}/{quota}" for level, quota in quotas.items()})
        n_pairs = len(set().union(*map(pairs, cells)))
        print("pairs of levels", n_pairs)
    else:
        print(*(cell.name for cell in cells), sep="\n")
