"""Constraint-reduced primal-dual interior point method for the hinge loss.

Problem (Jung, O'Leary and Tits, "Adaptive constraint reduction for training support vector
machines", 2008; (2.11)-(2.16)), with X a factor of the Gram:

    minimize  1/2 |w|^2 + tau'xi   subject to  Y(Xw - gamma) + xi >= 1,  xi >= 0     slack s, dual alpha
    maximize  sum alpha - 1/2 |X'Y alpha|^2   subject to  y'alpha = 0, 0 <= alpha <= tau  u = tau - alpha

It is Mehrotra's predictor-corrector method, their Algorithm 1, on the optimality conditions (3.1)-(3.6).
Each iteration assembles the n x n normal matrix from the rows Q that matter, few near the end, and
predictor and correctors share its factor. As printed, M_Q replaces the exact matrix M; for
small Q the method then may not converge. Here M_Q is the preconditioner of conjugate gradients on M,
which keeps the number of iterations of the unreduced method; while Q is large, half of it is a sample
that represents the omitted rows, so that few rows approximate all. ``reduction="paper"`` is the printed
form, with Q doubled after a step that is short or does not reduce the residual. Without a bias,
gamma = 0 and there is no y'alpha = 0. Tall problems begin with a sample of the points and end with
Newton steps on all of them (`augmented_lagrangian`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, Domain, PenaltyBox
from qpsvm.errors import check_choice, check_number
from qpsvm.gram import Gram
from qpsvm.gram.factor import factor_of, factor_shape, has_factor
from qpsvm.solvers.base import HingeOnFactor, Reply, Stop
from qpsvm.solvers.interior_point.column_equations import column_equations
from qpsvm.solvers.interior_point.iterate import Interior, cold
from qpsvm.solvers.interior_point.normal_equations import NormalEquations
from qpsvm.solvers.interior_point.sifting import SiftedState, State, sampling_pays

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]

TO_BOUNDARY = 0.995
"""Least fraction of the step to the boundary; it tends to 1 as the gap closes."""

SHORT_STEP = 0.1
"""Step length below which the printed form increases the number of rows."""

ROW_GROWTH = 2.0
"""Factor on the number of rows where M_Q is too far from M."""

ROW_SHRINKAGE = 1.5
"""Divisor of the number of rows where M_Q is closer to M than needed."""

MAX_CHOSEN_SHARE = 0.8
"""Share of the rows from which a choice costs more than it saves."""

MAX_ORDER_FOR_ONE_THREAD = 1000
"""Order of the normal matrix up to which one thread is faster than several."""

MAX_ENTRIES_FOR_ONE_THREAD = 1 << 24
"""Number of entries of X up to which one thread is faster than several."""

MAX_KERNEL_SCALE = 1e14
"""Largest penalty times squared length up to which the matrix of a kernel is factored."""

COMPLEMENTARITY_FLOOR = 1e-13
"""Fraction of the value below which the complementarity is not reduced; feasibility still is."""

TRIAL_RESIDUAL = 0.1
"""Residual of trial directions.

Energies of residuals are relative to the complementarity: the sum of the squared relative changes of
alpha, u, s and xi that they cause is at most their energy over mu. Relative to the right-hand side,
which is large at first, they would not bound that.
"""

STEP_RESIDUAL = 0.01
"""Residual of the direction of the step."""

MIN_RESIDUAL = 1e-8
"""Least residual that is asked for."""

POOR_RESIDUAL = 0.5
"""Residual of M_Q's solutions above which the number of rows grows."""

GOOD_RESIDUAL = 0.02
"""Residual of M_Q's solutions below which the number of rows shrinks."""

MIN_ROWS_PER_COLUMN_FOR_SAMPLE = 4
"""Number of rows per column from which half of Q is a sample of the rows that are not chosen."""


@dataclass(frozen=True)
class ConstraintReduced(HingeOnFactor):
    """Mehrotra's predictor-corrector with a reduced normal matrix.

    Parameters
    ----------
    reduction : {"preconditioner", "paper", None}
        How M_Q is used: to precondition conjugate gradients on M, in its place as printed, or, with
        None, not at all: the unreduced method.
    constraint_choice : {"omega", "one-sided"}
        Q holds the rows with the smallest omega_i, or with the smallest distance to the right side
        of their margin (rules 2 and 1 of section 3.2).
    balanced : bool
        Whether the rows are chosen class by class, (3.21)-(3.22).
    adaptive : bool
        Whether the number of rows falls with the complementarity mu, (3.18); otherwise it is `q_upper`.
    q_upper : int or float
        Most rows chosen by rank: a number, or a share of all (a float).
    beta, theta : float
        The number of rows falls as mu^(1/beta); rows with 1 / omega_i >= theta sqrt(mu) are always in Q.
    correctors : int
        Most centrality corrections (Gondzio) after Mehrotra's corrector, tried after short steps.
    normal_matrix : {"factor", "columns"}
        M_Q of the rows of a factor, or formula (4.2) in the columns of a `LowRank` Gram with landmarks.
    start : {"scaled", "paper"}
        alpha = u = tau / 2, s = xi = 2, whatever the units of tau; or 2 for each, as in the paper,
        which assumes tau near 1.
    sift : bool, optional
        Whether the interior point method solves a sample of the points, and Newton steps on the
        augmented Lagrangian continue with all (see `SiftedState` and `Multipliers`). By default for tall
        points, unless `reduction` is the paper's or None. The first new point comes after the
        sample, some 15 iterations: a smaller `max_iter` returns the starting point.
    """

    reduction: str | None = "preconditioner"
    constraint_choice: str = "omega"
    balanced: bool = True
    adaptive: bool = True
    q_upper: float = 1.0
    beta: float = 4.0
    theta: float = 100.0
    correctors: int = 2
    normal_matrix: str = "factor"
    start: str = "scaled"
    sift: bool | None = None

    domains: ClassVar[tuple[type[Domain], ...]] = (BoxHyperplane, PenaltyBox)

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("reduction", self.reduction, ("preconditioner", "paper", None))
        check_choice("constraint_choice", self.constraint_choice, ("omega", "one-sided"))
        check_choice("balanced", self.balanced, (True, False))
        check_choice("adaptive", self.adaptive, (True, False))
        check_choice("normal_matrix", self.normal_matrix, ("factor", "columns"))
        check_choice("start", self.start, ("scaled", "paper"))
        check_choice("sift", self.sift, (True, False, None))
        check_number("q_upper", self.q_upper, low=0.0, open_low=True)
        check_number("beta", self.beta, low=0.0, open_low=True)
        check_number("theta", self.theta, low=0.0)
        check_number("correctors", self.correctors, low=0, integer=True)

    def factors(self, kernel: Gram) -> bool:
        """Return whether there is a factor; the Gram of few points is factored itself."""
        return has_factor(kernel)

    def fits(self, problem: QP) -> bool:
        """Return whether it is a hinge dual that it can read, whose scales float64 can hold."""
        if not super().fits(problem):
            return False
        if problem.gram.kernel.factor() is not None:
            return True
        own, upper = problem.gram.diag(), problem.domain.upper  # type: ignore[attr-defined]
        return bool(own.min() >= 0 and upper.max() * own.max() <= MAX_KERNEL_SCALE)

    def period(self, problem: QP) -> int:
        """Check every iteration: they are few. After a sample, check at new multipliers."""
        return 0 if self._sifts(problem) else 1

    def _sifts(self, problem: QP) -> bool:
        """Return whether it begins with a sample, which needs both classes where there is a bias."""
        sift, y = self.sift, problem.gram.sign
        if sift is None:
            sift = self.reduction == "preconditioner" and sampling_pays(
                *factor_shape(problem.gram.kernel)
            )
        return sift and bool(isinstance(problem.domain, PenaltyBox) or y.min() < y.max())

    def on_one_thread(self, problem: QP) -> tuple[bool, bool]:
        """Use one thread for normal matrices of small order, for CSR points, and for few dense ones."""
        X = problem.gram.kernel.factor()
        m, n = factor_shape(problem.gram.kernel)
        return n <= MAX_ORDER_FOR_ONE_THREAD, sp.issparse(X) or m * n <= MAX_ENTRIES_FOR_ONE_THREAD

    def default_max_iter(self, problem: QP) -> int:
        """Return the paper's limit; Newton steps after a sample are more and cheaper."""
        return 200 if self.sift is False or self.reduction != "preconditioner" else 1000

    @np.errstate(all="ignore")  # as in `advance`
    def init(self, problem: QP, x0: Vector | None, rng: np.random.Generator) -> State:
        """Return the starting point, or one nine tenths of the way from it to x0."""
        domain = problem.domain
        assert isinstance(domain, BoxHyperplane | PenaltyBox)
        tau, y = domain.upper, problem.gram.sign
        bias = isinstance(domain, BoxHyperplane)
        kernel, squares = problem.gram.kernel, problem.gram.diag()
        if self.normal_matrix == "columns":
            points: NormalEquations = column_equations(kernel, squares, bias)
        else:
            points = NormalEquations(factor_of(kernel), squares, bias)
        state: State
        if self._sifts(problem):
            state = SiftedState(points, y, tau, rng, None if x0 is None else domain.repair(x0))
        else:
            alpha = np.full(problem.m, 2.0) if self.start == "paper" else 0.5 * tau
            u = alpha.copy()
            if x0 is not None:
                x = np.clip(x0, 0.0, tau)
                alpha, u = 0.1 * alpha + 0.9 * x, 0.1 * u + 0.9 * (tau - x)
            state = State(points, y, tau, cold(points, y, tau, alpha, u))
            state.update_point(False)
        state.rng = rng
        return state

    def advance(self, problem: QP, state: State, n_steps: int) -> Reply:
        """Make iterations of Algorithm 1."""
        done = 0
        while done < n_steps:
            if state.exact:
                return Reply(done, Stop.STALLED)
            try:
                with np.errstate(all="ignore"):  # non-finite numbers are detected and reported
                    own = state.iterate()
                    moved = self._iterate(state) if own is None else own
                    news = state.update_point(moved)
            except np.linalg.LinAlgError:
                return Reply(done, Stop.NUMERICAL)
            done += moved or state.exact
            if not (moved or state.exact):
                return Reply(done, Stop.STALLED)
            if news:
                return Reply(done, Stop.NEWS)
        return Reply(done, Stop.BUDGET)

    def refresh(self, problem: QP, state: State, product: Vector) -> None:
        """Set G x, recompute the scores, and continue."""
        state.product[:] = product
        state.exact = False
        state.refresh()

    def _iterate(self, state: State) -> bool:
        """Make one iteration; return False at a point that cannot be improved."""
        interior = state.interior
        mu = interior.mu
        least = COMPLEMENTARITY_FLOOR * interior.size / (2 * interior.m)
        active, weights = self._active(state)
        left = self.reduction == "paper" and active is not None
        residual = float(np.max(np.abs(interior.rw)))
        if mu <= 2.0 * least and residual >= 0.5 * interior.residual and not left:
            return False
        interior.residual = residual
        single = self.reduction == "preconditioner"
        interior.factor(active, self.reduction == "paper", weights=weights, single=single)

        rough, fine = self._accuracy(interior)
        interior.solve(rough)  # predictor
        if not np.isfinite(interior.delta.second):
            raise np.linalg.LinAlgError("the direction is not finite")
        target = max(mu * (interior.affine() / mu) ** 3, min(mu, least))
        interior.correct(target)
        interior.solve(rough)  # corrector
        for _ in range(self.correctors):
            if not interior.center(target, rough):
                break
        interior.refine(fine)

        to_boundary = max(TO_BOUNDARY, 1.0 - min(1.0, interior.complementarity / interior.size))
        a = min(1.0, interior.longest * to_boundary)
        if not a > 1e-12 and not left:
            return False
        interior.move(a)
        if left:
            stays = float(np.max(np.abs(interior.rw))) > max(1.0 - 0.5 * a, 0.5) * residual
            interior.growth *= ROW_GROWTH if a < SHORT_STEP or stays else 1.0
        elif active is not None:
            interior.growth *= ROW_GROWTH if interior.raw_residual > POOR_RESIDUAL else 1.0
            interior.growth /= ROW_SHRINKAGE if interior.raw_residual < GOOD_RESIDUAL else 1.0
        return True

    def _accuracy(self, interior: Interior) -> tuple[float, float]:
        """Return the relative residuals asked of trial directions and of the one taken.

        Infinity omits the products that a residual costs: where M_Q alone was accurate enough.
        """
        if self.reduction == "paper":
            return np.inf, np.inf
        rough = TRIAL_RESIDUAL
        fine = max(
            MIN_RESIDUAL,
            STEP_RESIDUAL * min(1.0, interior.complementarity / max(interior.off, 1e-300)),
        )
        if interior.is_exact:
            rough, fine = np.inf, MIN_RESIDUAL
        margin = 3.0 * interior.raw_residual
        return np.inf if margin <= rough else rough, np.inf if margin <= fine else fine

    def _active(self, state: State) -> tuple[Rows | None, Vector | None]:
        """Return the rows of Q and their weights; None for all, and for their own weights."""
        interior, m = state.interior, state.interior.m
        if self.reduction is None:
            return None, None
        printed = self.reduction == "paper"
        most = self.q_upper if isinstance(self.q_upper, int) else np.ceil(self.q_upper * m)
        most = int(min(m, max(1, most * (interior.growth if printed else 1))))
        if interior.n_steps == 0 and printed:
            rows = None if most == m else np.sort(state.rng.choice(m, most, replace=False))
            return rows, None
        # theta and beta act on mu in units in which points have length 1, except in the printed form
        unit = 1.0 if printed else interior.unit
        root_mu = np.sqrt(interior.mu * unit)
        share = root_mu ** (2.0 / self.beta) * interior.growth if self.adaptive else 1.0
        base = min(int(np.ceil(min(1.0, share) * m)), most)
        if base >= m or (base >= MAX_CHOSEN_SHARE * m and not printed):
            return None, None
        first = interior.n_steps == 0  # all rows weigh the same
        sampled = first or (
            not printed and base >= MIN_ROWS_PER_COLUMN_FOR_SAMPLE * interior.points.n
        )
        count = 0 if first else base // 2 if sampled else base
        rows = self._by_rule(interior, count, root_mu, unit)
        if len(rows) == m:
            return None, None
        if len(rows) >= base or not sampled:
            return rows, None
        others = np.ones(m, np.bool_)
        others[rows] = False
        left = np.flatnonzero(others)
        some, weights = _sample(interior.d[left], base - len(rows), state.rng)
        return np.append(rows, left[some]), np.append(interior.d[rows], weights)

    def _by_rule(self, interior: Interior, base: int, root_mu: float, unit: float) -> Rows:
        """Return at least `base` rows that matter most by the constraint choice."""
        m = interior.m
        if base == 0:
            return np.zeros(0, np.int64)
        if self.constraint_choice == "omega":
            z = -interior.d  # ordered as omega = 1 / d
            big = interior.d * unit >= self.theta * root_mu
        else:
            z = interior.y * interior.h + interior.xi - 1.0
            big = (interior.alpha * unit >= self.theta * root_mu * interior.s) | (
                interior.s <= root_mu
            )
        if not self.balanced:
            return _smallest(z, np.arange(m), max(int(np.count_nonzero(big)), base))
        chosen = [
            _smallest(z, rows, max(int(np.count_nonzero(big[rows])), min(-(-base // 2), len(rows))))
            for rows in interior.classes
        ]
        lacking = base - sum(map(len, chosen))
        if lacking > 0:
            left = np.ones(m, np.bool_)
            left[np.concatenate(chosen)] = False
            chosen.append(_smallest(z, np.flatnonzero(left), lacking))
        return np.sort(np.concatenate(chosen))


def _sample(d: Vector, count: int, rng: np.random.Generator) -> tuple[Rows, Vector]:
    """Draw rows in proportion to their weights, with new weights that represent all of them.

    One draw from each of `count` strata of equal weight: a row heavier than two strata is always drawn.
    """
    ends = np.cumsum(d)
    stratum = ends[-1] / count
    at = np.searchsorted(ends, (np.arange(count) + rng.random(count)) * stratum)
    some, times = np.unique(np.minimum(at, len(d) - 1), return_counts=True)
    return some, stratum * times


def _smallest(z: Vector, rows: Rows, count: int) -> Rows:
    """Return the `count` of the rows with the smallest z, in order; ties go to the first."""
    if count >= len(rows):
        return rows
    return np.sort(rows[np.argpartition(z[rows], count - 1)[:count]])
