"""Jung, O'Leary and Tits, figures 5.2 to 5.5: iterations and rows of Q against q_U, and along a run.

Letter (Z against the rest) and waveform (40 attributes, the first class) in second-order features,
normalized by (5.2), and isolet (1,560 of its points, the last letter) in its own. The form is the printed
one, `reduction="paper"`, whose safeguard raises q_U after short steps, and the default one.
"""

from __future__ import annotations

import numpy as np

from docs.papers.make.runs import Case
from problems.clouds import two_clouds
from qpsvm import HingePrimal, solve
from qpsvm.data import load_libsvm

PAGE_TITLE = "Rows of the normal matrix"
ROW_SHARES = (1.0, 0.5, 0.2, 0.1, 0.05)
ROW_VARIANTS = {
    "omega, adaptive, balanced": {},
    "omega, adaptive, not balanced": {"balanced": False},
    "omega, fixed, balanced": {"adaptive": False},
    "one-sided, adaptive, balanced": {"constraint_choice": "one-sided"},
}
DATA_SETS = ("waveform", "isolet", "letter")


def cases(quick: bool = False) -> list[Case]:
    """Return sets, variants and q_U as a share of the points."""
    if quick:
        return [{"set": "drawn", "variant": name, "share": 0.2} for name in ROW_VARIANTS]
    return [
        {"set": name, "variant": variant, "share": share}
        for name in DATA_SETS
        for variant in ROW_VARIANTS
        for share in ROW_SHARES
    ]


def second_order(X: np.ndarray) -> np.ndarray:
    """Return the features of (x'z + 1)^2 but the constant one, (5.1)."""
    i, j = np.triu_indices(X.shape[1], 1)
    root = np.sqrt(2.0)
    return np.hstack([X**2, root * X[:, i] * X[:, j], root * X])


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points, normalized by (5.2), and labels."""
    if name == "drawn":
        return two_clouds(400, 4, seed=1, distance=2.0)
    file, label = {"letter": ("letter.scale", 26), "waveform": ("waveform40", 0),
                   "isolet": ("isolet1560", 26)}[name]  # fmt: skip
    X, y = load_libsvm(file)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    X = X if name == "isolet" else second_order(X)
    return X / np.abs(X).max(), np.where(y == label, 1.0, -1.0)


def run(case: Case) -> Case:
    """Return iterations and the mean share of rows, as printed and by default."""
    X, y = data(case["set"])
    found = {}
    for form in ("paper", "preconditioner"):
        result = solve(
            HingePrimal(X, y), "crsvm", tol=1e-8, max_iter=200, reduction=form, sift=False,
            q_upper=float(case["share"]), **ROW_VARIANTS[case["variant"]],
        )  # fmt: skip
        found |= {
            f"{form} iterations": result.n_iter,
            f"{form} rows": round(result.counters["rows"] / result.n_iter / len(y), 3),
            f"{form} gap": float(f"{result.certificate.relative_gap:.1e}"),
        }
    return found


def check(case: Case, found: Case) -> None:
    """Fail where the smallest case does not end."""
    assert found["preconditioner gap"] <= 1e-8 and found["paper gap"] <= 1e-8
