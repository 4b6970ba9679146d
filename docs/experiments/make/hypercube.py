"""Hypercube least squares (Garber and Wolf, section 4.1): the figure and tables of the gallery.

python -m docs.experiments.make.hypercube
"""

from __future__ import annotations

import numpy as np

from docs.experiments.make.curves import Curve, curve, draw, mean, table
from problems.programs.general import hypercube_face
from qpsvm import LeastSquares
from qpsvm.domains import hypercube

N_RUNS = 50
N_STEPS = 300
FACE_DIMENSION = 5
FISTA_OPTIONS = {"corrector": "fista", "inner_steps": 50}
METHOD_OPTIONS = {
    "FW": ("fw", {"step": "theory"}),
    "AFW": ("mfw", {}),
    "FC": ("fcfw", FISTA_OPTIONS),
    "NEP-FW": ("nep-fw", {"safeguard": False}),
    "NEP-FW, beta/4": ("nep-fw", {"safeguard": False, "oracle_scale": 0.25}),
    "NEP-FC": ("nep-fc", {"safe": False, **FISTA_OPTIONS}),
    "NEP-FC, exact": ("nep-fc", {"safe": False}),
    "APG": ("apg", {}),
}


def runs(n: int, m: int) -> dict[str, Curve]:
    """Return the mean curves of all methods on fresh problems with n rows and m columns."""
    found: dict[str, list[Curve]] = {label: [] for label in METHOD_OPTIONS}
    for seed in range(N_RUNS):
        data = hypercube_face(n, m, FACE_DIMENSION, seed)
        beta = float(np.linalg.norm(data["A"], 2) ** 2)
        problem = LeastSquares(data["A"], data["b"], hypercube(m), smoothness=beta)
        for label, (method, options) in METHOD_OPTIONS.items():
            x0 = np.zeros(m)
            c = curve(problem, method, 0.0, x0=x0, max_iter=N_STEPS, seed=seed, **options)
            found[label].append(pad(c))
    return {label: mean(curves) for label, curves in found.items()}


def pad(c: Curve) -> Curve:
    """Continue a run that ended early at its last values, so that means compare like with like."""
    checks = [1, 2, 4, 8, *range(16, N_STEPS + 1, 16)]
    at = np.array([0, *checks])
    k = np.minimum(np.searchsorted(c.iteration, at, side="right") - 1, len(c.iteration) - 1)
    return Curve(at.astype(float), c.time[k], c.error[k], c.gap[k])


def main() -> None:
    """Draw the figure, print the tables."""
    panels = {}
    for n, m in ((200, 100), (500, 200), (100, 200)):
        found = runs(n, m)
        panels[f"f - f*, {n} rows, {m} columns"] = (found, "error")
        print(f"\n{n} rows, {m} columns\n\n{table(found, (32, 96, 288))}")
    draw(panels, "hypercube", floor=1e-14)


if __name__ == "__main__":
    main()
