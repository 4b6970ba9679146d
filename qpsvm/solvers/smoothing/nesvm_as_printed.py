"""NESVM as printed (Zhou, Tao and Wu 2010, Algorithms 1 and 2), for comparison.

It differs from `smoothing.nesvm`, which gives the reasons, by the constants (21), (48), (52) and (56),
a prox center w_star different from the start, the bias as a coordinate (37), and a smoothed |w|_1 (23).
The threshold of (10) is not copied, as (6) contradicts it. Algorithm 2 ends a stage where F_mu changes by
less than `EPS_STAGE`, and uses mu0 twice. The stopping rules of the paper are those of `change_tol`;
without it the loop stops by the certified gap, as for every method.

With a kernel the points are the rows of K and w the coefficients c of sum c_j phi(x_j), with Euclidean
steps (section II-C). The printed penalty w'Kw belongs to c, and the printed values KYw to Yc: the penalty
here is that of the values, 1/2 c'Kc (`tests/papers/test_zhou.py`). The paper gives no constant for it;
the largest eigenvalue of K takes the place of the 1 in (48).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.margin import MarginProblem, Products
from qpsvm.errors import check_vector
from qpsvm.gram.feature_map import CoefficientFeatures, Features, GramFeatures
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

EPS_STAGE = 1e-3
"""The paper's epsilon."""


@dataclass
class PrintedState:
    """The iterates of Algorithm 1, bias included as the last coordinate (37)."""

    x: Vector
    product: Products
    features: Features  # of the steps: for a kernel the rows of K
    penalty_curvature: float  # of R(w), smoothed
    mu: float
    d: Vector  # |x_i|_inf, of [x_i, 1] where there is a bias
    wb: Vector  # w^k
    values: Vector  # [X, e] w^k
    center: Vector  # w_star
    total: Vector  # sum (i + 1)/2 grad F_mu(w^i)
    smooth_value: float = np.inf  # F_mu(w^k)
    k: int = 0
    steps: int = 0
    products: int = 0
    stages: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """Products with X or X', and smaller smoothings."""
        return {"product": self.products, "restart": 0, "stage": self.stages}


def start_as_printed(problem: MarginProblem, solver: Any, x0: Vector | None) -> PrintedState:
    """Return the state at w0 = x0, by default 0, with the prox center w_star."""
    features, penalty_curvature = problem.features, 1.0
    if isinstance(features, GramFeatures):
        penalty_curvature = features.curvature(np.ones(problem.m), centered=False)
        features = CoefficientFeatures(features.gram, features.K)
    start = np.zeros(problem.n + 1 + problem.m) if x0 is None else problem.repair(x0)
    center = np.zeros(problem.n + 1)
    if solver.w_star is not None:
        given = check_vector("w_star", solver.w_star, problem.n + problem.bias)
        center[: len(given)] = given
    d = features.sizes
    d = np.maximum(d, 1.0) if problem.bias else np.where(d > 0.0, d, 1.0)
    x, product = problem.feasible(start, problem.product(start))
    wb = start[: problem.n + 1].copy()
    mu = solver.first_mu(problem, d, np.inf, 0.0)
    values = product.values + wb[-1]
    return PrintedState(
        x, product, features, penalty_curvature, mu, d, wb, values, center, np.zeros(len(wb))
    )


@np.errstate(over="ignore", invalid="ignore")  # (56) diverges
def advance_as_printed(
    problem: MarginProblem, solver: Any, state: PrintedState, n_steps: int
) -> Reply:
    """Make steps (33) to (35), to the printed stop where it is asked for."""
    for step in range(n_steps):
        L = lipschitz(problem, state)
        gradient, _ = slope(problem, state)
        y = state.wb - gradient / L
        state.total += 0.5 * (state.k + 1) * gradient
        z = state.center - state.total / L
        state.wb = 2.0 / (state.k + 3) * z + (state.k + 1) / (state.k + 3) * y
        state.k += 1
        state.values = state.features.values(state.wb[:-1]) + state.wb[-1]
        state.products += 2
        if not np.isfinite(state.values).all():
            return Reply(step, Stop.NUMERICAL)
        before, state.smooth_value = state.smooth_value, smooth_value(problem, state)
        state.steps += 1
        if abs(before - state.smooth_value) < (solver.change_tol or EPS_STAGE):
            mu = state.mu
            if solver.homotopic and state.stages > 0:  # mu0 is used twice: (44) comes before t + 1
                mu = solver.next_mu(mu, state.stages - 1)
            is_last = not solver.homotopic or (state.stages > 0 and mu == state.mu)
            if solver.change_tol is not None and is_last:
                set_answer(problem, state)
                return Reply(step + 1, Stop.STALLED)
            if solver.homotopic:
                state.mu, state.k, state.smooth_value = mu, 0, np.inf
                state.stages += 1
                state.total[:] = 0.0
        if state.steps % 16 == 0 or state.steps & (state.steps - 1) == 0:
            set_answer(problem, state)
    return Reply(n_steps, Stop.BUDGET)


def set_answer(problem: MarginProblem, state: PrintedState) -> None:
    """Set x to w^k and its weights, repaired."""
    _, a = slope(problem, state)
    x = problem.repair(problem.join(state.wb[:-1], state.wb[-1], a))
    v = problem.features.combine(problem.y * problem.split(x).a)
    state.products += 1
    values = state.values - state.wb[-1]
    state.x[:], state.product = problem.feasible(x, Products(values, v, v))


def slope(problem: MarginProblem, state: PrintedState) -> tuple[Vector, Vector]:
    """Return the gradient (47), (51) or (55) at w^k, and the weights C u."""
    q = 1.0 - problem.y * state.values
    if problem.loss == "hinge":
        a = problem.C * np.clip(q / (state.mu * state.d), 0.0, 1.0)
    else:
        a = 2.0 * problem.C * q
    w = state.wb[:-1]
    if problem.penalty == "l2":
        penalty = problem.features.paired(w, state.values - state.wb[-1])
    else:
        penalty = np.clip(w / state.mu, -1.0, 1.0)
    signed = problem.y * a
    at_b = -float(np.sum(signed)) if problem.bias else 0.0
    return np.append(penalty - state.features.combine(signed), at_b), a


def smooth_value(problem: MarginProblem, state: PrintedState) -> float:
    """Return F_mu(w^k), with the threshold 1 - mu d_i where (10) prints 1 - mu."""
    q = 1.0 - problem.y * state.values
    w = state.wb[:-1]
    if problem.loss == "hinge":
        u = np.clip(q / (state.mu * state.d), 0.0, 1.0)
        loss = u * q - 0.5 * state.mu * state.d * u * u
    else:
        loss = q * q
    if problem.penalty == "l2":
        penalty = 0.5 * w @ problem.features.paired(w, state.values - state.wb[-1])
    else:
        u = np.clip(w / state.mu, -1.0, 1.0)
        penalty = u @ w - 0.5 * state.mu * (u @ u)
    return float(penalty) + float(problem.C @ loss)


def lipschitz(problem: MarginProblem, state: PrintedState) -> float:
    """Return the constant as printed: (48), (52) or (56)."""
    square = state.features.lengths**2 + (1.0 if problem.bias else 0.0)
    if problem.loss == "squared":
        return state.penalty_curvature + 2.0 * float(np.max(problem.C * square))
    steepest = problem.m / state.mu * float(np.max(problem.C * square / state.d))
    return steepest + (state.penalty_curvature if problem.penalty == "l2" else 1.0 / state.mu)
