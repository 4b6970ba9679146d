"""Video co-localization (Garber and Wolf, section 4.2) and a flow on a DAG: figures and tables.

    QPSVM_DATA=... python -m docs.experiments.make.colocalization

The data, ``aeroplane_data_small.mat``, come with the code of Lacoste-Julien and Jaggi (2015).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import qpsvm
from docs.experiments.make.curves import Curve, curve, draw, table
from qpsvm import QuadraticProgram
from qpsvm.data import folder
from qpsvm.domains import FlowPolytope, OracleDomain
from qpsvm.domains.flow import layered_graph

DATA_FILE = "aeroplane_data_small.mat"
N_STEPS = 304
FISTA_OPTIONS = {"corrector": "fista", "inner_steps": 10}
METHOD_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "FW": ("fw", {}),
    "AFW": ("mfw", {}),
    "PFW": ("pfw", {}),
    "BPFW": ("bpfw", {}),
    "FC, 10 FISTA": ("fcfw", FISTA_OPTIONS),
    "DICG": ("dicg", {}),
    "NEP-FW": ("nep-fw", {"step": "line-search"}),
    "NEP-FC, 10 FISTA": ("nep-fc", {"weight": "scheduled", "decay": 0.95, **FISTA_OPTIONS}),
    "FC": ("fcfw", {}),
    "NEP-FC, scheduled": ("nep-fc", {"weight": "scheduled", "decay": 0.95}),
    "NEP-FC, adaptive": ("nep-fc", {"safe": False}),
    "APG": ("apg", {}),
}


def video() -> QuadraticProgram:
    """Return the problem: one of 20 boxes in each of 33 frames, hence 33 simplices."""
    from scipy.io import loadmat

    data = loadmat(folder() / DATA_FILE)
    frames, counts = np.unique(data["var_index"][:, :2], axis=0, return_counts=True)
    assert np.all(counts == 20) and len(frames) == 33
    Q = 0.5 * (data["A"] + data["A"].T)
    beta = float(np.linalg.eigvalsh(Q)[-1])
    return QuadraticProgram(Q, data["b"].ravel(), Frames(33, 20), smoothness=beta)


@dataclass(frozen=True, eq=False)
class Frames(OracleDomain):
    """One box in each frame: a product of simplices, with the vertices of the flow polytope.

    It is `SimplexProduct` without its compiled path, whose away steps treat each simplex apart: the
    paper's methods work with vertices that hold a box of every frame.
    """

    frames: int
    boxes: int
    zero_one = True
    constant_norm = True
    projectable = True
    has_face_oracle = True

    @property
    def m(self) -> int:
        return self.frames * self.boxes

    def linear_min(self, g: Any) -> Any:
        rows = g.reshape(self.frames, self.boxes)
        v = np.zeros(rows.shape)
        v[np.arange(self.frames), np.argmin(rows, axis=1)] = 1.0
        return v.ravel()

    def linear_gap(self, x: Any, g: Any) -> float:
        rows = g.reshape(self.frames, self.boxes)
        return float(x @ (rows - rows.min(axis=1, keepdims=True)).ravel())

    def violation(self, x: Any) -> float:
        sums = x.reshape(self.frames, self.boxes).sum(axis=1)
        return float(max(0.0, -x.min(), np.max(np.abs(sums - 1.0))))

    def project(self, x: Any) -> Any:
        rows = x.reshape(self.frames, self.boxes)
        falling = -np.sort(-rows, axis=1)
        level = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, self.boxes + 1)
        last = np.sum(falling > level, axis=1) - 1
        return np.maximum(rows - level[np.arange(self.frames), last][:, None], 0.0).ravel()


def flow() -> QuadraticProgram:
    """Return a flow on 12 incomplete layers of 15 nodes whose optimum mixes few paths."""
    tail, head, source, target = layered_graph([15] * 12, 0.25, seed=1)
    domain = FlowPolytope(tail, head, source, target)
    rng = np.random.default_rng(0)
    B = rng.standard_normal((domain.m, domain.m)) / np.sqrt(domain.m)
    paths = [domain.linear_min(rng.standard_normal(domain.m)) for _ in range(5)]
    best = rng.dirichlet(np.ones(5)) @ np.array(paths)
    Q = B @ B.T + 0.1 * np.eye(domain.m)
    beta = float(np.linalg.eigvalsh(Q)[-1])
    return QuadraticProgram(Q, -Q @ best, domain, smoothness=beta)


def runs(problem: QuadraticProgram, methods: dict[str, Any]) -> tuple[float, dict[str, Curve]]:
    """Return the optimal value and the curves, all from the vertex that is best for -1."""
    x0 = problem.domain.linear_min(-np.ones(problem.domain.m))
    fits = qpsvm.methods(problem)
    finest = "apg" if "apg" in fits else "nep-fc"
    optimum = qpsvm.solve(problem, finest, tol=1e-13, max_iter=2000).value
    found = {}
    for label, (method, options) in methods.items():
        if method not in fits:
            continue
        found[label] = curve(problem, method, optimum, x0=x0, max_iter=N_STEPS, **options)
    return optimum, found


def main() -> int:
    """Draw the figures, print the tables."""
    if not (folder() / DATA_FILE).is_file():
        print(f"{DATA_FILE} is not in {folder()}; set QPSVM_DATA to the folder that holds it")
        return 1
    for name, problem in (("colocalization", video()), ("flow", flow())):
        optimum, found = runs(problem, METHOD_OPTIONS)
        print(f"\n{name}: {problem.domain.m} variables, f* = {optimum:.15g}\n")
        print(table(found, (32, 96, 304)))
        draw({"f - f*": (found, "error"), "certified gap": (found, "gap")}, name, floor=1e-16)
    return 0


if __name__ == "__main__":
    sys.exit(main())
