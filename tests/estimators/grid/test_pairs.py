"""Machines of few points on their matrices: the same as those of `solve`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm.estimators.grid.pairs as pairs
from qpsvm import SVC
from qpsvm.solvers.smo.trial import is_worth_a_trial

KERNEL_NAMES = ("linear", "rbf", "poly", "laplacian")


def clouds(n_classes, d=4, n_each=40, seed=0):
    """Overlapping normal clouds, their points in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), n_each))
    return rng.standard_normal((len(y), d)) + 1.5 * rng.standard_normal((n_classes, d))[y], y


def on_matrices(model):
    return [result.reason == "pairs of few points" for result in model.result_]


def by_solve(X, y, monkeypatch, **options):
    """Return the machine whose problems are each solved by `solve`."""
    with monkeypatch.context() as patch:
        patch.setattr(pairs, "MAX_PAIR_POINTS", 0)
        patch.setattr(pairs, "MAX_POINTS_OF_ONE_PAIR", 0)
        model = SVC(**options).fit(X, y)
    assert not any(on_matrices(model))
    return model


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_values_meet_those_of_solve(kernel, n_classes, monkeypatch):
    X, y = clouds(n_classes)
    model = SVC(kernel=kernel, tol=1e-6).fit(X, y)
    assert all(on_matrices(model))
    other = by_solve(X, y, monkeypatch, kernel=kernel, tol=1e-6)
    for one, two in zip(model.result_, other.result_, strict=True):
        assert one.certificate.lower <= two.value and two.certificate.lower <= one.value
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), atol=5e-3 * np.abs(X).max()
    )


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_weights_of_two_classes_belong_to_their_points(kernel):
    X, y = clouds(2)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = SVC(kernel=kernel, C=3.0, tol=1e-6).fit(X, y, sample_weight=weight)
    assert on_matrices(model) == [True]
    (result,), rows = model.result_, model._terms[0].rows
    assert abs((2.0 * y[rows] - 1.0) @ result.x) <= 1e-9 * result.x.sum()
    assert np.all(result.x <= 3.0 * weight[rows]) and np.all(result.x >= 0.0)
    np.testing.assert_array_equal(np.sort(rows[result.support]), np.sort(model.support_))


@pytest.mark.parametrize("store", [np.asarray, np.float32, sp.csr_matrix], ids=str)
def test_normals_of_a_linear_kernel_are_sums_of_support_vectors(store):
    X, y = clouds(3)
    model = SVC(kernel="linear").fit(store(X), y)
    assert all(on_matrices(model))
    dense = [
        part.toarray() if sp.issparse(part) else part for part in (model.coef_, model.dual_coef_)
    ]
    at = np.cumsum(np.concatenate([[0], model.n_support_]))
    vectors = model.support_vectors_
    vectors = vectors.toarray() if sp.issparse(vectors) else vectors
    for w, (i, j) in zip(dense[0], [(0, 1), (0, 2), (1, 2)], strict=True):
        first, second = slice(at[i], at[i + 1]), slice(at[j], at[j + 1])
        expected = dense[1][j - 1, first] @ vectors[first] + dense[1][i, second] @ vectors[second]
        np.testing.assert_allclose(w, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The certified relative gap is inf")
def test_a_kernel_of_two_classes_that_must_be_tested_is_tested_by_solve_alone(monkeypatch):
    monkeypatch.setattr(pairs, "psd_defect", lambda gram: pytest.fail("a second test"))
    X, y = clouds(2)
    model = SVC(kernel="sigmoid", gamma=0.01).fit(X, y)
    assert on_matrices(model) == [False]


def test_many_steps_on_a_linear_kernel_are_left_to_solve():
    X, y = clouds(3, d=5)
    model = SVC(kernel="linear", C=1e4, tol=1e-6).fit(X, y)
    assert not all(on_matrices(model)) and model.dual_gap_ <= 1e-6
    assert {result.method for result in model.result_} <= {"smo", "crsvm"}


def test_points_whose_matrix_takes_longer_are_left_to_solve():
    assert not is_worth_a_trial(1600, 5)
    X, y = clouds(2, d=5, n_each=800)
    model = SVC(kernel="linear", C=0.1).fit(X, y)
    assert model.result_[0].method == "crsvm" and model.dual_gap_ <= 1e-3
