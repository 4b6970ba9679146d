"""Recomputed products have few roundings: what `SignedGram.roundoff` counts is enough for many terms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    RBF,
    Cached,
    CustomKernel,
    HingeDual,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    solve,
)
from qpsvm.canonical.base import FLOAT64_EPS

ROUNDOFF_OF_SUM = 4.0 * FLOAT64_EPS
"""Error of a sum that is counted, relative to the sum of absolute terms."""


def ones(A, B):
    return np.ones((A.shape[0], B.shape[0]))


GRAM_OF_NAME = {
    "rbf": lambda n: RBF(np.zeros((n, 2)), gamma=1.0),
    "laplacian": lambda n: Laplacian(np.zeros((n, 2)), gamma=1.0),
    "polynomial": lambda n: Polynomial(np.zeros((n, 2)), degree=2, gamma=1.0, coef0=1.0),
    "custom": lambda n: CustomKernel(np.zeros((n, 2)), ones),
    "linear": lambda n: Linear(np.ones((n, 2))),
    "linear float32": lambda n: Linear(np.ones((n, 2), np.float32)),
    "linear columns": lambda n: Linear(np.asfortranarray(np.ones((n, 2)))),
    "linear csr": lambda n: Linear(sp.csr_matrix(np.ones((n, 7)))),
}
"""Grams of equal points, whose kernel values have no error: by kernel and storage."""


@pytest.mark.parametrize("n", [1375, 20_000])
@pytest.mark.parametrize("name", GRAM_OF_NAME)
def test_sums_of_many_terms_of_one_sign_have_few_roundings(name, n):
    x = np.random.default_rng(n).uniform(0.1, 1.0, n)
    gram = GRAM_OF_NAME[name](n)
    exact = math.fsum(x) * float(gram.diag()[0])
    assert np.max(np.abs(gram.dot(x) - exact)) <= ROUNDOFF_OF_SUM * exact


@pytest.mark.parametrize("n", [300, 3000])
def test_sums_over_a_given_matrix_have_few_roundings(n):
    rng = np.random.default_rng(n)
    K, x = np.full((n, n), 1.0 / 3.0), rng.uniform(0.1, 1.0, n)
    exact = math.fsum(x / 3.0)
    assert np.max(np.abs(Precomputed(K, psd="assume").dot(x) - exact)) <= ROUNDOFF_OF_SUM * exact


@pytest.mark.parametrize("n", [300, 1800])
def test_sums_of_cached_columns_have_few_roundings(n):
    x = np.random.default_rng(n).uniform(0.1, 1.0, n)
    gram = RBF(np.zeros((n, 2)), gamma=1.0)
    with gram.hold(1 << 30) as store:
        assert store.dot(x) is None  # no column is cached
        store.ensure(np.arange(n))
        found = store.dot(x)
    assert np.max(np.abs(found - math.fsum(x))) <= ROUNDOFF_OF_SUM * math.fsum(x)


def test_columns_in_float32_or_of_other_solves_are_not_summed():
    X = np.random.default_rng(0).standard_normal((30, 2))
    for gram in (RBF(X.astype(np.float32), gamma=1.0), Cached(RBF(X, gamma=1.0))):
        with gram.hold(1 << 20) as store:
            store.ensure(np.arange(30))
            assert store.dot(np.ones(30)) is None


def test_bounds_far_from_the_origin_enclose_the_optimum():
    rng = np.random.default_rng(0)
    X = np.full((2000, 2), 1e8) + rng.choice([-1.0, 1.0], (2000, 2))
    y = np.resize([1.0, -1.0], 2000)
    result = solve(HingeDual(Linear(X), y, C=1e-20, bias=False), tol=1e-6)
    x = np.full(2000, 1e-20)  # the optimum: every margin is far below 1
    total = [math.fsum(float(a) * b for a, b in zip(X[:, k], y * x, strict=True)) for k in (0, 1)]
    value = 0.5 * math.fsum(t * t for t in total) - math.fsum(x)
    assert result.certificate.lower <= value * (1.0 - 1e-15)
    assert result.certificate.upper >= value * (1.0 + 1e-15)
