"""NESVM: accelerated gradients on a smoothed loss (Zhou, Tao and Wu 2010, Algorithms 1 and 2).

Problem: minimize R(w) + sum C_i loss(q_i), q_i = 1 - y_i (w'x_i + b), with the hinge max(0, q)
smoothed as in (5)::

    u_i = clip(q_i / (mu d_i), 0, 1)                    (6)
    loss_mu = u_i q_i - mu d_i u_i^2 / 2                the middle zone is 0 <= q_i <= mu d_i

The squared loss is its own smoothing, with mu d_i = 1/2 and u_i not clipped. One step from the point
w, with a_i = C_i u_i and v = sum a_i y_i x_i, one product with X' and one with X::

    y_k = w - (w - v) / (l + 1)                 (33), l the curvature of the loss, R = |w|^2 / 2
    z_k = y_k-1 + (k + 2)/2 (y_k - y_k-1)       (34)
    w   = 2/(k + 3) z_k + (k + 1)/(k + 3) y_k   (35)

The returned point is the best of w, y_k and v as primal and of a as dual point, in the true problem.

Differences from the paper as printed. ``variant="paper"`` has its constants, its prox center, its
bias and its norm (`qpsvm.solvers.smoothing.nesvm_as_printed`):

- (10) and (19) place the middle zone above 1 - mu; by (6) it ends at 1 - mu d_i.
- (48) and (52) bound the curvature by m times the largest of all points; here it is the largest
  eigenvalue of sum C_i x_i x_i' / (mu d_i). (56) takes the largest |x_i|^2 instead of the largest
  eigenvalue of X'X: it is too small, and the iterates diverge.
- (34) starts from a guess w_star different from w0. The bound of Theorem 4 needs w_star = w0, and in
  Algorithm 2 a fixed w_star discards the warm start. Here the center is the start of each run.
  The weights of (34) are (k + 2)/2 for (k + 1)/2, which is the form that holds with a proximal step.
- The bias (37) is not a coordinate; the loss is minimized over it exactly at every step. So y'a = 0
  always, and the curvature is that of centered points. The mean of the data does not matter.
- |w|_1 (23) needs no smoothing: its proximal step is a soft threshold.
- "K(X, X)Y in place of X" mixes two parametrizations. Here f = Kc with penalty 1/2 c'Kc, and the
  gradient is taken in that metric: c - a y, one product with K a step.
- The bound is that of y_k, not of w. |F_mu(w_k+1) - F_mu(w_k)| is no error bound: the loop stops by
  the gap, unless `change_tol` asks for the printed stop. Theorem 4 holds for fixed mu; for the hinge
  itself it takes O(1/eps) steps.

Restarts (O'Donoghue and Candes 2015, the gradient scheme) drop the momentum where it increases the
value. The curvature is then reduced, since only points in the middle zone contribute to it. A step for
which it is too small is repeated with a larger one.

`homotopy-nesvm` extends the paper in one more way. Nesterov's smoothing allows any prox center, and
the paper's is 0: mu d_i u_i^2 / 2 is subtracted from the loss. Here it is mu d_i (u_i - c_i)^2 / 2,
u_i = clip(c_i + q_i / (mu d_i), 0, 1), with c the last u of the previous problem. The dual of such
a problem is a proximal point step on the true dual: the gap closes at constant mu and at constant
curvature, which about 0 must grow without bound. A problem is solved when its own gap is less than the
step (the relative error that Solodov and Svaiter, 1999, allow).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Form
from qpsvm.canonical.margin import MarginProblem, Products
from qpsvm.errors import InputError, check_choice, check_number
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.smoothing.iterate import CURVATURE_REDUCTION, NesterovState
from qpsvm.solvers.smoothing.nesvm_as_printed import advance_as_printed, start_as_printed

Vector = NDArray[np.float64]

STEPS_PER_ASSESSMENT = 16
"""Number of steps between two evaluations of the gap; each costs a product for the primal point v."""

MAX_FIRST_WIDTH = 0.7
"""Largest width of the middle zone in the first problem of a homotopy."""

MIN_SMOOTHING = 1e-12
"""Smoothing below which the middle zone is within rounding error."""

UNDERFLOW_SMOOTHING = 1e-150
"""Smoothing that is divided no more: where stages end at once, it would reach 0."""

MAX_FIRST_CURVATURE = 1e3
"""Bound on the curvature of the first smoothed loss, relative to the penalty's, with a moving center:
the smoothing need not be small then."""

KEPT_SMOOTHING_FRACTION = 0.25
"""The smoothing is kept where the move of its center reduces its gap to at most this fraction: to
divide it by 4 would do as much, and doubles the number of steps."""


@dataclass(frozen=True)
class NESVM(Solver):
    """Accelerated gradient on the smoothed problem.

    Attributes
    ----------
    mu : float, optional
        Smoothing of the hinge, of width mu d_i in the margin; for an LP-SVM the paper calls it nu.
        A given mu is kept, and so is the gap due to the smoothing. By default mu is chosen such that
        all points in the middle zone give half of the gap at w = 0, and is divided by 4 whenever
        a smoothed problem is solved before the true gap is closed.
    restart : bool
        Whether the momentum is dropped where it increases the value, and the curvature adapted.
    variant : str
        ``"corrected"``, or ``"paper"`` for Algorithm 1 as printed, with mu = 5 by default.
    w_star : array_like, optional
        Prox center of ``variant="paper"``, w or (w, b) on centered points; 0 by default.
    change_tol : float, optional
        With ``variant="paper"``, the printed stop: it ends where F_mu changes by less than this in a step
        (1e-3 in the paper), and returns the w of that step with its certified gap, as `STALLED` where
        the gap is larger than the tolerance of the solve. Algorithm 2 ends its stages by it, and with
        the stage of mu_star.
    target : float, optional
        Relative gap for which mu is chosen; the tolerance of the solve by default.
    recenter : bool
        Whether a problem is smoothed about the u of the previous one, rather than about 0 as in the
        paper. Then mu decreases only where that alone reduces the gap too little.
    """

    form = MarginProblem
    domains = ()
    homotopic: ClassVar[bool] = False
    is_abandonable: ClassVar[bool] = (
        True  # x and its products are set together, where the gap is assessed
    )

    mu: float | None = None
    restart: bool = True
    variant: str = "corrected"
    w_star: Any = None
    change_tol: float | None = None
    target: float | None = None
    recenter: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("recenter", self.recenter, (True, False))
        check_choice("variant", self.variant, ("corrected", "paper"))
        check_choice("restart", self.restart, (True, False))
        for name in ("mu", "target", "change_tol"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=0.0, open_low=True, finite=True)
        if self.w_star is not None and self.variant != "paper":
            raise InputError(
                'w_star is the center of variant="paper"; the other variant uses its start'
            )
        if self.change_tol is not None and self.variant != "paper":
            raise InputError(
                'change_tol is the stop of variant="paper"; the other variant ends by the gap'
            )

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether the printed stop is asked for."""
        return self.change_tol is not None

    @property
    def scheduled(self) -> bool:
        """Whether the printed stop is asked for: the gap of a fixed smoothing stops decreasing before."""
        return self.change_tol is not None

    def fits(self, problem: Form) -> bool:
        """Return whether the problem is one in the margins."""
        return isinstance(problem, MarginProblem)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver that chooses its smoothing for this gap."""
        return self if self.target is not None else replace(self, target=tol)

    def period(self, problem: MarginProblem) -> int:
        """Return the number of iterations between two checks."""
        return 16 * STEPS_PER_ASSESSMENT

    def default_max_iter(self, problem: MarginProblem) -> int:
        """Return a finite budget: about a minute."""
        return int(np.clip(1e11 / problem.work, 1_000, 1_000_000))

    def first_mu(self, problem: MarginProblem, d: Vector, gap: float, bound: float) -> float:
        """Return the smoothing of the first problem.

        `gap` is that of the start; `bound` / mu bounds the curvature of the smoothed loss.

        At its optimum the gap is sum C_i (hinge_i - u_i q_i) <= mu/4 sum C_i d_i over the middle
        zone, since r (1 - r) <= 1/4 for r = q_i / (mu d_i).
        """
        if self.mu is not None:
            return self.mu
        if self.variant == "paper":
            return 5.0
        zero = np.zeros(problem.m)
        b = problem.best_bias(zero) if problem.bias else 0.0
        value = problem.value(np.zeros(problem.n), b, zero)
        least = 1e-12 * float(problem.C @ d)  # one class: any smoothing suffices
        return 2.0 * (self.target or 1e-3) * max(value, least) / float(problem.C @ d)

    def next_mu(self, mu: float, stage: int) -> float:
        """Return the smoothing that follows mu; mu itself at the last one."""
        fixed = self.mu is not None or self.variant == "paper"
        return mu if fixed else max(0.25 * mu, min(mu, UNDERFLOW_SMOOTHING))

    def init(self, problem: MarginProblem, x0: Vector | None, rng: np.random.Generator) -> Any:
        """Return the state at x0, or at w = 0."""
        if self.variant == "paper":
            return start_as_printed(problem, self, x0)
        w, b = np.zeros(problem.n), 0.0
        a = np.zeros(problem.m)
        if x0 is not None:
            w, b, a = problem.split(problem.repair(x0))
        x = problem.join(w, b, a)
        product = problem.product(x)
        hinge = problem.loss == "hinge"
        d = problem.features.sizes if hinge else np.ones(problem.m)
        d = np.where(d > 0.0, d, 1.0)
        x, product = problem.feasible(x, product)
        best = problem.split(x)
        primal = problem.value(best.w, best.b, product.values)
        dual = problem.dual_value(best.a, product.v, product.paired)
        bound = problem.features.curvature(problem.C / d, problem.bias)
        mu = self.first_mu(problem, d, primal - dual, bound) if hinge else 0.5
        center = best.a / problem.C if hinge and self.recenter else np.zeros(problem.m)
        state = NesterovState(
            x, product, mu=mu, d=d, bound=max(bound, float(np.finfo(float).tiny)),
            curvature=0.0, w=w.copy(), values=product.values.copy(), b=b, a=a.copy(),
            v=product.v, center=center, y=w.copy(), y_values=product.values.copy(),
        )  # fmt: skip
        state.primal, state.dual = primal, dual
        state.smooth(problem, mu)
        return state

    @np.errstate(invalid="ignore", over="ignore")  # steps that diverge end the run
    def advance(self, problem: MarginProblem, state: Any, n_steps: int) -> Reply:
        """Make accelerated steps; evaluate the gap at fixed numbers of them.

        On a Gram that is not positive semidefinite they may diverge.
        """
        if self.variant == "paper":
            return advance_as_printed(problem, self, state, n_steps)
        for step in range(n_steps):
            state.step(problem, self.restart)
            if not np.isfinite(state.values[0] + state.curvature):
                return Reply(step, Stop.NUMERICAL if problem.convex else Stop.NONCONVEX)
            if state.steps % STEPS_PER_ASSESSMENT == 0 or state.steps & (state.steps - 1) == 0:
                solved = state.assess(problem, self.recenter)
                if not state.announced and state.closed(self.target or 0.0):
                    state.announced = True  # once: later the checks of the loop decide
                    return Reply(step + 1, Stop.DONE)
                if solved:
                    self.begin_stage(problem, state)
        return Reply(n_steps, Stop.BUDGET)

    def begin_stage(self, problem: MarginProblem, state: NesterovState) -> None:
        """Begin the next smoothed problem, if there is one, at the end of this one."""
        mu = self.next_mu(state.mu, state.stages)
        if self.recenter:
            mu = state.mu if self.keeps_smoothing(state) else mu
            state.center, state.last_smoothing_gap = state.a / problem.C, state.smoothing_gap
        elif mu == state.mu:
            return
        state.stages += 1
        state.w, state.values = state.y.copy(), state.y_values.copy()
        state.curvature *= CURVATURE_REDUCTION if self.restart else 0.0  # 0: the bound
        state.smooth(problem, mu)

    def keeps_smoothing(self, state: NesterovState) -> bool:
        """Return whether the move of the center suffices, and mu is kept."""
        return state.smoothing_gap <= KEPT_SMOOTHING_FRACTION * state.last_smoothing_gap

    def refresh(self, problem: MarginProblem, state: Any, product: Products) -> None:
        """Replace the products by recomputed ones; errors of those of the iterates do not add up."""
        state.product = product


@dataclass(frozen=True)
class HomotopyNESVM(NESVM):
    """The same with decreasing smoothing, each problem warm-started from the previous one.

    Attributes
    ----------
    mu0 : float, optional
        First smoothing; by default the middle zone is nowhere wider than 0.7, and narrower at a warm
        start. The margins of w = 0 lie outside it. Where C is so small that they do so at the
        optimum too, the first smoothed problem has the same solution.
    mu_star : float, optional
        Last smoothing; by default it decreases until the gap is closed, or to 1e-12.
    schedule : str
        ``"geometric"``, mu / 4, or ``"harmonic"``, mu0 / (t + 1), (44).
    recenter : bool
        As for `nesvm`, but true by default. mu0 is then larger where the curvature of the loss would
        be more than 1000 times that of the penalty. The paper's (44) decreases at every stage.
    """

    homotopic = True

    mu0: float | None = None
    mu_star: float | None = None
    schedule: str = "geometric"
    recenter: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_choice("schedule", self.schedule, ("geometric", "harmonic"))
        if self.mu is not None:
            raise InputError("mu is fixed by nesvm; the homotopy goes from mu0 to mu_star")
        for name in ("mu0", "mu_star"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=0.0, open_low=True, finite=True)

    def first_mu(self, problem: MarginProblem, d: Vector, gap: float, bound: float) -> float:
        """Return mu0: small enough for the gap of a warm start, and no smaller than useful."""
        if self.mu0 is not None:
            return self.mu0
        mu_of_gap = 4.0 * gap / float(problem.C @ d)
        mu = max(min(MAX_FIRST_WIDTH / float(np.max(d)), mu_of_gap), MIN_SMOOTHING)
        return max(mu, bound / MAX_FIRST_CURVATURE) if self.recenter else mu

    def next_mu(self, mu: float, stage: int) -> float:
        """Return the smoothing of the next stage, not below mu_star."""
        lower = 0.25 * mu if self.schedule == "geometric" else mu * (stage + 1) / (stage + 2)
        return max(lower, MIN_SMOOTHING if self.mu_star is None else self.mu_star)

    def keeps_smoothing(self, state: NesterovState) -> bool:
        """Return whether the move of the center suffices, and mu is kept; never with (44)."""
        return self.schedule == "geometric" and super().keeps_smoothing(state)
