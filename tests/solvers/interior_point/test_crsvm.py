"""The constraint-reduced interior point method: its variants, its linear algebra, its exact end."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
import reference
from problems import INSTANCES, select
from problems.clouds import two_clouds
from qpsvm import RBF, HingeDual, HingePrimal, InputError, Linear, MethodMismatchError, Status
from qpsvm.solvers.base import Stop
from qpsvm.solvers.interior_point import crsvm, normal_equations, normal_matrix
from qpsvm.solvers.interior_point.crossover import crossover
from qpsvm.solvers.interior_point.iterate import cold
from qpsvm.solvers.interior_point.normal_equations import NormalEquations
from qpsvm.solvers.methods import METHODS

# Section 5.1 of Jung, O'Leary and Tits: two constraint choices, three ways to size the set.
METHOD_VARIANTS = {
    f"{choice}, {name}": {"constraint_choice": choice, **sizing}
    for choice in ("omega", "one-sided")
    for name, sizing in {
        "fixed": {"adaptive": False, "q_upper": 0.5},
        "adaptive": {"balanced": False},
        "adaptive balanced": {},
    }.items()
}
SOFT_MARGIN_INSTANCES = [
    instance for instance in select(family="hinge_primal", exclude=("hard-margin",))
]
QUICK_INSTANCES = ("random-linear-C1e3", "random-weighted", "random-sparse", "one-against-all")


def fits_crsvm(instance):
    return "crsvm" in qpsvm.methods(instance.declare())


def solve(problem, method="crsvm", **options):
    return qpsvm.solve(problem, method, **{"tol": 1e-8, **options})


def agrees(result, instance, tol=1e-7):
    known = reference.answer(instance)
    return abs(result.value - known.value) <= tol * abs(known.value) + known.residual


@pytest.mark.parametrize("variant", METHOD_VARIANTS, ids=str)
@pytest.mark.parametrize(
    "instance",
    [
        pytest.param(
            i, marks=() if i.name.endswith(QUICK_INSTANCES) else pytest.mark.slow, id=i.name
        )
        for i in SOFT_MARGIN_INSTANCES
    ],
)
def test_every_variant_reaches_full_accuracy(instance, variant):
    result = solve(instance.declare(), max_iter=60, **METHOD_VARIANTS[variant])
    assert result.status is Status.OPTIMAL
    assert agrees(result, instance)


@pytest.mark.parametrize("name", QUICK_INSTANCES)
def test_the_printed_form_gets_there_too(name):
    instance = INSTANCES[f"hinge_primal/{name}"]
    for options in METHOD_VARIANTS.values():
        result = solve(instance.declare(), reduction="paper", correctors=0, **options)
        assert result.status is Status.OPTIMAL
        assert agrees(result, instance)


@pytest.mark.parametrize("name", ["random-linear-C1", "digits-linear", "breast-cancer-linear"])
def test_a_preconditioner_of_few_rows_keeps_the_number_of_iterations(name):
    problem = INSTANCES[f"hinge_primal/{name}"].declare()
    whole, reduced = solve(problem, "pdipm"), solve(problem, q_upper=0.1)
    assert whole.counters["rows"] == whole.n_iter * problem.X.shape[0]
    assert reduced.counters["rows"] < 0.8 * whole.counters["rows"]
    assert reduced.counters["cg"] > 0
    assert reduced.n_iter <= whole.n_iter + 2


def test_the_papers_start_and_plain_corrector():
    X, y = two_clouds(300, 5, seed=1, distance=1.5)
    result = solve(HingePrimal(X / 5, y), start="paper", correctors=0)
    assert result.status is Status.OPTIMAL and result.counters["corrections"] == 0
    assert result.value == pytest.approx(solve(HingePrimal(X / 5, y), "smo").value, rel=1e-7)


def newton(interior, e, f):
    """Return the residual of each Newton equation of section 5.1, relative to its terms."""
    X = interior.points.X
    t, d, y = interior.tau - interior.alpha - interior.u, interior.delta, interior.y
    rows = y * (X @ interior.w) - interior.gamma * y + interior.xi - 1 - interior.s
    signed = y * (X @ d.w) - d.gamma * y
    equations = (
        (d.w - X.T @ (y * d.alpha), interior.w - X.T @ (y * interior.alpha)),
        (y @ d.alpha, y @ interior.alpha),
        (-d.alpha - d.u, t),
        (signed + d.xi - d.s, rows),
        (interior.s * d.alpha + interior.alpha * d.s, interior.s * interior.alpha + e),
        (interior.u * d.xi + interior.xi * d.u, interior.xi * interior.u + f),
    )
    return [float(np.max(np.abs(a + b)) / (1 + np.max(np.abs(b)))) for a, b in equations]


@pytest.mark.parametrize("active", [None, np.arange(0, 80, 2)], ids=["all rows", "half of them"])
def test_a_direction_solves_newtons_equations(rng, active):
    X, y = two_clouds(80, 4, seed=2)
    tau = rng.uniform(0.5, 2.0, 80)
    interior = cold(NormalEquations(X, np.sum(X**2, axis=1)), y, tau, 0.3 * tau, 0.6 * tau)
    interior.s *= rng.uniform(0.1, 3, 80)
    interior.compute_scores()
    interior.prepare_iteration()
    interior.factor(active, exact=False)
    interior.solve(1e-12)
    assert max(newton(interior, 0.0, 0.0)) < 1e-9
    e = interior.delta.s * interior.delta.alpha - 0.01
    f = interior.delta.xi * interior.delta.u - 0.01
    interior.correct(0.01)
    interior.solve(1e-12)
    assert max(newton(interior, e, f)) < 1e-9


def matrix(X, d, active):
    """Return M_Q as it is defined."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, np.float64)
    rows = np.arange(len(d)) if active is None else active
    Z, d = X[rows], d[rows]
    Z = Z - d @ Z / np.sum(d)
    return np.eye(X.shape[1]) + Z.T @ (d[:, None] * Z)


def factored(X, d, active, exact=False):
    squares = np.asarray(sp.csr_matrix(X).multiply(X).sum(axis=1)).ravel()
    points = NormalEquations(X, squares)
    points.factor(d, points.transposed(d), active, exact)
    return points


@pytest.mark.parametrize("active", [None, np.arange(0, 60, 3)], ids=["all", "some"])
@pytest.mark.parametrize(
    "kind", ["dense", "float32", "offset", "csr", "wide", "wide csr", "sparse"]
)
def test_the_factor_is_that_of_the_rows_asked_for(rng, monkeypatch, kind, active):
    X = rng.standard_normal((60, 100 if "wide" in kind else 7))
    X[:, 2] *= 10
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "offset":
        X += 1e5
    elif kind != "dense" and kind != "wide":
        X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.5, X, 0))
    if kind == "sparse":  # as it is for many columns
        monkeypatch.setattr(normal_equations, "MAX_DENSE_ORDER", 3)
    d = 10.0 ** rng.uniform(-6, 3, 60)
    points = factored(X, d, active, exact=kind == "sparse")
    M, b = matrix(X, d, active), rng.standard_normal(X.shape[1])
    assert np.linalg.eigvalsh(M)[0] >= 1 - 1e-7
    dw, centered = points.solve(b)
    tight = 1e-6 if kind == "offset" else 1e-9
    np.testing.assert_allclose(dw, np.linalg.solve(M, b), atol=tight * np.max(np.abs(dw)))
    mean = d @ (X.toarray() if sp.issparse(X) else X) / np.sum(d)
    np.testing.assert_allclose(centered, X @ dw - mean @ dw, atol=1e-9 * (1 + abs(mean @ dw)))


def test_conjugate_gradients_mend_a_reduced_factor(rng, monkeypatch):
    X = sp.random(400, 90, density=0.2, random_state=0, format="csr")
    d, b = 10.0 ** rng.uniform(-3, 3, 400), rng.standard_normal(90)
    exact = np.linalg.solve(matrix(X, d, None), b)
    monkeypatch.setattr(normal_equations, "MAX_DENSE_ORDER", 50)
    monkeypatch.setattr(normal_equations, "N_HEAVY_ROWS", 40)
    for active in (None, np.arange(200)):
        points = factored(X, d, active)
        assert not points.is_exact  # forty rows and a diagonal
        goal = 1e-20 * float(b @ exact)
        dw, centered, n_cg, energy = points.refined(b, goal)
        assert 0 < n_cg < 90 and energy > goal
        np.testing.assert_allclose(dw, exact, atol=1e-8 * np.max(np.abs(exact)))
        np.testing.assert_allclose(centered, X @ dw - points.mean @ dw, atol=1e-9)


@pytest.mark.parametrize("form", ["csr", "float32", "wide", "fortran"])
def test_other_forms_of_the_points_give_the_same_answer(rng, form):
    X, y = two_clouds(120, 8, seed=3)
    X = np.round(X, 2).astype(np.float32).astype(np.float64)
    expected = solve(HingePrimal(X, y)).value
    given = {
        "csr": sp.csr_matrix(X),
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "wide": np.hstack([X, np.zeros((120, 200))]),
    }[form]
    result = solve(HingePrimal(given, y))
    assert result.status is Status.OPTIMAL
    assert result.value == pytest.approx(expected, rel=1e-7)


def test_indicators_with_many_equal_points_reach_full_accuracy(rng):
    X = np.eye(4)[rng.integers(4, size=(1500, 5))].reshape(1500, 20)
    problem = HingePrimal(X, np.where(X @ rng.standard_normal(20) > 0, 1.0, -1.0))
    value = solve(problem, "pdipm").value
    for options in METHOD_VARIANTS.values():
        result = solve(problem, max_iter=60, **options)
        assert result.status is Status.OPTIMAL
        assert result.value == pytest.approx(value, rel=2e-8)


def test_a_penalty_twice_as_large_is_the_point_given_twice():
    X, y = two_clouds(60, 3, seed=4)
    C = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    weighted = solve(HingePrimal(X, y, C))
    rows = np.repeat(np.arange(60), C.astype(int))
    repeated = solve(HingePrimal(X[rows], y[rows]))
    assert weighted.value == pytest.approx(repeated.value, rel=1e-8)
    np.testing.assert_allclose(weighted.model.w, repeated.model.w, atol=1e-6)
    kept = np.where(np.arange(60) % 4 == 0, 0.0, C)
    left_out = solve(HingePrimal(X, y, kept))
    assert left_out.value == pytest.approx(
        solve(HingePrimal(X[kept > 0], y[kept > 0], kept[kept > 0])).value, rel=1e-8
    )
    assert not left_out.dual[kept == 0].any()


def test_the_end_is_exact_and_sparse():
    X, y = two_clouds(400, 6, seed=5)
    result = solve(HingePrimal(X, y), tol=1e-10)
    assert result.status is Status.OPTIMAL
    on_margin = np.flatnonzero((result.dual > 0) & (result.dual < 1))
    assert len(on_margin) <= 7
    margins = y * (X @ result.model.w + result.model.b)
    np.testing.assert_allclose(margins[on_margin], 1.0, atol=1e-10)
    assert np.all(margins[result.dual == 0] >= 1 - 1e-10)
    assert np.all(margins[result.dual == 1] <= 1 + 1e-10)


def test_the_crossover_copes_with_duplicates_and_gives_up_on_a_wrong_split():
    X, y = two_clouds(50, 3, seed=6)
    X, y = np.repeat(X, 4, axis=0), np.repeat(y, 4)
    problem = HingePrimal(X, y)
    result = solve(problem, tol=1e-10)
    assert result.status is Status.OPTIMAL
    points, tau = NormalEquations(X, np.sum(X**2, axis=1)), np.ones(200)
    margins = y * (X @ result.model.w + result.model.b)
    low, high = margins > 1 + 1e-7, margins < 1 - 1e-7
    rough = np.where(low, 0.0, np.where(high, 1.0, 0.4))
    found = crossover(points, y, tau, rough, low, high, result.value)
    assert found is not None
    np.testing.assert_allclose(found.product + y * found.bias, margins, atol=1e-9)
    assert abs(y @ found.x) < 1e-12 and found.x.min() >= 0 and found.x.max() <= 1
    assert crossover(points, y, tau, rough, high, low, result.value) is None
    assert crossover(points, y, tau, rough, ~high, high, result.value) is None  # none is free


def test_a_sample_represents_the_omitted_rows(rng):
    X, d = rng.standard_normal((5000, 4)), 10.0 ** rng.uniform(-3, 2, 5000)
    some, weights = crsvm._sample(d, 1000, rng)
    assert len(np.unique(some)) == len(some) <= 1000
    assert np.sum(weights) == pytest.approx(np.sum(d), rel=1e-12)
    assert set(np.flatnonzero(d > 2 * np.sum(d) / 1000)) <= set(some)
    whole, drawn = X.T @ (d[:, None] * X), X[some].T @ (weights[:, None] * X[some])
    assert np.max(np.abs(np.linalg.eigvals(np.linalg.solve(whole, drawn)) - 1)) < 0.2


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_large_weights_bring_no_rounding_into_the_balance(rng, form):
    X, d = 1e3 + rng.standard_normal((40_000, 4)), 10.0 ** rng.uniform(0, 12, 40_000)
    points = NormalEquations(form(X), np.sum(X**2, axis=1))
    points.factor(d, points.transposed(d), None, exact=True)
    for centered in (points.solve(np.ones(4))[1], points.refined(np.ones(4), np.inf)[1]):
        assert abs(d @ centered) <= 1e-14 * (d @ np.abs(centered))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_rows_are_assembled_in_parts(rng, monkeypatch, dtype):
    X, d, rows = 5 + rng.standard_normal((2500, 6)), rng.random(2000), np.arange(0, 2500)[:2000]
    mean = d @ X[rows] / d.sum()
    Z = X[rows] - mean
    expected = np.tril(np.eye(6) + Z.T @ (d[:, None] * Z))
    for shared in (np.inf, 0.0):
        monkeypatch.setattr(normal_matrix, "MIN_MULTIPLICATIONS_FOR_TWO_PARTS", shared)
        for origin in (mean, mean + 0.1):
            M = normal_matrix.assemble(X, rows, d, origin, True, dtype, normal_matrix.Scratch())
            np.testing.assert_allclose(
                np.tril(M), expected, rtol=1e2 * np.finfo(dtype).eps, atol=1e3 * np.finfo(dtype).eps
            )


LINEAR_INSTANCES = [i for i in select(family="hinge", exclude=("hard-margin",)) if fits_crsvm(i)]


@pytest.mark.parametrize("method", ["crsvm", "pdipm"])
@pytest.mark.parametrize(
    "instance", [*SOFT_MARGIN_INSTANCES, *LINEAR_INSTANCES], ids=lambda i: i.name
)
def test_residuals_and_gap_within_sixty_iterations(instance, method):
    problem = instance.declare()
    result = solve(problem, method, max_iter=60)
    assert result.status is Status.OPTIMAL and result.n_iter <= 60
    assert result.certificate.gap <= 1e-8 * max(
        abs(result.certificate.upper), abs(result.certificate.lower)
    )
    assert agrees(result, instance)
    alpha = result.dual if isinstance(problem, HingePrimal) else result.x
    scale = 1e-8 * max(1.0, float(np.max(problem.C)))
    assert not problem.bias or abs(problem.y @ alpha) <= scale * len(alpha)
    assert alpha.min() >= 0 and np.all(alpha <= problem.C)
    X = problem.X if isinstance(problem, HingePrimal) else problem.K.factor()
    if X is None:
        assert result.model.w is None
        return
    w = X.T @ (problem.y * alpha)
    np.testing.assert_allclose(result.model.w, w, atol=1e-8 * (1 + np.max(np.abs(w))))


def test_one_iteration_at_a_time_is_the_same_run():
    X, y = two_clouds(100, 4, seed=9)
    qp, solver = HingePrimal(X, y).as_qp(), METHODS["crsvm"].solver()
    one, all_at_once = (solver.init(qp, None, np.random.default_rng(0)) for _ in range(2))
    for _ in range(5):
        assert solver.advance(qp, one, 1).stop is Stop.BUDGET
    solver.advance(qp, all_at_once, 5)
    np.testing.assert_array_equal(one.x, all_at_once.x)
    np.testing.assert_array_equal(one.product, all_at_once.product)


def test_every_reported_point_is_feasible_with_its_product():
    X, y = two_clouds(150, 5, seed=10, positive=0.2)
    problem = HingePrimal(X, y)
    qp, solver = problem.as_qp(), METHODS["crsvm"].solver()
    state = solver.init(qp, None, np.random.default_rng(0))
    for _ in range(8):
        assert qp.domain.violation(state.x) <= 1e-12 * np.sum(state.x)
        size = np.max(np.abs(state.product))
        np.testing.assert_allclose(state.product, qp.gram.product(state.x), atol=1e-9 * size)
        solver.advance(qp, state, 1)


def test_warm_start_and_stops():
    X, y = two_clouds(200, 4, seed=11)
    problem = HingePrimal(X, y)
    cold_run = solve(problem)
    assert solve(problem, x0=cold_run).status is Status.OPTIMAL
    stopped = solve(problem, max_iter=3)
    assert stopped.status is Status.MAX_ITER and stopped.n_iter == 3
    assert stopped.certificate.lower <= cold_run.value <= stopped.certificate.upper
    seen = []
    solve(problem, callback=lambda p: seen.append(p.iteration))
    assert seen == list(range(cold_run.n_iter + 1))


def test_memory_is_a_small_multiple_of_the_points(rng):
    X = rng.standard_normal((20_000, 60))
    y = np.sign(X[:, 0] + rng.standard_normal(20_000))
    problem = HingePrimal(X, y)
    solve(HingePrimal(X[:50], y[:50]))  # compile
    tracemalloc.start()
    solve(problem, memory_limit=2_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * X.nbytes


def test_problems_that_do_not_fit_are_refused():
    X, y = two_clouds(40, 3, seed=12)
    with pytest.raises(MethodMismatchError, match="cannot solve"):
        solve(HingePrimal(X, y, C=np.inf))
    many = np.linspace(0, 1, 5001)[:, None]  # more points than a kernel's matrix is factored for
    with pytest.raises(MethodMismatchError, match="cannot solve"):
        solve(HingeDual(RBF(many), np.where(many[:, 0] > 0.5, 1, -1)))
    assert {"crsvm", "pdipm"} <= set(qpsvm.methods(HingeDual(Linear(X), y)))
    for option, value in {
        "reduction": "some", "constraint_choice": "alpha", "balanced": "yes", "adaptive": None,
        "q_upper": 0, "beta": -1, "theta": np.nan, "correctors": 1.5, "start": "warm", "sift": 3,
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=option):
            solve(HingePrimal(X, y), **{option: value})


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_left_alone_do_not_let_steps_run_away(seed):
    """Rare features and classes: with most weights fixed the augmented Lagrangian had no minimum."""
    rng = np.random.default_rng(0)
    X = (rng.random((9000, 100)) < rng.uniform(0.005, 0.1, 100)).astype(float)
    w = rng.standard_normal(100) * (rng.random(100) < 0.3) * 3
    scores = X @ w + 0.5 * rng.standard_normal(9000)
    y = np.where(scores > np.quantile(scores, 0.97), 1.0, -1.0)
    result = solve(HingeDual(Linear(sp.csr_matrix(X)), y, 1e4), tol=1e-6, seed=seed)
    assert result.status is Status.OPTIMAL and result.n_iter <= 300
