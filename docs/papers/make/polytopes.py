"""Kumar and Yildirim: iterations and core sets of Algorithm 1 beside Gilbert, MDM and NPA.

Over the number of points m, the penalty chi and epsilon; overlapping normal clouds in five dimensions,
linear kernel. Iterations are counted to the first check at which the certified margin is within a factor
of 1 - epsilon.
"""

from __future__ import annotations

from docs.papers.make.runs import Case
from problems.clouds import two_clouds
from qpsvm import Linear, PolytopeDistanceDual, solve

PAGE_TITLE = "Iterations and core sets"
METHOD_TITLES = {"mfw": "Algorithm 1", "gilbert": "Gilbert", "mdm": "MDM", "npa": "NPA"}
MAX_ITERATIONS = 200_000
N_FEATURES = 5


def cases(quick: bool = False) -> list[Case]:
    """Return one parameter varied at a time, about m = 1000, chi = 1, epsilon = 1e-3."""
    if quick:
        return [
            {"m": 200, "chi": 1.0, "epsilon": 1e-2, "method": method} for method in METHOD_TITLES
        ]
    points = [(m, 1.0, 1e-3) for m in (250, 500, 1000, 2000, 4000, 8000)]
    points += [(1000, chi, 1e-3) for chi in (0.01, 0.1, 10.0, 100.0)]
    points += [(1000, 1.0, epsilon) for epsilon in (1e-1, 1e-2, 1e-4, 1e-5, 1e-6)]
    return [
        {"m": m, "chi": chi, "epsilon": epsilon, "method": method}
        for m, chi, epsilon in points
        for method in METHOD_TITLES
    ]


def run(case: Case) -> Case:
    """Return iterations, size of the support and the certified gap."""
    X, y = two_clouds(case["m"], N_FEATURES, seed=17)
    problem = PolytopeDistanceDual(Linear(X), y, chi=case["chi"])
    tol = case["epsilon"] * (2.0 - case["epsilon"])  # lower / upper = (1 - epsilon)^2
    result = solve(problem, case["method"], tol=tol, max_iter=MAX_ITERATIONS)
    return {
        "iterations": result.n_iter,
        "support": len(result.support),
        "gap": float(result.certificate.relative_gap),
        "status": result.status.name,
    }


def check(case: Case, found: Case) -> None:
    """Fail where the smallest case does not come to its gap."""
    assert found["status"] == "OPTIMAL" and 2 <= found["support"] <= case["m"]
