"""Frank-Wolfe on the simplex and on products of simplices, on held columns.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x, x in a product of simplices. A vertex of the domain
is one coordinate of each simplex; f = (G + D)x + c is the gradient. In each step the candidates are
the vertex with the least gradient (toward), the one with the greatest gradient on the support
(away), and moving weight from the second to the first within one simplex (pair).

========  ==========================================================================================
toward    Frandi et al., Algorithm 2; on two simplices it is Gilbert's algorithm
away      Frandi et al., Algorithm 3; on two simplices Kumar and Yildirim, Algorithm 1
pairwise  Lacoste-Julien and Jaggi (2015); on two simplices the method of Mitchell, Demyanov and
          Malozemov, in the simplex where the pair is steeper
blended   Tsuji, Tanaka and Pokutta (2022): pairs inside the support while they are steep enough,
          which needs no new column, and toward steps otherwise
swap      Allende, Frandi, Nanculef and Sartori (2013): toward step or pair, whichever decreases
          the value more
triangle  Keerthi et al. (2000), the nearest point algorithm: the best point of the triangle spanned
          by the point, the toward vertex and the far end of the away step
========  ==========================================================================================

One text serves all three simplex duals, with the exact line search for any kernel. Where the papers
differ from it:

- Frandi et al. update the radius in step 21 of Algorithm 3 with the wrong sign; here the scalars
  x'f and x'(G + D)x are summed afresh in each step, so there is no recursion to go wrong.
- Their section 4.4 uses the line search of a normalized kernel (constant diagonal of Q) for any
  kernel. That step can increase the objective; the one below reduces to it when the diagonal is
  constant.
- Kumar and Yildirim print the cross term of <w, w> after an add step with a minus; it is a plus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.qp import QP
from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.gram.column_store import Columns
from qpsvm.numerics.jit import compiled, without_refcounts
from qpsvm.numerics.work_sharing import TILE_POINTS, WorkSharing, join, publish, run_shared
from qpsvm.solvers.base import Reply, Stop
from qpsvm.solvers.frank_wolfe import sampled
from qpsvm.solvers.frank_wolfe.step_rules import (
    AWAY,
    DROP,
    PAIR,
    RULES,
    TOWARD,
    TRIANGLE,
    best_of_triangle,
    choose,
    decrease,
)
from qpsvm.solvers.frank_wolfe.support import (
    FrankWolfeState,
    Support,
    extreme,
    move_weights,
    slopes,
    weight_of,
)
from qpsvm.solvers.shared.column_reads import COLUMN_MISSING, entry, form, is_cached, own, touch
from qpsvm.solvers.shared.gradient_pass import Move, Points, assist, min_of_group, update_gradient
from qpsvm.solvers.shared.sampling import SAMPLED_PERIOD, Draws, OnSamples
from qpsvm.solvers.shared.starting_points import random_ball, two_points


@dataclass(frozen=True)
class FrankWolfe(OnSamples):
    """Frank-Wolfe with a choice of step rule and of starting point.

    Parameters
    ----------
    rule : {"toward", "away", "pairwise", "blended", "swap", "triangle"}
        Which step is taken, as in the table above.
    start : {"two-point", "ball"}
        ``"two-point"``: the first point and the one farthest from it, each with weight 1/2; on two
        simplices the closest pair found in two sweeps. ``"ball"``: the optimum over `start_size`
        points drawn at random (Frandi et al., section 3).
    start_size : int
        Points of the random ball; the paper uses 20 (section 5.2.2).
    sampling, confirm, target
        As in `qpsvm.solvers.shared.sampling.OnSamples`; for the rules ``"toward"`` and ``"away"``.
    """

    rule: str = "toward"
    start: str = "two-point"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)
    least_period: ClassVar[int] = 100  # a check costs as much as some ten steps

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("rule", self.rule, tuple(RULES))
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)
        super().__post_init__()
        if self.sampling is not None:
            check_choice("rule (with sampling)", self.rule, ("toward", "away"))

    def period(self, problem: QP) -> int:
        """Return the steps between two checks; more with sampling, where one costs as much as many."""
        return super().period(problem) if self.sampling is None else SAMPLED_PERIOD

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> FrankWolfeState | sampled.SampledState:
        """Return the state at x0 or at the starting point of the settings."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(problem, self.start_size, FrankWolfe(rule="away"), rng)
        else:
            x = two_points(problem)
        if self.sampling is not None:
            assert isinstance(problem.domain, SimplexProduct)
            draws = Draws(problem.domain, self.sampling, rng)
            return sampled.SampledState.at(problem, x, draws, self.goal, self.rule == "away")
        return FrankWolfeState.at(problem, x)

    def advance(self, problem: QP, state: Any, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or a column is missing, then fill it."""
        if self.sampling is not None:
            return state.advance(n_steps)
        assert problem.store is not None
        missing = np.full(2 * len(state.keys) + 2, -1, np.int64)
        cols = problem.columns()
        points, q, support, keys = state.points, state.gradient, state.support, state.keys
        made, who, rule, counts = state.made, state.team, RULES[self.rule], state.counts
        done, why = run_shared(
            who,
            lambda: _advance(
                rule, cols, points, q, support, keys, made, n_steps, missing, counts, who
            ),
            lambda: assist(cols, points, made, q, keys, who),
        )
        state.stale = True
        if why == COLUMN_MISSING:
            state.prefetch.serve(problem.store, missing[missing >= 0], state.wanted)
            why = Stop.BUDGET.value
        return Reply(done, Stop(why))

    def refresh(self, problem: QP, state: Any, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        if self.sampling is not None:
            state.set_product(product)
        else:
            state.look(problem, product)  # x was repaired


@compiled
def _advance(
    rule: int,
    cols: Columns,
    points: Points,
    q: Any,
    support: Support,
    keys: Any,
    made: Move,
    n_steps: int,
    missing: Any,
    counts: Any,
    who: WorkSharing,
) -> Any:
    """Make steps in place; return the number done and why it came back."""
    cols, points, q, support, keys, made = without_refcounts((cols, points, q, support, keys, made))
    n_groups, room = keys.shape[0], np.empty(TILE_POINTS)
    low = np.empty(n_groups, np.int64)  # least gradient of each group
    high = np.empty(n_groups, np.int64)  # greatest gradient on its support
    zero: Any = np.int64(0)  # a literal would have functions compiled twice
    for step in range(n_steps):
        xf, xqx = slopes(points, support, q)
        toward, away, pair, into, out = xf, -xf, -np.inf, zero, zero
        for g in range(n_groups):
            f_low, low[g] = min_of_group(points, q, keys, g, room)
            f_high, high[g] = extreme(support, g, zero - 1)
            toward -= f_low
            away += f_high
            near = low[g]
            if rule == 3:  # pairs inside the support
                f_low, near = extreme(support, g, zero)
            if f_high - f_low > pair:
                pair, into, out = f_high - f_low, near, high[g]
        if not np.isfinite(xf):
            return step, 3
        if not toward > 0.0:
            return step, 1

        kind = choose(rule, toward, away, pair, pair)
        tries_pair = kind == PAIR or rule == 4
        # columns that the step reads; a missing one is filled before anything changes
        for g in range(n_groups):
            if kind == TOWARD or kind == TRIANGLE:
                missing[g] = low[g]
            if kind == AWAY or kind == TRIANGLE:
                missing[n_groups + g] = high[g]
        if tries_pair:
            missing[2 * n_groups] = into
            missing[2 * n_groups + 1] = out
        for j in range(len(missing)):
            if missing[j] >= 0 and not is_cached(cols, missing[j]):
                return step, COLUMN_MISSING
        for j in range(len(missing)):
            missing[j] = -1

        # curvatures of the candidates, (v - x)'(G + D)(v - x), and the cap of the away step
        vqv, vqx, aqa, aqx, cap = 0.0, 0.0, 0.0, 0.0, np.inf
        if kind == TOWARD or kind == TRIANGLE:
            vqv = form(cols, low, low)
            for g in range(n_groups):
                vqx += q[low[g]]
        if kind == AWAY or kind == TRIANGLE:
            aqa = form(cols, high, high)
            for g in range(n_groups):
                aqx += q[high[g]]
                weight = weight_of(support, high[g])
                if weight < 1.0:
                    cap = min(cap, weight / (1.0 - weight))
        to_curve = vqv - 2.0 * vqx + xqx
        from_curve = aqa - 2.0 * aqx + xqx
        slope, curvature, size, longest = toward, to_curve, vqv + xqx, 1.0
        if kind == AWAY:
            slope, curvature, size, longest = away, from_curve, aqa + xqx, cap
        if tries_pair:
            pair_size = own(cols, into) + own(cols, out)
            pair_curve = pair_size - 2.0 * entry(cols, into, out)
            weight = weight_of(support, out)
            if rule == 4 and decrease(pair, pair_curve, weight) > decrease(toward, to_curve, 1.0):
                kind = PAIR
            if kind == PAIR:
                slope, curvature, size, longest = pair, pair_curve, pair_size, weight

        if kind == TRIANGLE and cap < np.inf:
            # x + a (v - x) + b cap (x - y): edges p = v - x and q = cap (x - y)
            cross = form(cols, low, high) - vqx - aqx + xqx
            a, b = best_of_triangle(
                to_curve, cap * cap * from_curve, -cap * cross, -toward, -cap * away
            )
            if not a + b > 0.0:
                return step, 1
            counts[TRIANGLE] += 1
            keep, n = 1.0 - a + b * cap, 2 * n_groups
            limit = 1e-15 if b >= 1.0 else 0.0
            for g in range(n_groups):
                h = n_groups + g
                made.at[g], made.gain[g], made.least[g] = low[g], a, 0.0
                made.at[h], made.gain[h], made.least[h] = high[g], -b * cap, limit
        else:
            if curvature < -1e-6 * size:
                return step, 2
            if curvature <= 0.0 and kind != PAIR:
                return step, 1
            length = min(slope / max(curvature, 1e-12 * size), longest)
            whole = length >= longest
            if kind == PAIR:
                counts[DROP if whole else PAIR] += 1
                keep, n = 1.0, 2
                limit = np.inf if whole else 0.0
                made.at[0], made.gain[0], made.least[0] = into, length, 0.0
                made.at[1], made.gain[1], made.least[1] = out, -length, limit
            elif kind == AWAY:
                counts[DROP if whole else AWAY] += 1
                keep, n = 1.0 + length, n_groups
                for g in range(n_groups):  # weights that attain the cap become exactly zero
                    weight = weight_of(support, high[g])
                    gone = whole and weight < 1.0 and weight / (1.0 - weight) <= cap
                    limit = np.inf if gone else 0.0
                    made.at[g], made.gain[g], made.least[g] = high[g], -length, limit
            else:
                counts[TOWARD] += 1
                keep, n = 1.0 - length, n_groups
                for g in range(n_groups):
                    made.at[g], made.gain[g], made.least[g] = low[g], length, 0.0
        move_weights(points, support, keep, made, n)
        for j in range(n):
            touch(cols, made.at[j])
        who.float_arguments[0], who.int_arguments[0] = keep, n
        number = publish(who) if who.shared else zero
        update_gradient(cols, points, made, q, keys, room, who, number, zero)
        if who.shared:
            join(who, number)
    return n_steps, 0
