"""Frank-Wolfe on the simplex and on products of simplices, on held columns.

Problem: minimize h(x) = 1/2 x'(G + D)x + c'x, x in a product of simplices. A vertex of the domain
is one coordinate of each simplex; f = (G + D)x + c is the gradient.

- ``fw``: Frandi et al., Algorithm 2; on two simplices it is Gilbert's algorithm.
- ``mfw``: Frandi et al., Algorithm 3 (away steps), and Kumar and Yildirim, Algorithm 1, on two
  simplices.

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

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import Domain, SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.forms import QP
from qpsvm.gram.columns import Columns
from qpsvm.solvers.base import Reply, Solver, Stop
from qpsvm.solvers.steps import add_column, compiled, entry, held, touch

TOWARD, AWAY = 0, 1
RULES = {"toward": TOWARD, "away": AWAY}
STEP_KINDS = ("toward", "away", "drop")
MISSING = 4  # beside the values of Stop: columns have to be filled before the step can be made


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Frank-Wolfe with a choice of step rule and of starting point.

    Parameters
    ----------
    rule : {"toward", "away"}
        Which steps may be taken.
    start : {"two-point", "ball"}
        ``"two-point"``: the first point and the one farthest from it, each with weight 1/2; on two
        simplices the closest pair found in two sweeps. ``"ball"``: the optimum over `start_size`
        points drawn at random (section 4.1 of Frandi et al.).
    start_size : int
        Points of the random ball; the paper uses 20.
    """

    rule: str = "toward"
    start: str = "two-point"
    start_size: int = 20

    domains: ClassVar[tuple[type[Domain], ...]] = (SimplexProduct,)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("rule", self.rule, tuple(RULES))
        check_choice("start", self.start, ("two-point", "ball"))
        check_number("start_size", self.start_size, low=2, integer=True)

    def init(
        self, problem: QP, x0: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> FrankWolfeState:
        """Return the state at x0 or at the starting point of the settings."""
        if x0 is not None:
            x = problem.domain.repair(x0)
        elif self.start == "ball":
            x = random_ball(self, problem, rng)
        else:
            x = two_points(problem)
        return FrankWolfeState(x, problem.gram.product(x))

    def advance(self, problem: QP, state: FrankWolfeState, n_steps: int) -> Reply:
        """Run the compiled steps until they are done or a column is missing, then fill it."""
        domain = problem.domain
        assert isinstance(domain, SimplexProduct) and problem.store is not None
        missing = np.full(domain.n_groups, -1, np.int64)
        done, why = _advance(
            RULES[self.rule],
            problem.columns(),
            domain.group,
            domain.n_groups,
            problem.linear,
            state.x,
            state.product,
            n_steps,
            missing,
            state.counts,
        )
        if why == MISSING:
            problem.store.ensure(missing)
            why = Stop.BUDGET.value
        return Reply(done, Stop(why))

    def refresh(self, problem: QP, state: FrankWolfeState, product: NDArray[np.float64]) -> None:
        """Take over a fresh G x."""
        state.product[:] = product


@dataclass
class FrankWolfeState:
    """A point of the domain with its product."""

    x: NDArray[np.float64]  # weights, each group sums to 1
    product: NDArray[np.float64]  # G x, without the ridge
    counts: NDArray[np.int64] = field(  # steps by STEP_KINDS
        default_factory=lambda: np.zeros(len(STEP_KINDS), np.int64)
    )

    @property
    def counters(self) -> dict[str, int]:
        """Steps by kind."""
        return dict(zip(STEP_KINDS, map(int, self.counts), strict=True))


def two_points(problem: QP) -> NDArray[np.float64]:
    """Return the start of the papers: two far points of a simplex, a near pair of two simplices.

    On one simplex: index 0 and the point farthest from it in the metric of Q, half the weight each
    (Frandi et al., section 4.1). On a product: the vertex whose coordinates are chosen one after
    the other to make the value least, the first of them once more at the end (Kumar and Yildirim,
    Algorithm 1, lines 1-3).
    """
    domain, gram = problem.domain, problem.gram
    assert isinstance(domain, SimplexProduct)
    own = gram.diag() + gram.ridge
    x = np.zeros(problem.m)
    if domain.n_groups == 1:
        distance = own - 2.0 * gram.column(0)
        distance[0] = -np.inf
        far = int(np.argmax(distance))
        x[0] += 0.5
        x[far] += 0.5
        return x
    chosen = [int(of[0]) for of in domain.members[:1]]
    for k in [*range(1, domain.n_groups), 0]:
        others = chosen[1:] if k == 0 else chosen
        value = 0.5 * own + problem.linear + sum(gram.column(i) for i in others)
        of = domain.members[k]
        best = int(of[np.argmin(value[of])])
        chosen = [best, *others] if k == 0 else [*chosen, best]
    x[chosen] = 1.0
    return x


def random_ball(solver: FrankWolfe, problem: QP, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the optimum over a random subset, at least one point of each simplex, by this solver."""
    from qpsvm.loop import solve_subset

    domain = problem.domain
    assert isinstance(domain, SimplexProduct)
    share = max(1, solver.start_size // domain.n_groups)
    drawn = [rng.choice(of, min(share, len(of)), replace=False) for of in domain.members]
    rows = np.sort(np.concatenate(drawn))
    inner = replace(solver, rule="away", start="two-point")
    x = np.zeros(problem.m)
    x[rows] = solve_subset(problem.take(rows), inner, tol=1e-3, max_iter=10_000)
    return x


@compiled
def choose(rule: int, toward: float, away: float) -> int:
    """Return the kind of step: ties go toward, so that an away step has a direction."""
    return AWAY if rule == AWAY and away > toward else TOWARD


@compiled
def _advance(
    rule: int,
    cols: Columns,
    group: Any,
    n_groups: int,
    c: Any,
    x: Any,
    p: Any,
    n_steps: int,
    missing: Any,
    counts: Any,
) -> Any:
    """Make steps in place; return the number done and why it came back."""
    low = np.empty(n_groups, np.int64)  # least gradient of each group
    high = np.empty(n_groups, np.int64)  # greatest gradient on its support
    f_low = np.empty(n_groups)
    f_high = np.empty(n_groups)
    ridge = cols.ridge
    m = x.shape[0]
    for step in range(n_steps):
        # gradient f = Gx + Dx + c: extremes by group, and the scalars x'f and x'(G + D)x
        f_low[:] = np.inf
        f_high[:] = -np.inf
        xf = 0.0
        xqx = 0.0
        for k in range(m):
            q = p[k] + ridge[k] * x[k]
            f = q + c[k]
            g = group[k]
            if f < f_low[g]:
                f_low[g] = f
                low[g] = k
            if x[k] > 0.0:
                xf += x[k] * f
                xqx += x[k] * q
                if f > f_high[g]:
                    f_high[g] = f
                    high[g] = k
        if not np.isfinite(xf):
            return step, 3
        toward = xf - f_low.sum()
        away = f_high.sum() - xf
        kind = choose(rule, toward, away)
        vertex = low if kind == TOWARD else high
        slope = toward if kind == TOWARD else away
        if not slope > 0.0:
            return step, 1
        absent = 0
        for g in range(n_groups):
            if not held(cols, vertex[g]):
                absent += 1
        if absent > 0:
            missing[:] = vertex
            return step, MISSING
        # curvature (v - x)'(G + D)(v - x), the same for both directions
        vqv = 0.0
        vqx = 0.0
        cap = np.inf
        for g in range(n_groups):
            i = vertex[g]
            touch(cols, i)
            vqx += p[i] + ridge[i] * x[i]
            vqv += ridge[i]
            for h in range(n_groups):
                vqv += entry(cols, i, vertex[h])
            if x[i] < 1.0:
                cap = min(cap, x[i] / (1.0 - x[i]))
        curvature = vqv - 2.0 * vqx + xqx
        size = vqv + xqx
        if curvature < -1e-6 * size:
            return step, 2
        if curvature <= 0.0:
            return step, 1
        length = slope / curvature
        if kind == TOWARD:
            length = min(length, 1.0)
            counts[TOWARD] += 1
            keep = 1.0 - length
            gain = length
        else:
            drop = length >= cap
            length = min(length, cap)
            counts[2 if drop else AWAY] += 1
            keep = 1.0 + length
            gain = -length
        for k in range(m):
            x[k] *= keep
            p[k] *= keep
        for g in range(n_groups):
            i = vertex[g]
            before = x[i] / keep if keep > 0.0 else 0.0
            x[i] += gain
            if kind == AWAY and (x[i] < 0.0 or (length == cap and before / (1.0 - before) <= cap)):
                x[i] = 0.0
            add_column(cols, i, gain, p)
    return n_steps, 0
