"""General quadratics: every domain by every method, the two drivers, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import qpsvm
from problems.instance import Instance
from problems.programs import general
from qpsvm import InputError, LeastSquares, MethodMismatchError, QuadraticProgram, Status
from qpsvm.domains import Birkhoff, KSubset, L1Ball, hypercube, simplex
from qpsvm.gram.operator import Residual
from qpsvm.solvers.base import Stop
from qpsvm.solvers.frank_wolfe.fully_corrective import FullyCorrective
from qpsvm.solvers.frank_wolfe.general import ActiveSet, VertexFrankWolfe, VertexState
from qpsvm.solvers.frank_wolfe.simplex import FrankWolfe
from qpsvm.solvers.methods import METHODS
from reference.programs import general as reference

DOMAIN_METHOD_CASES = [
    pytest.param((instance, method), id=f"{instance}-{method}")
    for instance in general.INSTANCES.values()
    for method in qpsvm.methods(general.declare(instance))
]


@dataclass(frozen=True)
class Case:
    instance: Instance
    method: str

    @property
    def tol(self) -> float:
        return METHODS[self.method].gap

    @property
    def promised(self) -> bool:
        """Whether the gap declared in METHODS has to be reached.

        Rates 1/t promise no relative gap where the optimum is 0, and the methods that move weight
        between vertices promise nothing where these are infinitely many, nor where A has fewer
        rows than columns; there `fcfw`, whose corrections see inner products alone, does not end at
        the rounding of A itself, which a residual of 0 takes.
        """
        slow = self.tol > 1e-6 and "zero-optimum" in self.instance.tags
        slow |= self.method == "fcfw" and {"zero-optimum", "wide"} <= self.instance.tags
        moves = self.method in ("mfw", "pfw", "bpfw", "dicg")
        return not (slow or (moves and {"round", "wide"} & self.instance.tags))

    @cached_property
    def result(self):
        budget = min(METHODS[self.method].budget, 20_000) if self.promised else 500
        problem = general.declare(self.instance)
        return qpsvm.solve(problem, self.method, tol=self.tol, max_iter=budget)


@pytest.fixture(scope="module", params=DOMAIN_METHOD_CASES)
def case(request):
    return Case(*request.param)


def test_reaches_the_gap_it_declares(case):
    if case.promised:
        assert case.result.status is Status.OPTIMAL
        assert case.result.n_iter <= METHODS[case.method].budget


def test_bounds_enclose_the_reference(case):
    c, known = case.result.certificate, reference.answer(case.instance)
    assert c.lower <= known.value + known.residual
    assert known.value <= c.upper + known.residual
    if case.instance.exact is not None:
        assert c.lower - c.roundoff <= case.instance.exact <= c.upper + c.roundoff


def test_answer_is_feasible_by_the_explicit_constraints(case):
    assert reference.violation(case.instance, case.result.x) <= 1e-11
    assert case.result.certificate.violation <= 1e-11


def test_value_is_that_of_the_data(case):
    data, x = case.instance.data(), case.result.x
    if "A" in data:
        value = 0.5 * float(np.sum((data["A"] @ x - data["b"]) ** 2))
        size = float(data["b"] @ data["b"])
    else:
        value = float(0.5 * x @ (data["Q"] @ x) + data["c"] @ x)
        size = 1.0
    assert case.result.value == pytest.approx(value, rel=1e-12, abs=1e-14 * size)
    assert case.result.model.point.ravel().tobytes() == x.tobytes()


def test_same_call_same_bits_in_any_chunks(case):
    def advanced(*chunks):
        qp = general.declare(case.instance).as_qp()
        solver = METHODS[case.method].maker(qp)()
        with qp.gram.kernel.hold(1 << 28) as store:
            qp = replace(qp, store=store)
            state = solver.init(qp, None, np.random.default_rng(0))
            for chunk in chunks:
                while chunk > 0:
                    reply = solver.advance(qp, state, chunk)
                    chunk -= reply.steps
                    if reply.stop is not Stop.BUDGET:
                        return state.x.tobytes(), state.product.tobytes()
        return state.x.tobytes(), state.product.tobytes()

    assert advanced(20) == advanced(7, 13) == advanced(*[1] * 20)


# --- one rule, two drivers ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["toward", "away", "pairwise", "blended"])
def test_both_drivers_make_the_same_steps_on_the_simplex(rule, rng):
    """The vertex driver on least squares or Q, the compiled one on the columns of Q = B'B.

    It is set to the other one's point before each step: an exact line search between two vertices
    makes their gradients tie, and rounding decides which one is next.
    """
    B, b = rng.standard_normal((30, 20)), rng.standard_normal(30)
    squares = LeastSquares(B, b, simplex(20)).as_qp()
    quadratic = QuadraticProgram(B.T @ B, -B.T @ b, simplex(20)).as_qp()
    one, two = FrankWolfe(rule=rule), VertexFrankWolfe(rule=rule)
    ties = 0
    with quadratic.gram.kernel.hold(1 << 28) as store:
        quadratic = replace(quadratic, store=store)
        s = one.init(quadratic, np.eye(20)[0], rng)
        for k in range(60):
            before = s.x.copy()
            done = one.advance(quadratic, s, 1).steps
            for qp in (squares, quadratic):
                t = state_at(qp, before)
                two.advance(qp, t, done)
                if np.abs(t.x - s.x).max() > 1e-10:
                    g = B.T @ (B @ before - b)
                    top = np.sort(g[before > 0])
                    assert min(top[-1] - top[-2], top[1] - top[0]) < 1e-10, f"step {k}"
                    ties += 1
    assert ties <= 30


def state_at(qp, x):
    """The vertex driver's state at a point of the simplex."""
    support = np.flatnonzero(x)
    vertices = np.eye(len(x))[support]
    active = ActiveSet(vertices[0], qp.gram.product(vertices[0]))
    for v in vertices[1:]:
        active.add(v, qp.gram.product(v), 0.0)
    active.weights[:] = x[support]
    return VertexState(x.copy(), qp.gram.product(x), active)


@pytest.mark.parametrize("rule", ["toward", "away"])
def test_both_drivers_give_the_same_iterates_on_the_simplex(rule, rng):
    B, b = rng.standard_normal((30, 20)), rng.standard_normal(30)
    squares = LeastSquares(B, b, simplex(20)).as_qp()
    quadratic = QuadraticProgram(B.T @ B, -B.T @ b, simplex(20)).as_qp()
    one, two = FrankWolfe(rule=rule), VertexFrankWolfe(rule=rule)
    with quadratic.gram.kernel.hold(1 << 28) as store:
        quadratic = replace(quadratic, store=store)
        s, t = one.init(quadratic, np.eye(20)[0], rng), two.init(squares, np.eye(20)[0], rng)
        for _ in range(60):
            two.advance(squares, t, one.advance(quadratic, s, 1).steps)
            np.testing.assert_allclose(t.x, s.x, atol=1e-10)


@pytest.mark.parametrize("method", ["fw", "mfw", "pfw", "bpfw", "fcfw"])
def test_the_simplex_keeps_its_compiled_path(method):
    qp = QuadraticProgram(np.eye(3), np.zeros(3), simplex(3)).as_qp()
    assert not isinstance(METHODS[method].maker(qp)(), VertexFrankWolfe | FullyCorrective)
    qp = LeastSquares(np.eye(3), np.zeros(3), simplex(3)).as_qp()
    assert isinstance(METHODS[method].maker(qp)(), VertexFrankWolfe | FullyCorrective)


# --- input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "csr", "operator"])
def test_all_kinds_of_A_agree(kind, rng):
    A = rng.standard_normal((20, 12)) * (rng.random((20, 12)) < 0.5)
    b = rng.standard_normal(20)
    made = {"dense": A, "csr": sp.csr_matrix(A), "operator": sla.aslinearoperator(A)}[kind]
    problem = LeastSquares(made, b, L1Ball(12, 1.0))
    result = qpsvm.solve(problem, "apg", tol=1e-9)
    dense = qpsvm.solve(LeastSquares(A, b, L1Ball(12, 1.0)), "bpfw", tol=1e-9)
    assert result.value == pytest.approx(dense.value, rel=1e-8)
    assert ("nep-sfw" in qpsvm.methods(problem)) == (kind != "operator")


def test_an_operator_may_return_its_argument(rng):
    b = rng.standard_normal(9)
    one = sla.LinearOperator((9, 9), matvec=np.ravel, rmatvec=np.ravel, dtype=float)
    for method in ("fw", "bpfw", "fcfw", "nep-fw", "nep-fc", "dicg"):
        results = [qpsvm.solve(LeastSquares(A, b, Birkhoff(3)), method) for A in (one, np.eye(9))]
        assert results[0].x.tobytes() == results[1].x.tobytes()
        assert results[0].converged


def test_smoothness_is_an_upper_bound_whatever_way_it_is_found(rng, monkeypatch):
    A = rng.standard_normal((30, 25))
    exact = np.linalg.norm(A, 2) ** 2
    b = np.ones(30)
    assert Residual(A, b).smoothness == pytest.approx(exact)
    assert Residual(A, b, 7.0).smoothness == 7.0
    monkeypatch.setattr("qpsvm.gram.operator.MAX_ORDER_FOR_EXACT_EIGENVALUE", 5)
    assert exact <= Residual(A, b).smoothness <= 1.01 * exact
    qp = QuadraticProgram(A.T @ A, np.zeros(25), hypercube(25)).as_qp()
    assert exact <= qp.gram.smoothness <= 1.01 * exact


def test_not_convex_is_said():
    problem = QuadraticProgram(np.diag([1.0, -1.0]), np.zeros(2), hypercube(2))
    result = qpsvm.solve(problem, "fw", x0=np.array([0.5, 0.5]), max_iter=1000)
    assert result.status is Status.NONCONVEX and result.certificate.lower == -np.inf


def test_warm_start_ends_at_once(rng):
    A, b = rng.standard_normal((20, 10)), rng.standard_normal(20)
    problem = LeastSquares(A, b, hypercube(10))
    first = qpsvm.solve(problem, "apg", tol=1e-9)
    for method in ("fw", "bpfw", "nep-fw", "dicg", "apg"):
        again = qpsvm.solve(problem, method, x0=first, tol=1e-6)
        assert again.converged and again.n_iter == 0


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LeastSquares(np.eye(3), np.ones(2), hypercube(3)), "b"),
        (lambda: LeastSquares(np.eye(3), np.ones(3), hypercube(2)), "domain"),
        (lambda: LeastSquares(np.eye(3), np.ones(3), "cube"), "domain"),
        (lambda: LeastSquares([[np.nan]], [1.0], hypercube(1)), "A"),
        (lambda: QuadraticProgram(np.ones((2, 3)), np.ones(2), hypercube(2)), "K|Q"),
        (lambda: QuadraticProgram(sp.eye(3, 2), np.ones(2), hypercube(2)), "Q"),
        (lambda: QuadraticProgram(np.eye(2), [1.0, np.inf], hypercube(2)), "c"),
        (lambda: LeastSquares(np.eye(2), [1, 1], hypercube(2), smoothness=0.0), "smoothness"),
    ],
)
def test_malformed_data_are_refused(make, name):
    with pytest.raises(InputError, match=name):
        make()


def test_a_method_that_does_not_fit_is_refused():
    problem = LeastSquares(np.eye(9), np.ones(9), Birkhoff(3))
    for method in ("smo", "apg"):
        with pytest.raises(MethodMismatchError, match="nep-fw"):
            qpsvm.solve(problem, method)
    with pytest.raises(InputError, match="rule"):
        qpsvm.solve(problem, "nep-fw", rule="away")


def test_the_door_says_the_natural_shape():
    problem = LeastSquares(np.eye(9), np.arange(9.0), Birkhoff(3))
    result = qpsvm.solve(problem, "dicg", tol=1e-6)
    assert result.model.point.shape == (3, 3)
    assert "shape (3, 3)" in str(result)
    assert KSubset(4, 2).shape == (4,)
