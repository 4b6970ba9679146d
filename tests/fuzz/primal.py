"""Objectives in w and b in extended precision: of primal formulations, and of stored models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.kernels import EPS, matrix_of
from tests.fuzz.problem import TUBE_FAMILIES, Problem
from tests.fuzz.quadratic import Value, penalties, translated


@dataclass
class Machine:
    """Features F of the points, with f = F v + b, and what the penalty of v is.

    `penalty` is "square" for v'v/2, "gram" for v'F v/2 and "l1" for the sum of |v|.
    """

    F: np.ndarray
    F_error: np.ndarray  # of an entry, by row and column: outer product of the two
    F_unit: float
    y: np.ndarray
    C: np.ndarray
    bias: bool
    penalty: str
    loss: str
    epsilon: float = 0.0
    origin: np.ndarray | None = None  # which features are measured from

    def split(self, x: Any) -> tuple[np.ndarray, Any]:
        """Return v and the bias at the origin of F, from the declared variable."""
        x = np.asarray(x, dtype=np.longdouble)
        v, b = (x[:-1], x[-1]) if self.bias else (x, np.longdouble(0.0))
        return v, self.at_origin(v, b)

    def at_origin(self, v: np.ndarray, b: Any) -> Any:
        """Return the bias of the moved points."""
        return b if self.origin is None else b + self.origin @ v

    def value(self, v: np.ndarray, b: Any) -> Value:
        """Return the objective with a bound on its error."""
        f = self.F @ v + b
        size = np.abs(self.F) @ np.abs(v) + abs(b)
        if self.origin is not None:
            size = size + np.abs(self.origin) @ np.abs(v)
        error = (len(v) + 8) * EPS * size
        error = error + self.F_error * (self.F_error @ np.abs(v) if len(v) == len(f) else 0.0)
        error = error + self.F_unit * np.abs(v).sum() + 4 * EPS * np.abs(self.y)
        if self.penalty == "square":
            own, own_error = 0.5 * (v @ v), (len(v) + 4) * EPS * (v @ v)
        elif self.penalty == "gram":
            own, own_error = 0.5 * (v @ (f - b)), np.abs(v) @ error
        else:
            own, own_error = np.abs(v).sum(), (len(v) + 4) * EPS * np.abs(v).sum()
        q = self.y - f if "tube" in self.loss else 1.0 - self.y * f
        here = self.C > 0
        if self.loss == "squared":
            loss = self.C[here] @ q[here] ** 2
            loss_error = self.C[here] @ (2 * np.abs(q[here]) * error[here] + error[here] ** 2)
        elif self.loss == "squared tube":  # with half of C, and a penalty of the bias
            missed = np.maximum(np.abs(q) - self.epsilon, 0.0)[here]
            loss = 0.5 * (self.C[here] @ missed**2) + 0.5 * b * b
            loss_error = self.C[here] @ (missed * error[here] + error[here] ** 2)
        else:
            missed = np.maximum(np.abs(q) - self.epsilon if self.loss == "tube" else q, 0.0)
            doubtful = missed[here] > error[here]
            with np.errstate(invalid="ignore"):
                loss = np.where(doubtful, self.C[here] * missed[here], 0.0).sum()
                loss_error = np.where(
                    np.isinf(self.C[here]), 0.0, self.C[here] * 2 * error[here]
                ).sum()
        total = own + loss
        rounding = (len(f) + 8) * EPS * (abs(own) + (loss if np.isfinite(loss) else 0.0))
        return Value(float(total), float(own_error + loss_error + rounding))

    def lower(self, a: Any) -> float:
        """Return the value of the dual at weights a, made feasible, less its error."""
        a = np.asarray(a, dtype=np.longdouble)
        if self.loss == "hinge":
            a = np.clip(a, 0.0, self.C)
        a = np.where(self.C > 0, a, 0.0)
        if self.bias:
            a = balanced(a, self.y, self.C, self.loss == "hinge")
        s = self.y * a
        if self.penalty == "gram":
            f = self.F @ s
            square, scale = s @ f, 1.0
            lost = (len(a) + 8) * EPS * (np.abs(s) @ (np.abs(self.F) @ np.abs(s)))
            lost += (self.F_error @ np.abs(s)) ** 2 + self.F_unit * np.abs(s).sum() ** 2
        else:
            v, size = self.F.T @ s, np.abs(self.F).T @ np.abs(s)
            error = (len(a) + 8) * EPS * size
            if len(v) == len(s):
                error = error + self.F_error * (self.F_error @ np.abs(s))
            error = error + self.F_unit * np.abs(s).sum()
            if self.penalty == "l1":
                steepest = float((np.abs(v) + error).max(initial=0.0))
                return float(a.sum() / max(1.0, steepest)) * (1.0 - len(a) * 4 * EPS)
            square, lost = v @ v, 2 * (error @ np.abs(v)) + error @ error + 4 * EPS * (v @ v)
        linear = a.sum()
        if self.loss == "squared":
            here = self.C > 0
            quarter = (a[here] ** 2 / (4 * self.C[here])).sum()
            curve, scale = 0.5 * (square + lost) + quarter * (1 + len(a) * EPS), 1.0
        else:
            curve, scale = 0.5 * (square + lost), 1.0
        if linear > 0 and curve > 0 and self.loss == "squared":
            scale = linear / (2 * curve)  # along the ray
        elif linear > 0 and curve > 0:
            scale = min(1.0, float(linear / (2 * curve)))
        found = scale * linear - scale * scale * curve
        return float(found) - (len(a) + 4) * 4 * EPS * float(np.abs(a).sum() * scale)


def balanced(a: np.ndarray, y: np.ndarray, C: np.ndarray, bounded: bool) -> np.ndarray:
    """Return weights with y'a = 0: the heavier side is scaled down, twice for the digits."""
    for _ in range(2):
        excess = y @ a
        if bounded:
            side = (y * np.sign(excess) > 0) & (a > 0)
            total = a[side].sum()
            if total > 0:
                a = np.where(side, a * (1.0 - min(abs(excess) / total, 1.0)), a)
        elif (C > 0).any():
            a = a - np.where(C > 0, y, 0.0) * excess / (C > 0).sum()
    return a


def machine_of(problem: Problem) -> Machine:
    """Return the machine of a primal formulation."""
    family, given = problem.family, problem.parameters
    y = np.asarray(given["y"], dtype=np.longdouble)
    loss = "squared" if family == "ls_svm" else "hinge"
    C, bias = penalties(problem), given["bias"]
    if problem.takes_points or expects_features(problem):
        X = np.asarray(problem.X, dtype=np.longdouble)
        origin = X.mean(axis=0) if bias else None
        X = X if origin is None else X - origin
        penalty = "l1" if family == "lp_svm" else "square"
        return Machine(X, np.zeros(len(X)), 0.0, y, C, bias, penalty, loss, origin=origin)
    kernel = matrix_of(problem.kernel, problem.settings, problem.X, False)
    if family == "lp_svm":  # the rows of K replace the points
        F = np.where(C > 0, kernel.K, 0.0)
        return Machine(F, kernel.size, kernel.unit, y, C, bias, "l1", loss)
    kernel = matrix_of(problem.kernel, problem.settings, problem.X, bias)
    return Machine(kernel.K, kernel.size, kernel.unit, y, C, bias, "gram", loss)


def expects_features(problem: Problem) -> bool:
    """Return whether the variable of a primal family holds w itself, as of points and linear kernels."""
    return problem.kernel == "linear" and problem.family != "lp_svm"


def linear_machine(problem: Problem) -> Machine:
    """Return the machine of a model on a linear kernel: its w and b are stored as such."""
    given = problem.parameters
    X = np.asarray(problem.X, dtype=np.longdouble)
    origin = X.mean(axis=0) if translated(problem) else None
    X = X if origin is None else X - origin
    loss = "squared" if problem.family == "ls_svm" else "hinge"
    if problem.family in TUBE_FAMILIES:
        loss = "squared tube" if problem.family == "l2_svr" else "tube"
    y = np.asarray(given["y"], dtype=np.longdouble)
    bias = problem.family == "nu_svr" or given["bias"]
    return Machine(
        X, np.zeros(len(X)), 0.0, y, penalties(problem), bias, "square", loss,
        float(given.get("epsilon", 0.0)), origin,
    )  # fmt: skip
