"""The judge proves ordinary answers and sees wrong ones; campaigns run by ``python -m tests.fuzz``."""

from __future__ import annotations

import sys
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import qpsvm
from tests.fuzz.campaign import handed_over, method_of, solved
from tests.fuzz.judge import judge
from tests.fuzz.problem import CLASS_OF_FAMILY, Problem
from tests.fuzz.quadratic import quadratic_of
from tests.fuzz.random_problems.generator import SeededChoices, problem_of, problems_of_seed
from tests.fuzz.random_problems.strategies import problems
from tests.fuzz.reproduce import write_script

DIGEST_OF_SEED_7 = "ef3c139d2564365d"
"""What 60 problems of a seed were: a change of the tables changes every campaign."""

RNG = np.random.default_rng(3)
X = RNG.standard_normal((20, 2))
Y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(20) > 0, 1.0, -1.0)

SIMPLE_CASES = {
    "hinge": {"y": Y, "C": 1.0, "bias": True},
    "l2_svm": {"y": Y, "C": 1.0, "bias": True},
    "meb": {},
    "svdd": {"C": 0.2},
    "one_class": {"nu": 0.3},
    "nu_svc": {"y": Y, "nu": 0.4},
    "polytope_distance": {"y": Y, "chi": 1.0},
    "svr": {"y": X[:, 0], "C": 1.0, "epsilon": 0.1, "bias": True},
    "nu_svr": {"y": X[:, 0] ** 2, "C": 1.0, "nu": 0.4},
    "l2_svr": {"y": X[:, 0], "C": 1.0, "epsilon": 0.1, "bias": True},
    "hinge_primal": {"y": Y, "C": 1.0, "bias": True},
    "ls_svm": {"y": Y, "C": 1.0, "bias": True},
    "lp_svm": {"y": Y, "C": 1.0, "bias": True},
}


def simple(family: str, kernel: str = "linear") -> Problem:
    settings = {"gamma": 0.5} if kernel == "rbf" else {}
    takes_points = family in ("hinge_primal", "ls_svm", "lp_svm") and kernel == "linear"
    points = X + 3.0 if family == "one_class" else X  # a hyperplane away from the origin
    return Problem(
        family, kernel, settings, points, "C", SIMPLE_CASES[family], "auto", 1e-6, takes_points
    )


def answer(problem: Problem):
    return qpsvm.solve(handed_over(problem)[0], tol=problem.tol)


every_simple = pytest.mark.parametrize("family", SIMPLE_CASES)


def test_the_problems_of_a_seed_are_always_the_same():
    one, other = (list(problems_of_seed(n, 7, 60)) for n in (60, 30))
    for a, b in zip(one, other, strict=False):
        assert a.describe() == b.describe()
        assert a.X.tobytes() == b.X.tobytes()
    assert len({problem.family for problem in one}) >= len(CLASS_OF_FAMILY) - 1
    drawn = [(p.family, p.kernel, p.X.shape, p.tol, p.method, p.notes) for p in one]
    assert sha256(repr(drawn).encode()).hexdigest()[:16] == DIGEST_OF_SEED_7


def test_a_method_that_is_added_leaves_most_problems_with_theirs():
    numbers = [f"#{number}" for number in range(400)]
    few, more = ["smo", "mfw", "fw"], ["smo", "mfw", "fw", "newer"]
    before, after = ([method_of(number, names) for number in numbers] for names in (few, more))
    assert set(before) == {"auto", *few}
    changed = {new for old, new in zip(before, after, strict=True) if old != new}
    assert changed == {"newer"}


@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(12))
def test_hypothesis_draws_problems_whose_answers_hold(problem):
    assert not solved(replace(problem, method="auto")).failures


@every_simple
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_judge_proves_an_ordinary_answer(family, kernel):
    outcome = solved(simple(family, kernel), seconds=20.0)
    assert outcome.status == "OPTIMAL" and not outcome.failures
    assert outcome.optimal is True and outcome.enclosed is True and outcome.error <= 1e-6


@every_simple
def test_the_judge_refutes_a_lower_bound_above_the_optimum(family):
    result = answer(simple(family))
    c = result.certificate
    high = c.upper + 1e-3 * abs(c.upper)
    lie = replace(result, certificate=replace(c, lower=high, upper=high, gap=0.0, roundoff=0.0))
    kinds = {kind for kind, _ in judge(simple(family), lie).failures}
    assert {"bounds", "value"} <= kinds


@every_simple
def test_the_judge_refutes_optimality_at_another_point(family):
    """A feasible point that is not the minimizer, with the value and the gap of the true one."""
    problem = simple(family)
    result, other = answer(problem), answer(_with_other_values(problem))
    kinds = {kind for kind, _ in judge(problem, replace(result, x=other.x)).failures}
    assert kinds & {"value", "optimal", "gap"}


def _with_other_values(problem: Problem) -> Problem:
    return replace(problem, X=problem.X * np.array([1.0, -0.3]) + 0.2)


@every_simple
def test_the_judge_sees_a_point_outside_of_the_domain(family):
    result = answer(simple(family))
    if family in ("ls_svm",):  # its weights have no bounds
        lie = replace(result, x=result.x * 1.001)
    elif family in ("hinge_primal", "lp_svm"):
        lie = replace(result, dual=result.dual + 1e-6)
    else:
        lie = replace(result, x=result.x * 1.001)
    kinds = {kind for kind, _ in judge(simple(family), lie).failures}
    assert kinds & {"infeasible", "value"}


def test_the_judge_sees_predictions_of_another_model():
    problem = simple("hinge")
    result = answer(problem)
    shifted = replace(result.model, b=result.model.b + 1e-6)
    object.__setattr__(shifted, "decision_function", result.model.decision_function)
    kinds = {kind for kind, _ in judge(problem, replace(result, model=shifted)).failures}
    assert "prediction" in kinds


def test_a_failure_is_made_small_and_its_script_runs(tmp_path, monkeypatch):
    """A kernel that is called positive semidefinite and is not: NONCONVEX is then a failure."""
    K = np.eye(12)
    K[3, 4] = K[4, 3] = 2.0
    problem = Problem("meb", "precomputed", {}, K, "C", {}, "smo", 1e-6)

    class InProcess:
        def solve(self, problem):
            outcome = solved(problem)
            if outcome.status == "NONCONVEX":
                outcome.failures.append(("status", "NONCONVEX"))
            return outcome

    solver = InProcess()
    path = write_script(tmp_path, 0, solver.solve(problem), solver)
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert space["result"].status.name == "NONCONVEX"
    assert space["X"].shape == (2, 2)


@pytest.mark.parametrize("scale, C", [(1.4e-150, 1e6), (246233.0, 1e150)])
def test_the_judge_stretches_weights_whose_margins_have_no_square_in_float64(scale, C):
    """Margins of 1e-294 and of 1e160: their squares underflow and overflow."""
    values = {"y": np.array([1.0, -1.0]), "C": C, "bias": False}
    points = scale * np.array([[1.0, 0.0], [-0.4, 0.0]])
    problem = Problem("hinge", "linear", {}, points, "C", values, "auto", 1e-6, False)
    program = quadratic_of(problem)
    assert program.lower(np.full(2, C)) < program.value(np.zeros(2)).value


@pytest.mark.skipif(
    sys.platform != "linux", reason="what a process holds is read as Linux shows it"
)
def test_paths_in_a_loop_hold_no_more_threads_and_files(fresh_process):
    """In a process of their own: a cluster of other tests opens and closes files in this one."""
    code = """
from tests.fuzz.soak import grown, soak_paths
records = soak_paths(60, 0, 6)
print(len(records), [part for part in grown(records) if "bytes" not in part])
"""
    assert fresh_process(code).split("\n")[-2] == "6 []"


@pytest.mark.parametrize("number", [377, 1046, 2175, 2392, 4614, 4654, 7903, 9310])
def test_problems_of_seed_5_that_broke_a_promise_keep_it(number):
    outcome = solved(problem_of(SeededChoices(5, number), 2000), seconds=20.0)
    assert not outcome.failures
