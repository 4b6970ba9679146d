"""Verification agrees with certificates, and finds answers and claims that are wrong."""

import numpy as np
import pytest

import qpsvm
from qpsvm.files.content import points_of
from tests.files.cases import (
    CLASS_NAMES,
    DOMAIN_CASES,
    ESTIMATOR_CASES,
    GRAM_CASES,
    OTHER_CASES,
    PROBLEM_CASES,
    SAMPLE_WEIGHT,
    A,
    B,
    X,
    Y,
    members_of,
    rewrite,
)


def saved(path, problem, **options):
    result = qpsvm.solve(problem, **options)
    qpsvm.save(path, result, problem)
    return result


def verified(path, problem):
    return qpsvm.verify(path, points_of(problem), getattr(problem, "y", None))


@pytest.mark.parametrize("kernel", GRAM_CASES)
@pytest.mark.parametrize("name", PROBLEM_CASES)
def test_claims_of_a_result_hold(name, kernel, tmp_path):
    problem = PROBLEM_CASES[name](GRAM_CASES[kernel])
    limit = 2000 if kernel == "linear-far" else None  # two of these are slow
    result = saved(tmp_path / "a.npz", problem, tol=1e-5, max_iter=limit)
    report = verified(tmp_path / "a.npz", problem)
    assert report.ok, str(report)
    claims_optimum = any("it is optimal" in line or "are zero" in line for line in report.lines)
    assert claims_optimum == result.converged


@pytest.mark.parametrize("name", OTHER_CASES)
def test_claims_of_other_problems_hold(name, tmp_path):
    problem = OTHER_CASES[name]()
    result = saved(tmp_path / "a.npz", problem, tol=1e-5)
    report = verified(tmp_path / "a.npz", problem)
    assert report.ok, str(report)
    is_infeasible = result.status is qpsvm.Status.INFEASIBLE
    assert is_infeasible == ("no hyperplane separates" in str(report))


@pytest.mark.parametrize("domain", DOMAIN_CASES)
@pytest.mark.parametrize("kind", ["squares", "quadratic"])
def test_claims_over_a_domain_hold(kind, domain, tmp_path):
    problem = (
        qpsvm.LeastSquares(A, B, DOMAIN_CASES[domain])
        if kind == "squares"
        else qpsvm.QuadraticProgram(A.T @ A, -A.T @ B, DOMAIN_CASES[domain])
    )
    saved(tmp_path / "a.npz", problem, tol=1e-5)
    report = verified(tmp_path / "a.npz", problem)
    assert report.ok, str(report)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ESTIMATOR_CASES)
def test_claims_of_an_estimator_hold(name, weighted, tmp_path):
    kind, parameters, y = ESTIMATOR_CASES[name]
    options = {"sample_weight": SAMPLE_WEIGHT} if weighted else {}
    if weighted and kind is qpsvm.MaxMarginClassifier:
        pytest.skip("its fit takes no weights")
    model = kind(**parameters).fit(X, y, **options)
    qpsvm.save(tmp_path / "a.npz", model, X=X, y=y)
    report = qpsvm.verify(tmp_path / "a.npz", X, y)
    assert report.ok, str(report)
    several = isinstance(model.result_, list) and len(model.result_) > 1
    assert ("Problem 2" in str(report)) == several


def test_an_answer_that_met_a_limit_claims_its_bounds_alone(tmp_path):
    problem = qpsvm.MEBDual(GRAM_CASES["rbf"])
    saved(tmp_path / "a.npz", problem, method="mfw", max_iter=3)
    report = verified(tmp_path / "a.npz", problem)
    assert report.ok and "claims no optimum; its status is MAX_ITER" in str(report)


def test_a_matrix_that_is_not_convex_has_no_lower_bound(tmp_path, rng):
    K = rng.standard_normal((20, 20))
    problem = qpsvm.HingeDual(K + K.T, np.sign(np.arange(20) - 9.5))
    saved(tmp_path / "a.npz", problem)
    report = verified(tmp_path / "a.npz", problem)
    assert report.ok and "has the eigenvalue -" in str(report)


def changed(path, change):
    """Change what a file says of its first problem, with digests that match again."""
    header, arrays = members_of(path)
    fields = header["problems"][0]["result"]["fields"]
    change(header, fields, fields["certificate"]["fields"], arrays)
    rewrite(path, header, arrays)


def scale_answer(header, result, bounds, arrays):
    arrays[result["x"]["$array"]] = arrays[result["x"]["$array"]] * 1.001


def nudge_weight(header, result, bounds, arrays):
    x = arrays[result["x"]["$array"]].copy()
    x[np.argmax(x)] *= 0.99
    arrays[result["x"]["$array"]] = x


def claim_less_gap(header, result, bounds, arrays):
    bounds["lower"] = bounds["upper"] - 0.01 * (bounds["upper"] - bounds["lower"])
    bounds["gap"] = 0.01 * bounds["gap"]


def claim_other_value(header, result, bounds, arrays):
    bounds["upper"] -= 0.01 * abs(bounds["upper"])
    bounds["lower"] -= 0.01 * abs(bounds["lower"])


def claim_roundoff(header, result, bounds, arrays):
    bounds["roundoff"] = 1.0


def claim_tolerance(header, result, bounds, arrays):
    bounds["tol"] = 1e-12


def claim_zero(header, result, bounds, arrays):
    bounds["test"], bounds["floor"], bounds["tol"] = "absolute", 1e3, 1e-12


def change_kernel(header, result, bounds, arrays):
    header["kernel"]["gamma"] *= 1.01


def change_penalty(header, result, bounds, arrays):
    parameters = dict(header["problems"][0]["parameters"]["$dict"])
    C = parameters["C"]["$array"]
    arrays[C] = arrays[C] * 0.9


def change_labels(header, result, bounds, arrays):
    parameters = dict(header["problems"][0]["parameters"]["$dict"])
    y = arrays[parameters["y"]["$array"]].copy()
    y[0] = -y[0]
    arrays[parameters["y"]["$array"]] = y


def leave_out(header, result, bounds, arrays):
    header["problems"] = []


FALSE_CLAIMS = [
    scale_answer, nudge_weight, claim_less_gap, claim_other_value, claim_roundoff, claim_tolerance,
    claim_zero, change_kernel, change_penalty, change_labels, leave_out,
]  # fmt: skip


@pytest.mark.parametrize("change", FALSE_CLAIMS, ids=lambda change: change.__name__)
def test_a_change_with_matching_digests_is_found_by_recomputation(change, tmp_path):
    path, problem = tmp_path / "a.npz", PROBLEM_CASES["HingeDual"](GRAM_CASES["rbf"])
    saved(path, problem, tol=1e-3)
    assert qpsvm.verify(path, X).ok
    changed(path, change)
    report = qpsvm.verify(path, X, Y)
    assert not report.ok
    assert any(line.startswith("FAILED") for line in report.lines)
    assert str(report).endswith("Not verified.")


def test_a_direction_that_proves_nothing_is_found(tmp_path):
    path, problem = tmp_path / "a.npz", OTHER_CASES["HingeDual-infeasible"]()
    saved(path, problem)

    def scatter(header, result, bounds, arrays):
        name = result["direction"]["$array"]
        arrays[name] = np.where(Y > 0, 1.0 / np.sum(Y > 0), 1.0 / np.sum(Y < 0))

    changed(path, scatter)
    assert not qpsvm.verify(path, X).ok


def test_other_data_are_found(tmp_path):
    problem = PROBLEM_CASES["HingeDual"](GRAM_CASES["rbf"])
    saved(tmp_path / "a.npz", problem)
    other = X.copy()
    other[3, 1] += 1e-9
    report = qpsvm.verify(tmp_path / "a.npz", other)
    assert not report.ok and "by its hash" in str(report)
    flipped = Y.copy()
    flipped[5] *= -1
    assert not qpsvm.verify(tmp_path / "a.npz", X, flipped).ok


def test_the_points_of_an_estimator_are_compared_without_a_hash(tmp_path):
    model = qpsvm.SVC().fit(X, CLASS_NAMES)
    qpsvm.save(tmp_path / "a.npz", model)
    report = qpsvm.verify(tmp_path / "a.npz", X, CLASS_NAMES)
    assert report.ok and "no hash of X" in str(report)
    other = X.copy()
    other[model.support_[0]] += 1e-3
    assert not qpsvm.verify(tmp_path / "a.npz", other, CLASS_NAMES).ok
    assert not qpsvm.verify(tmp_path / "a.npz", X, np.roll(CLASS_NAMES, 1)).ok


@pytest.mark.parametrize(
    "arguments, name",
    [((X[:30],), "X"), ((X[:, :2] * np.nan,), "X"), ((X, Y[:10]), "y")],
)
def test_data_of_another_form_are_one_error(arguments, name, tmp_path):
    saved(tmp_path / "a.npz", PROBLEM_CASES["HingeDual"](GRAM_CASES["rbf"]))
    with pytest.raises(qpsvm.InputError, match=f"^{name} "):
        qpsvm.verify(tmp_path / "a.npz", *arguments)


def test_a_kernel_function_is_asked_for(tmp_path):
    def values(P, Q):
        return np.exp(-0.5 * np.square(P[:, None] - Q).sum(axis=2))

    problem = qpsvm.MEBDual(qpsvm.CustomKernel(X, values))
    saved(tmp_path / "a.npz", problem)
    with pytest.raises(qpsvm.InputError, match="kernel must be the function"):
        qpsvm.verify(tmp_path / "a.npz", X)
    assert qpsvm.verify(tmp_path / "a.npz", X, kernel=values).ok
    assert not qpsvm.verify(tmp_path / "a.npz", X, kernel=lambda P, Q: 0.5 * values(P, Q)).ok
