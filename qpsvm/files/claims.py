"""The claims of a result file, compared with what an evaluation of its answer proves.

This file is a part of the verification and imports nothing of the library beside its other parts: see
`qpsvm.files.verification`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.files.dual_bounds import distance
from qpsvm.files.evaluation import Evaluated
from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, lengths

MAX_VIOLATION_SHARE = 1e-9
"""Largest violation of a constraint, in shares of the sum of the weights, of a feasible answer."""

MAX_FLOOR_SHARE = 1e-6
"""Largest size, in shares of the data, below which a value counts as zero: float32 gives 5e-7."""


class Report:
    """Lines and the verdict, as they are found."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ok = True

    def say(self, text: str) -> None:
        """Add a line that claims nothing."""
        self.lines.append(text)

    def check(self, holds: Any, text: str, otherwise: str = "") -> bool:
        """Add a line for a claim, and what it fails by where it does."""
        holds = bool(holds)
        self.ok = self.ok and holds
        self.lines.append(text if holds else f"FAILED: {text}{otherwise and f'; {otherwise}'}")
        return holds


def check_convexity(
    name: str, matrix: KernelMatrix, formulation: str, data: dict[str, Any], report: Report
) -> bool:
    """Say whether the matrix is positive semidefinite, on which lower bounds rest."""
    known = matrix.name in ("linear", "rbf", "laplacian", "matrix")
    known = known or (matrix.name == "polynomial" and matrix.parameters["coef0"] >= 0)
    if known or formulation == "LPSVMPrimal":
        return True
    least = matrix.least_eigenvalue()
    if least is None:
        report.say(
            f"{name}: that the kernel matrix is positive semidefinite is assumed, not checked: it has "
            f"{matrix.m:,} rows."
        )
        return True
    value, zero = least
    ridge = _least_ridge(formulation, data)
    if value >= -max(zero, ridge):
        report.say(
            f"{name}: the kernel matrix is positive semidefinite: least eigenvalue {value:.2g}."
        )
        return True
    report.say(
        f"{name}: the kernel matrix has the eigenvalue {value:.3g}: there is no lower bound."
    )
    return False


def _least_ridge(formulation: str, data: dict[str, Any]) -> float:
    """Return what the slacks add to the diagonal of the quadratic term at least."""
    if formulation in ("L2SVMDual", "L2SVRDual"):
        return float(np.min(1.0 / data["C"][data["C"] > 0]))
    chi = data.get("chi")
    return 0.0 if chi is None else 1.0 / float(chi)


def compare(
    name: str, found: Evaluated, result: Any, convex: bool, matrix: Any, data: Any, report: Report
) -> None:
    """Compare the recomputed bounds with those of the file, and its status with its tolerance."""
    claimed = result["certificate"]
    upper, lower, gap, tol = (float(claimed[key]) for key in ("upper", "lower", "gap", "tol"))
    roundoff, floor = float(claimed["roundoff"]), float(claimed["floor"])
    optimal = result["status"] == "OPTIMAL"
    if result["status"] == "INFEASIBLE":
        _check_direction(name, result["direction"], matrix, data, report)
        return
    allowance = found.upper_error + found.lower_error
    limit = MAX_VIOLATION_SHARE * found.scale
    report.check(
        found.violation <= max(limit, 0.0),
        f"{name}: the answer is feasible up to {found.violation:.2g}.",
        f"{limit:.2g} is allowed",
    )
    top = found.upper_error + roundoff + 4.0 * FLOAT64_EPS * abs(upper)
    report.check(
        -top <= upper - found.upper <= top + (gap if np.isfinite(gap) else 0.0),
        f"{name}: its value is {found.upper:.12g}, claimed {upper:.12g}.",
        f"the difference is {found.upper - upper:.3g}, rounding allows {top:.2g}",
    )
    if lower == -np.inf:
        report.check(not optimal, f"{name}: no lower bound is claimed.")
        return
    if not convex:
        report.check(False, f"{name}: the claimed lower bound {lower:.12g} holds.")
        return
    bottom = found.lower_error + roundoff + 4.0 * FLOAT64_EPS * abs(lower)
    report.check(
        found.lower >= lower - bottom,
        f"{name}: it is at least {found.lower:.12g}, claimed {lower:.12g}.",
        f"the difference is {lower - found.lower:.3g}, rounding allows {bottom:.2g}",
    )
    proved = max(found.upper - found.lower, 0.0)
    report.check(
        proved <= gap + top + bottom,
        f"{name}: the gap is at most {proved:.3g} up to rounding of {allowance:.2g}, claimed {gap:.3g}.",
    )
    consistent = gap >= roundoff >= 0.0 and upper - lower <= gap + 8.0 * FLOAT64_EPS * abs(upper)
    report.check(consistent, f"{name}: the claimed gap includes the claimed bounds and roundoff.")
    if not optimal:
        report.say(f"{name}: the file claims no optimum; its status is {result['status']}.")
        return
    size = max(abs(upper), abs(lower))
    if claimed["test"] == "absolute":
        scale = _scale_of(found, matrix)
        small = gap <= floor and min(abs(upper), abs(lower)) <= floor <= MAX_FLOOR_SHARE * scale
        report.check(small, f"{name}: value and gap are zero at the size of the data, {scale:.3g}.")
        return
    report.check(
        0.0 < tol <= 1.0 and gap <= tol * size,
        f"{name}: it is optimal at tol = {tol:g}: the claimed gap is {gap / size if size else 0.0:.3g} "
        "of the larger bound.",
    )


def _check_direction(name: str, a: Any, matrix: Any, data: Any, report: Report) -> None:
    """Check weights that show the hulls of both classes to have a point in common."""
    y = data["y"]
    group = (y < 0).astype(np.int64) if data["bias"] else np.zeros(len(y), np.int64)
    centered = matrix.centered() if data["bias"] else matrix
    found = distance(centered, np.asarray(a, np.float64), y, np.ones(len(y)), group, None)
    zero = 16.0 * (found.upper_error + FLOAT64_EPS * _scale_of(found, centered))
    report.check(
        found.upper <= zero and found.violation <= MAX_VIOLATION_SHARE,
        f"{name}: no hyperplane separates the classes: half the squared distance of two points of their "
        f"hulls is {found.upper:.3g}, zero is {zero:.2g}.",
    )


def _scale_of(found: Evaluated, matrix: KernelMatrix) -> float:
    """Return the size of the data: the largest diagonal entry times the square of the weights' sum."""
    if matrix.name == "matrix":
        X: NDArray[Any] = matrix.X
        return float(np.max(lengths(X))) ** 2 * found.scale**2
    return float(np.max(matrix.diagonal().values)) * found.scale**2
