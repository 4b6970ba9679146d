"""The judges are judged: Clarabel against closed forms and against OSQP, primal against dual."""

from __future__ import annotations

import doctest
import sys

import numpy as np
import pytest
import scipy.sparse

import qpsvm
import reference
from problems import INSTANCES
from problems.programs import smooth
from reference import TEXTBOOK_CLASSES
from reference.solving.pairs import PairTextbook
from reference.textbook import Candidate
from tests import independent
from tests.cases import QUICK_INSTANCES


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=list(INSTANCES))
def test_closed_forms(instance):
    known = reference.answer(instance)
    exact = known.value if instance.exact is None else instance.exact
    scale = float(TEXTBOOK_CLASSES[instance.family](instance.data()).scale)
    assert abs(known.value - exact) <= known.residual + 4 * independent.EPS * abs(exact)
    assert known.residual <= 1e-6 * abs(known.value) + 1e-15 * scale


@pytest.mark.slow  # it checks the reference, not the library
@pytest.mark.parametrize("name", sorted(QUICK_INSTANCES))
def test_clarabel_and_osqp_agree(name):
    """OSQP may be inexact; its verified residual says by how much."""
    instance = INSTANCES[name]
    clarabel, osqp = reference.answer(instance), reference.answer_osqp(instance)
    assert abs(clarabel.value - osqp.value) <= clarabel.residual + osqp.residual


@pytest.mark.parametrize("family", TEXTBOOK_CLASSES)
def test_primal_and_dual_agree(family):
    """Both textbook problems of a random instance have one value; the dual's x attains it."""
    instance = next(i for i in INSTANCES.values() if i.family == family and "random" in i.tags)
    form = TEXTBOOK_CLASSES[family](instance.data())
    if isinstance(form, PairTextbook):
        pair, known = form.pair("Clarabel"), reference.answer(instance)
        assert pair.primal == pytest.approx(known.value, rel=1e-6)
        assert pair.dual == pytest.approx(known.value, rel=1e-6)
        return
    primal, dual, known = form.primal(), form.dual(), reference.answer(instance)
    for candidate in (primal, dual):
        assert candidate.value == pytest.approx(known.value, rel=1e-6)
        upper, lower = form.bounds(form.standard_form().repair(candidate.x))
        assert lower <= known.value + known.residual <= upper + 2 * known.residual


def test_an_unverified_answer_is_not_believed(monkeypatch):
    """A solver that calls any corner optimal is found out by its bounds."""
    module, instance = sys.modules["reference.answer"], INSTANCES["meb/random-linear"]
    liar = type("Liar", (TEXTBOOK_CLASSES["meb"],), {})
    liar.primal = liar.dual = lambda self: Candidate(0.0, np.eye(len(self.K))[0])
    monkeypatch.setitem(TEXTBOOK_CLASSES, "meb", liar)
    monkeypatch.setattr(module, "polish", lambda form, x: x)
    with pytest.raises(reference.UnverifiedError, match="random-linear"):
        reference.answer.__wrapped__(instance)


# --- problems that a user declared ----------------------------------------------------------------


def declared_problems():
    """One problem of each class, on points that no instance of the catalogue has."""
    rng = np.random.default_rng(71)
    X, w = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0, 1.0, -1.0)
    K, box = qpsvm.RBF(X, 0.4), qpsvm.domains.Box(-0.1 * w[:3], 0.2 * w[:3])
    low = qpsvm.LowRank(K, rank=12)
    return [
        qpsvm.MEBDual(qpsvm.Laplacian(X, 0.2)),
        qpsvm.L2SVMDual(qpsvm.Polynomial(X, 2, 0.5, 1.0), y, C=w),
        qpsvm.PolytopeDistanceDual(qpsvm.Cached(K), y, chi=2.0),
        qpsvm.HingeDual(qpsvm.Precomputed(K.block(np.arange(40))), y, C=w),
        qpsvm.HingeDual(low, y, C=3.0, bias=False),
        qpsvm.HingePrimal(X, y, C=0.7),
        qpsvm.LPSVMPrimal(X, y),
        qpsvm.LSSVMPrimal(scipy.sparse.csr_array(X), y, bias=False),
        qpsvm.OneClassDual(K, 0.3, sample_weight=w),
        qpsvm.NuSVCDual(K, y, 0.2),
        qpsvm.SVDDDual(K, C=0.1),
        qpsvm.SVRDual(K, X[:, 1], C=5.0, epsilon=0.05),
        qpsvm.L2SVRDual(K, X[:, 1], C=5.0, epsilon=0.05),
        qpsvm.NuSVRDual(K, X[:, 1], C=2.0, nu=0.4),
        qpsvm.LeastSquares(X, w, box),
        qpsvm.QuadraticProgram(X.T @ X, w[:3], qpsvm.domains.L1Ball(3, 0.4)),
        qpsvm.LeastSquares(X, w, qpsvm.domains.SimplexProduct(np.array([0, 1, 0]))),
    ]


@pytest.mark.parametrize("problem", declared_problems(), ids=lambda p: type(p).__name__)
def test_a_declared_problem_is_answered_as_its_solution_certifies(problem):
    known = reference.answer(problem)
    found = qpsvm.solve(problem, tol=1e-4).certificate
    near = known.residual + 1e-12 * abs(known.value)
    assert found.lower - near <= known.value <= found.upper + near
    assert found.upper - found.lower <= 1e-3 * abs(known.value) + 1e-9


def general_problems():
    """Return declared problems over general domains, polyhedra first, and whether they are one."""
    rng = np.random.default_rng(5)
    square = [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 0]]
    layers = [[0, 1], [0, 2], [1, 3], [2, 3], [1, 2]]
    sets = [
        (qpsvm.domains.hypercube(6), True),
        (qpsvm.domains.L1Ball(6, 0.7), True),
        (qpsvm.domains.KSubset(6, 2), True),
        (qpsvm.domains.PerfectMatchings(square), True),
        (qpsvm.domains.SpanningTrees(layers), True),
        (qpsvm.domains.FlowPolytope(*np.transpose(layers), 0, 3), True),
        (qpsvm.domains.MatroidBases(6, lambda s: len(set(np.array(s) // 2)) == len(s)), True),
        (qpsvm.domains.Hull(rng.standard_normal((9, 6))), True),
        (qpsvm.domains.L2Ball(6, 0.7), False),
        (qpsvm.domains.Spectrahedron(3, 1.0, solid=True), False),
    ]
    return [
        (qpsvm.LeastSquares(rng.standard_normal((8, s.m)), rng.standard_normal(8), s), polyhedron)
        for s, polyhedron in sets
    ]


@pytest.mark.parametrize(
    ("problem", "polyhedron"),
    general_problems(),
    ids=[type(p.domain).__name__ for p, _ in general_problems()],
)
def test_osqp_and_clarabel_agree_on_general_domains(problem, polyhedron):
    """Both bound the optimum that the certificate encloses; OSQP answers polyhedra alone."""
    found = qpsvm.solve(problem, tol=1e-6, max_iter=50_000).certificate
    known = reference.answer(problem)
    near = known.residual + 1e-12 * abs(known.value)
    assert found.lower - near <= known.value <= found.upper + near
    if not polyhedron:
        with pytest.raises(reference.UnverifiedError, match="OSQP"):
            reference.answer_osqp(problem)
        return
    osqp = reference.answer_osqp(problem)
    assert osqp.solver == "OSQP"
    assert abs(known.value - osqp.value) <= known.residual + osqp.residual


def test_a_declared_smooth_program_is_answered_as_its_solution_certifies():
    """Its functions take matrices on a domain of matrices; OSQP does not project on it."""
    target = np.array([[0.6, 0.1], [0.1, 0.2]])
    problem = qpsvm.SmoothProgram(
        lambda x: float(np.sum((x - target) ** 4) + 0.5 * np.sum(x**2)),
        lambda x: 4.0 * (x - target) ** 3 + x,
        qpsvm.domains.Spectrahedron(2, 1.0),
        smoothness=30.0,
    )
    known = reference.answer(problem)
    found = qpsvm.solve(problem, tol=1e-5, max_iter=50_000).certificate
    assert found.lower - known.residual <= known.value <= found.upper + known.residual
    with pytest.raises(reference.UnverifiedError, match="OSQP"):
        reference.answer_osqp(problem)


def smooth_programs():
    """Return declared smooth programs on polyhedra, by name."""
    rng = np.random.default_rng(8)
    c, columns = rng.standard_normal(12), rng.integers(-1, 2, (4, 12))
    least = np.full(4, 0.25)  # what the search starts from on the simplex
    matroid = qpsvm.domains.MatroidBases(
        12, lambda s: np.linalg.matrix_rank(columns[:, s]) == len(s)
    )
    bend = float(np.max(c**2 * np.exp(np.abs(c))))
    exponentials = (lambda x: float(np.sum(np.exp(c * x))), lambda x: c * np.exp(c * x))
    return {
        "optimal-start": qpsvm.SmoothProgram(
            lambda x: 0.5 * float(np.sum((x - least) ** 2)),
            lambda x: x - least,
            qpsvm.domains.simplex(4),
            smoothness=1.0,
        ),
        "zero-start": qpsvm.SmoothProgram(
            lambda x: 0.5 * float(x @ x), np.copy, qpsvm.domains.L1Ball(4, 1.0), smoothness=1.0
        ),
        "matroid": qpsvm.SmoothProgram(*exponentials, matroid, smoothness=bend),
        "hull": qpsvm.SmoothProgram(
            *exponentials, qpsvm.domains.Hull(rng.uniform(0.0, 1.0, (7, 12))), smoothness=bend
        ),
    }


@pytest.mark.parametrize("name", smooth_programs())
def test_smooth_programs_are_answered_on_the_scale_of_the_domain(name):
    """Where the search starts at the minimizer; with the most elements of a matroid; on a hull."""
    problem = smooth_programs()[name]
    found = qpsvm.solve(problem, tol=1e-5, max_iter=50_000).certificate
    for known in (reference.answer(problem), reference.answer_osqp(problem)):
        assert found.lower - known.residual <= known.value <= found.upper + known.residual


@pytest.mark.parametrize("function", ["value", "gradient"])
def test_a_function_that_is_not_finite_is_not_believed(function):
    """It is finite where its declaration looked, near the center, and not near the minimizer."""

    def within(x, result):
        return result if x[0] < 0.9 else result * np.nan

    functions = {"value": lambda x: 0.5 * float(x @ x) - 2.0 * x[0], "gradient": lambda x: x - goal}
    goal, finite = np.array([2.0, 0.0, 0.0]), functions[function]
    functions[function] = lambda x: within(x, finite(x))
    problem = qpsvm.SmoothProgram(**functions, domain=qpsvm.domains.simplex(3), smoothness=1.0)
    with pytest.raises(reference.UnverifiedError, match=f"the {function} is not finite"):
        reference.answer(problem)


@pytest.mark.parametrize("instance", smooth.SMOOTH_INSTANCES.values(), ids=str)
def test_every_method_of_smooth_programs_encloses_the_reference(instance):
    known, problem = reference.answer(instance), smooth.declare(instance)
    if instance.exact is not None:
        assert abs(known.value - instance.exact) <= known.residual
    for method in qpsvm.methods(problem):
        found = qpsvm.solve(problem, method, tol=1e-3, max_iter=2000).certificate
        assert found.lower - known.residual <= known.value <= found.upper + known.residual
    if "round" not in instance.tags:
        osqp = reference.answer_osqp(instance)
        assert abs(known.value - osqp.value) <= known.residual + osqp.residual


class OwnBall(qpsvm.domains.L1Ball):
    """A domain that the reference does not know by name."""


@pytest.mark.parametrize(
    ("problem", "named"),
    [
        (np.eye(3), "got ndarray"),
        (qpsvm.MEBDual(qpsvm.CustomKernel(np.eye(2), np.dot, psd="assume")), "got CustomKernel"),
        (qpsvm.L2SVMDual(np.eye(2), [1, -1], bias=False), "without a bias"),
        (qpsvm.LeastSquares(np.eye(2), [1, 2], OwnBall(2, 1.0)), "got OwnBall"),
        (
            qpsvm.LeastSquares(np.eye(13), np.ones(13), qpsvm.domains.MatroidBases(13, np.any)),
            "at most 12 elements",
        ),
    ],
    ids=["array", "kernel", "bias", "domain", "matroid"],
)
def test_what_has_no_reference_is_said(problem, named):
    with pytest.raises(ValueError, match=named):
        reference.answer(problem)


@pytest.mark.parametrize("name", ["answer", "declared"])
def test_the_examples_of_its_docstrings_run(name):
    found = doctest.testmod(sys.modules[f"reference.{name}"])
    assert found.attempted >= 3 and found.failed == 0
