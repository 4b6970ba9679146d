"""Multiple pricing for `mnp`: the points that violate optimality most, of either label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import FLOAT64_EPS
from qpsvm.canonical.qp import QP
from qpsvm.domains import SimplexProduct
from qpsvm.numerics.jit import compiled
from qpsvm.solvers.min_norm_point.face import FACE_SIZE, Block


def price(
    problem: QP,
    block: Block,
    members: NDArray[np.int64],
    x: NDArray[np.float64],
    product: NDArray[np.float64],
    wanted: int,
) -> tuple[NDArray[np.int64], float, float]:
    """Return the most violating points, h(x) and the largest KKT violation.

    The violation of a point is the threshold of its group, the mean of f weighted by x, minus f.
    """
    domain, gram = problem.domain, problem.gram
    assert isinstance(domain, SimplexProduct)
    face = block.face[: block.sizes[FACE_SIZE]]
    support = members[face]
    weight, c = x[support], problem.linear[support]
    f = product[support] + gram.ridge[support] * weight + c
    value = 0.5 * float(weight @ (f + c))
    threshold = np.bincount(block.group[face], weights=weight * f, minlength=domain.n_groups)
    # label by label, so that each label has candidates
    bar = np.full(2, 4.0 * FLOAT64_EPS * abs(problem.scale))
    found = np.empty((2, 2 * wanted), np.int64)
    by = np.empty((2, 2 * wanted))
    n_found = np.zeros(2, np.int64)
    lists = (bar, found, by, n_found)
    at = 0
    while at < problem.m:
        at = collect(at, product, problem.linear, domain.group, gram.sign, x, threshold, *lists)
        for side in np.flatnonzero(n_found > wanted):
            best = np.argpartition(-by[side, : n_found[side]], wanted - 1)[:wanted]
            found[side, :wanted], by[side, :wanted] = found[side, best], by[side, best]
            n_found[side], bar[side] = wanted, by[side, :wanted].min()
    best_first = [np.argsort(-by[side, :n], kind="stable") for side, n in enumerate(n_found)]
    points = np.concatenate([found[side, order] for side, order in enumerate(best_first)])
    violation = np.concatenate([by[side, order] for side, order in enumerate(best_first)])
    rank = np.concatenate([np.arange(n) for n in n_found])
    chosen = points[np.lexsort((-violation, rank))[:wanted]]
    return chosen, value, float(violation.max(initial=0.0))


@compiled
def collect(
    at: int,
    p: Any,
    c: Any,
    group: Any,
    sign: Any,
    x: Any,
    threshold: Any,
    bar: Any,
    found: Any,
    by: Any,
    n_found: Any,
) -> int:
    """Collect points off the support whose violation is above the bar of their label.

    Start at point `at`; return the next point once the list of a label is full.
    """
    capacity = found.shape[1]
    for k in range(at, p.shape[0]):
        v = threshold[group[k]] - p[k] - c[k]
        side = 0 if sign[k] > 0.0 else 1
        if v > bar[side] and x[k] == 0.0:
            n = n_found[side]
            found[side, n] = k
            by[side, n] = v
            n_found[side] = n + 1
            if n + 1 == capacity:
                return k + 1
    return p.shape[0]
