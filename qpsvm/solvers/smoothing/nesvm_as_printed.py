"""NESVM as printed (Zhou, Tao and Wu 2010, Algorithms 1 and 2), for comparison.

It differs from `smoothing.nesvm`, which gives the reasons, by the constants (21), (48), (52) and (56),
a prox center w_star different from the start, the bias as a coordinate (37), and a smoothed |w|_1 (23).
The threshold of (10) is not copied, as (6) contradicts it; the kernel variant is refused. Algorithm 2
ends a stage where F_mu changes by less than `EPS_STAGE`, and uses mu0 twice. The stopping rule of
Algorithm 1 is not used: the loop stops by the certified gap, as for every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.margin import MarginProblem, Products
from qpsvm.errors import InputError, check_vector
from qpsvm.gram.feature_map import GramFeatures
from qpsvm.solvers.base import Reply, Stop

Vector = NDArray[np.float64]

EPS_STAGE = 1e-3
"""The paper's epsilon."""


@dataclass
class PrintedState:
    """The iterates of Algorithm 1, bias included as the last coordinate (37)."""

    x: Vector
    product: Products
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
    if isinstance(problem.features, GramFeatures):
        raise InputError('variant="paper" takes points or a low-rank Gram; got a kernel')
    start = np.zeros(problem.n + 1 + problem.m) if x0 is None else problem.repair(x0)
    center = np.zeros(problem.n + 1)
    if solver.w_star is not None:
        given = check_vector("w_star", solver.w_star, problem.n + problem.bias)
        center[: len(given)] = given
    d = problem.features.sizes
    d = np.maximum(d, 1.0) if problem.bias else np.where(d > 0.0, d, 1.0)
    x, product = problem.feasible(start, problem.product(start))
    wb = start[: problem.n + 1].copy()
    mu = solver.first_mu(problem, d, np.inf, 0.0)
    values = product.values + wb[-1]
    return PrintedState(x, product, mu, d, wb, values, center, np.zeros(len(wb)))


@np.errstate(over="ignore", invalid="ignore")  # (56) diverges
def advance_as_printed(
    problem: MarginProblem, solver: Any, state: PrintedState, n_steps: int
) -> Reply:
    """Make steps (33) to (35)."""
    for step in range(n_steps):
        L = lipschitz(problem, state.d, state.mu)
        gradient, _ = slope(problem, state)
        y = state.wb - gradient / L
        state.total += 0.5 * (state.k + 1) * gradient
        z = state.center - state.total / L
        state.wb = 2.0 / (state.k + 3) * z + (state.k + 1) / (state.k + 3) * y
        state.k += 1
        state.values = problem.features.values(state.wb[:-1]) + state.wb[-1]
        state.products += 2
        if not np.isfinite(state.values).all():
            return Reply(step, Stop.NUMERICAL)
        before, state.smooth_value = state.smooth_value, smooth_value(problem, state)
        if solver.homotopic and abs(before - state.smooth_value) < EPS_STAGE:
            if state.stages > 0:  # mu0 is used twice: (44) comes before t + 1
                state.mu = solver.next_mu(state.mu, state.stages - 1)
            state.k, state.stages, state.smooth_value = 0, state.stages + 1, np.inf
            state.total[:] = 0.0
        state.steps += 1
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
    penalty = w if problem.penalty == "l2" else np.clip(w / state.mu, -1.0, 1.0)
    signed = problem.y * a
    at_b = -float(np.sum(signed)) if problem.bias else 0.0
    return np.append(penalty - problem.features.combine(signed), at_b), a


def smooth_value(problem: MarginProblem, state: PrintedState) -> float:
    """Return F_mu(w^k), with the threshold 1 - mu d_i where (10) prints 1 - mu."""
    q = 1.0 - problem.y * state.values
    w = state.wb[:-1]
    if problem.loss == "hinge":
        u = np.clip(q / (state.mu * state.d), 0.0, 1.0)
        loss = u * q - 0.5 * state.mu * state.d * u * u
    else:
        loss = q * q
    u = np.clip(w / state.mu, -1.0, 1.0)
    penalty = 0.5 * w @ w if problem.penalty == "l2" else u @ w - 0.5 * state.mu * (u @ u)
    return float(penalty) + float(problem.C @ loss)


def lipschitz(problem: MarginProblem, d: Vector, mu: float) -> float:
    """Return the constant as printed: (48), (52) or (56)."""
    square = problem.features.lengths**2 + (1.0 if problem.bias else 0.0)
    if problem.loss == "squared":
        return 1.0 + 2.0 * float(np.max(problem.C * square))
    steepest = problem.m / mu * float(np.max(problem.C * square / d))
    return steepest + (1.0 if problem.penalty == "l2" else 1.0 / mu)
