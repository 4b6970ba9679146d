"""Jung, O'Leary and Tits, figures 5.2 to 5.4: iterations, rows and seconds against q_U.

The sets of section 5.1 (`supports.py` has the data). Each variant runs as printed, with no corrections
but Mehrotra's, from the printed start; once with no safeguard and once with the one that raises q_U after
short steps; and in the default form, M_Q as a preconditioner. Seconds are relative to those of
the unreduced method in the same run: the forms take turns, and the least of `N_ROUNDS` counts.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np

from docs.papers.make.runs import Case
from docs.papers.make.supports import data
from qpsvm import HingePrimal, solve
from qpsvm.result import Result
from qpsvm.solvers.interior_point import crsvm

PAGE_TITLE = "Rows of the normal matrix"
ROW_SHARES = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
ROW_VARIANTS: dict[str, Case] = {
    "omega, adaptive, balanced": {},
    "omega, adaptive, not balanced": {"balanced": False},
    "omega, fixed, balanced": {"adaptive": False},
    "one-sided, adaptive, balanced": {"constraint_choice": "one-sided"},
}
DATA_SETS = ("isolet", "mushrooms", "waveform", "letter")
PRINTED_FORM = {"correctors": 0, "start": "paper"}
ROW_FORMS: dict[str, Case] = {
    "printed": PRINTED_FORM | {"reduction": "paper"},
    "safeguard": PRINTED_FORM | {"reduction": "paper"},
    "default": {},
}
UNREDUCED_FORM = PRINTED_FORM | {"reduction": None}
N_ROUNDS = 2
GAP_TOLERANCE, MAX_ITERATIONS = 1e-8, 200


def cases(quick: bool = False) -> list[Case]:
    """Return sets, variants and q_U as a share of the points."""
    if quick:
        return [{"set": "drawn", "variant": name, "share": 0.5} for name in ROW_VARIANTS]
    return [
        {"set": name, "variant": variant, "share": share}
        for name in DATA_SETS
        for variant in ROW_VARIANTS
        for share in ROW_SHARES
    ]


def timed(problem: HingePrimal, form: str, options: Case) -> tuple[Result, float]:
    """Return the answer of a form and its seconds; without the safeguard Q never grows."""
    growth = 1.0 if form == "printed" else crsvm.ROW_GROWTH
    with mock.patch.object(crsvm, "ROW_GROWTH", growth):
        begun = time.perf_counter()
        result = solve(
            problem, "crsvm", tol=GAP_TOLERANCE, max_iter=MAX_ITERATIONS, sift=False, **options
        )
        return result, time.perf_counter() - begun


def run(case: Case) -> Case:
    """Return iterations, the mean share of rows, and seconds relative to the unreduced method."""
    X, y = data(case["set"])
    problem = HingePrimal(X, y)
    varied = {"q_upper": float(case["share"]), **ROW_VARIANTS[case["variant"]]}
    forms = {name: options | varied for name, options in ROW_FORMS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ("unreduced", *forms)}
    found: dict[str, Any] = {}
    for _ in range(N_ROUNDS):
        result, lasted = timed(problem, "unreduced", UNREDUCED_FORM)
        seconds["unreduced"].append(lasted)
        found["unreduced iterations"] = result.n_iter
        for name, options in forms.items():
            if name in found and found[f"{name} gap"] > GAP_TOLERANCE:
                continue  # one run says that it does not end
            result, lasted = timed(problem, name, options)
            seconds[name].append(lasted)
            gap = result.certificate.relative_gap
            found |= {
                f"{name} iterations": result.n_iter,
                f"{name} rows": round(result.counters["rows"] / max(result.n_iter, 1) / len(y), 3),
                f"{name} gap": float(f"{min(gap, 1e9):.1e}"),
            }
    for name in forms:
        found[f"{name} time"] = round(min(seconds[name]) / min(seconds["unreduced"]), 2)
    return found


def check(case: Case, found: Case) -> None:
    """Fail where the smallest case does not end."""
    assert all(found[f"{form} gap"] <= GAP_TOLERANCE for form in ("safeguard", "default"))
    assert np.isfinite(found["default time"])
