"""The shrinking index set on a plane problem (Jung, O'Leary and Tits, section 5.3): the figure.

python -m docs.experiments.make.ellipse
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from docs.experiments.make.curves import PAGE_FOLDER
from qpsvm import HingeDual, Linear
from qpsvm.solvers.interior_point.crsvm import ConstraintReduced

ELLIPSE_MATRIX = np.array([[2.6, -1.4], [-1.4, 3.4]])
"""The ellipse x'Sx = 1 between the classes."""

N_POINTS = 1727
"""Points left of 2000 once those nearest to the ellipse are deleted, as many as the paper has."""

N_PANELS = 8

FINAL_COMPLEMENTARITY = 1e-10
"""Complementarity relative to the value at which a run ends."""


def points(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return uniform points of the square with an ellipsoidal gap, and their labels."""
    X = np.random.default_rng(seed).uniform(-1.0, 1.0, (2000, 2))
    level = np.einsum("ij,jk,ik->i", X, ELLIPSE_MATRIX, X) - 1.0
    kept = np.sort(np.argsort(np.abs(level))[-N_POINTS:])
    return X[kept], np.where(level[kept] < 0, 1.0, -1.0)


def mapped(X: np.ndarray) -> np.ndarray:
    """Return the features of the homogeneous kernel of second order: (a^2, sqrt(2) ab, b^2)."""
    a, b = X[..., 0], X[..., 1]
    return np.stack([a * a, np.sqrt(2.0) * a * b, b * b], axis=-1)


class Snapshot(NamedTuple):
    """What an iteration starts from: its rows Q, and the plane (w, gamma)."""

    rows: np.ndarray
    w: np.ndarray
    gamma: float


@dataclass(frozen=True)
class Watched(ConstraintReduced):
    """The solver itself, which also notes the rows it chooses."""

    seen: list[Snapshot] = field(default_factory=list)

    def _active(self, state: Any) -> Any:
        rows = super()._active(state)
        core = state.core
        every = np.arange(core.m) if rows is None else rows
        self.seen.append(Snapshot(every, core.w.copy(), core.gamma))
        return rows


def run(X: np.ndarray, y: np.ndarray, reduction: str) -> list[Snapshot]:
    """Return the snapshots of all iterations, and the answer as the last one."""
    problem = HingeDual(Linear(mapped(X)), y).as_qp()
    solver = Watched(reduction=reduction, sift=False)
    state = solver.init(problem, None, np.random.default_rng(0))
    state.vertex = lambda: None  # the method of the paper to its end, without our crossover
    while state.core.complementarity > FINAL_COMPLEMENTARITY * state.core.size:
        if not solver.advance(problem, state, 1).steps:
            raise RuntimeError(f"{reduction}: no further step before the end")
    on_margin = np.flatnonzero((state.x > 1e-9) & (state.x < 1.0 - 1e-9))
    return [*solver.seen, Snapshot(on_margin, state.core.w, state.core.gamma)]


def main() -> None:
    """Draw the figure, print the sizes of Q."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = points()
    print(f"{len(y)} points, {int(np.sum(y > 0))} inside\n")
    seen = {name: run(X, y, name) for name in ("paper", "preconditioner")}
    for name, shots in seen.items():
        print(f"{name}: |Q| = {', '.join(str(len(s.rows)) for s in shots[:-1])}")
        print(f"  {len(shots) - 1} iterations; {len(shots[-1].rows)} vectors on the margin\n")
    shots = seen["paper"]
    chosen = np.unique(np.linspace(0, len(shots) - 2, N_PANELS).round().astype(int))
    grid = np.linspace(-1.0, 1.0, 201)
    plane = mapped(np.stack(np.meshgrid(grid, grid), axis=-1))
    origin = Linear(mapped(X)).origin
    plane = plane if origin is None else plane - origin
    figure, axes = plt.subplots(2, N_PANELS // 2, figsize=(11.0, 5.8), sharex=True, sharey=True)
    for ax, k in zip(axes.ravel(), chosen, strict=False):
        ax.plot(*X.T, ".", color="0.85", markersize=2)
        for sign, color in ((1.0, "C0"), (-1.0, "C3")):
            some = shots[k].rows[y[shots[k].rows] == sign]
            ax.plot(*X[some].T, ".", color=color, markersize=3)
        levels = plane @ shots[k].w - shots[k].gamma
        ax.contour(grid, grid, levels, [-1.0, 0.0, 1.0], colors="k", linewidths=[0.8, 1.4, 0.8],
                   linestyles=["--", "-", "--"])  # fmt: skip
        ax.set_title(f"iteration {k + 1}: {len(shots[k].rows)} rows", fontsize=9)
        ax.set_aspect("equal")
        ax.set_xticks([-1, 0, 1])
        ax.set_yticks([-1, 0, 1])
    figure.tight_layout()
    figure.savefig(PAGE_FOLDER / "ellipse.png", dpi=80)


if __name__ == "__main__":
    main()
