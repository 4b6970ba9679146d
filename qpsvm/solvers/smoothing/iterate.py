"""The iterates of a smoothed problem in `nesvm` and `homotopy-nesvm`, and the best point so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.margin import MarginProblem, Products
from qpsvm.solvers.smoothing.smoothed_loss import divergence, smoothed

Vector = NDArray[np.float64]

SOLVED_GAP_FACTOR = 1.1
"""A smoothed problem is solved when the gap is at most this many times the gap due to its smoothing."""

PROXIMAL_ERROR_FRACTION = 0.9
"""With a moving center, a smoothed problem is solved when |w - v|^2, twice its own gap, is at most this
fraction of the squared distance of the weights from the center. Below 1 proximal point steps converge."""

CURVATURE_REDUCTION = 0.5
"""Factor by which the curvature is reduced after a restart and at a new smoothing."""

LEAST_CURVATURE = float(np.finfo(float).tiny)
"""Least curvature of a step, which divides by it: points near 0 and restarts would let it underflow."""


@dataclass
class NesterovState:
    """The best point so far, and the iterates of one smoothed problem."""

    x: Vector  # best primal and best dual point, as MarginProblem joins them
    product: Products  # of x
    mu: float
    d: Vector  # smoothing weights, positive
    bound: float  # largest eigenvalue of sum C_i x_i x_i' / d_i, centered where there is a bias
    curvature: float  # l: bound / mu, or less while the steps allow it
    w: Vector  # point of the gradient, with momentum
    values: Vector  # its w'x_i
    b: float  # best bias of the smoothed problem at w
    a: Vector  # C u at (w, b)
    v: Vector  # sum a_i y_i x_i
    center: Vector  # u at which the smoothing term is zero: 0 in the paper
    y: Vector  # end of the gradient step
    y_values: Vector
    k: int = 0  # steps since the last restart
    primal: float = np.inf  # best values so far
    dual: float = -np.inf
    steps: int = 0
    products: int = 0
    restarts: int = 0
    stages: int = 0
    announced: bool = False
    smoothing_gap: float = np.inf  # part of the gap at w that is due to the smoothing
    last_smoothing_gap: float = np.inf  # the same at the end of the last stage

    @property
    def counters(self) -> dict[str, int]:
        """Products with X, X' or K; restarts; smaller smoothings."""
        return {"product": self.products, "restart": self.restarts, "stage": self.stages}

    @property
    def largest_curvature(self) -> float:
        """The curvature that suffices everywhere: bound / mu, at least a number to divide by."""
        return max(self.bound / self.mu, LEAST_CURVATURE)

    def smooth(self, problem: MarginProblem, mu: float) -> None:
        """Begin a smoothed problem at w.

        The curvature is kept: 1 / mu grows, but the middle zone loses points in proportion. Steps
        increase the curvature where it is too small.
        """
        self.mu, self.width, self.k = mu, mu * self.d, 0
        bound = self.largest_curvature
        self.curvature = min(self.curvature, bound) if self.curvature > 0.0 else bound
        self.compute_gradient(problem)

    def compute_gradient(self, problem: MarginProblem) -> None:
        """Set b, a and v of the point w."""
        self.b = self.weights(problem, self.values, self.b, self.a)
        self.v = problem.features.combine(problem.y * self.a)
        self.products += problem.features.adjoint

    def weights(self, problem: MarginProblem, values: Vector, b: float, a: Vector) -> float:
        """Write C u to `a`; return the best bias of the smoothed problem."""
        clipped = problem.loss == "hinge"
        return smoothed(
            values, problem.y, problem.C, self.width, self.center, clipped, problem.bias, b, a
        )

    def step(self, problem: MarginProblem, restart: bool) -> None:
        """Make one step of (33) to (35)."""
        features = problem.features
        bound = self.largest_curvature
        while True:
            y = gradient_step(problem.penalty, self.w, self.v, self.curvature)
            values = features.values(y)
            self.products += 1
            if not restart or self.curvature >= bound:
                break
            moved = y - self.w
            square = float(moved @ features.paired(moved, values - self.values))
            change = divergence(
                self.values, values, problem.y, problem.C, self.width, self.center,
                problem.loss == "hinge", self.b,
            )  # fmt: skip
            if square <= 0.0 or 2.0 * change <= self.curvature * square * (1.0 + 1e-9):
                break
            self.curvature = min(max(1.5 * self.curvature, 2.0 * change / square), bound)
        moved, moved_values = y - self.y, values - self.y_values
        back = self.w - y
        if restart and float(back @ features.paired(moved, moved_values)) > 0.0:
            self.k, momentum = 0, 0.0
            self.curvature = max(self.curvature * CURVATURE_REDUCTION, LEAST_CURVATURE)
            self.restarts += 1
        else:
            momentum = self.k / (self.k + 3.0)
            self.k += 1
        self.w, self.values = y + momentum * moved, values + momentum * moved_values
        self.y, self.y_values = y, values
        self.compute_gradient(problem)
        self.steps += 1

    def closed(self, target: float) -> bool:
        """Return whether the relative gap of the best pair is at most 0.45 times `target`."""
        return self.primal - self.dual <= 0.45 * target * self.primal

    def assess(self, problem: MarginProblem, recenter: bool) -> bool:
        """Keep the best points; return whether the smoothed problem is solved.

        That is, accurately enough for a smaller mu or, with `recenter`, for another center.
        """
        features = problem.features
        paired, values = self.v, None
        if problem.penalty == "l2":
            values = features.values(self.v)
            paired = features.paired(self.v, values)
            self.products += 1
        t = problem.best_scale(self.a, self.v, paired)
        a = np.minimum(t * self.a, problem.C) if problem.loss == "hinge" else t * self.a
        dual = problem.dual_value(a, t * self.v, t * paired)
        if dual > self.dual:
            self.dual = dual
            self.x[problem.n + 1 :] = a
            self.product = self.product._replace(v=t * self.v, paired=t * paired)
        best = np.inf
        candidates = [(self.w, self.values), (self.y, self.y_values)]
        candidates += [] if values is None else [(self.v, values)]
        scratch = np.empty(problem.m)
        for w, w_values in candidates:
            b = self.weights(problem, w_values, self.b, scratch)
            primal = problem.value(w, b, w_values)
            best = min(best, primal)
            if primal < self.primal:
                self.primal = primal
                self.x[: problem.n], self.x[problem.n] = w, b
                self.product = self.product._replace(values=w_values.copy())
        if problem.loss == "squared":
            return False
        q = 1.0 - problem.y * (self.values + self.b)
        gaps = (problem.C - self.a) * np.maximum(q, 0.0) + self.a * np.maximum(-q, 0.0)
        self.smoothing_gap = float(np.sum(gaps))
        if not recenter or problem.penalty == "l1":
            return best - dual <= SOLVED_GAP_FACTOR * self.smoothing_gap
        error = float((self.w - self.v) @ (features.paired(self.w, self.values) - paired))
        u = self.a / problem.C - self.center
        return error <= PROXIMAL_ERROR_FRACTION * float((problem.C * self.width) @ (u * u))


def gradient_step(penalty: str, w: Vector, v: Vector, curvature: float) -> Vector:
    """Return the minimizer of R(y) - v'(y - w) + curvature/2 |y - w|^2."""
    if penalty == "l2":
        return w + (v - w) / (curvature + 1.0)
    free = w + v / curvature
    return np.sign(free) * np.maximum(np.abs(free) - 1.0 / curvature, 0.0)
