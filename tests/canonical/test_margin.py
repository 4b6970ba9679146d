"""Problems in the margins: value, gap and scale by the formulas of their definition."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF, LPSVMPrimal, LSSVMPrimal
from qpsvm.domains.box_hyperplane import MAX_SORTED_POINTS, slack_gap

PROBLEM_OF_NAME = {
    "l1 penalty, hinge": lambda X, y, C: LPSVMPrimal(X, y, C=C),
    "l1 penalty of an expansion": lambda X, y, C: LPSVMPrimal(RBF(X, gamma=0.5), y, C=C),
    "l2 penalty, squared": lambda X, y, C: LSSVMPrimal(X, y, C=C),
    "l2 penalty of an expansion": lambda X, y, C: LSSVMPrimal(RBF(X, gamma=0.5), y, C=C),
}


@pytest.mark.parametrize("name", PROBLEM_OF_NAME)
def test_value_and_gap_are_those_of_the_definition(name, rng):
    X, y = rng.standard_normal((12, 3)), np.resize([1.0, -1.0], 12)
    C = rng.uniform(0.5, 2.0, 12)
    problem = PROBLEM_OF_NAME[name](X, y, C).as_margin()
    n, by_expansion = problem.n, "expansion" in name
    origin = 0.0 if problem.origin is None else problem.origin  # of the points that are multiplied
    own_kernel = RBF(X, gamma=0.5).block(np.arange(12), None, np.float64)
    features = own_kernel if by_expansion else X - origin
    a = rng.uniform(0.0, 1.0, 12) * C
    a -= y * (y @ a) / 12.0
    w, b = rng.standard_normal(n), 0.3
    if by_expansion and "l2" in name:
        w = 0.3 * y * a + 0.1 * w
    x = problem.join(w, b, a)
    found = problem.bounds(x, problem.product(x))
    margins = 1.0 - y * (features @ w + b)
    v = features.T @ (y * a)
    if "l1" in name:
        value = np.sum(np.abs(w)) + C @ np.maximum(margins, 0.0)
        gap = np.sum(np.abs(w) - w * v) + np.sum(C * np.maximum(margins, 0.0) - a * margins)
    else:
        own = (y * a, features) if by_expansion else (v, np.eye(3))
        paired = [u @ own[1] @ t for u, t in ((w, w), (own[0], own[0]))]
        value = 0.5 * paired[0] + C @ margins**2
        gap = value - (np.sum(a) - 0.5 * paired[1] - np.sum(a * a / (4.0 * C)))
    assert found.upper == pytest.approx(value, rel=1e-12)
    assert found.gap == pytest.approx(min(gap, value), rel=1e-9)  # the optimum is not negative


def test_both_ways_to_sum_slacks_agree(rng):
    n = MAX_SORTED_POINTS + 8
    x, slack = np.where(rng.random(n) < 0.5, 0.0, rng.random(n)), rng.standard_normal(n)
    upper = np.ones(n)
    gap = np.sum((upper - x) * np.maximum(-slack, 0.0) + x * np.maximum(slack, 0.0))
    for support in (None, np.flatnonzero(x)):
        assert slack_gap(x, upper, slack, support) == pytest.approx(gap, rel=1e-12)
    few = slice(0, MAX_SORTED_POINTS)
    part = np.sum(((upper - x) * np.maximum(-slack, 0.0) + x * np.maximum(slack, 0.0))[few])
    assert slack_gap(x[few], upper[few], slack[few], None) == pytest.approx(part, rel=1e-12)
