"""Products and sums, beside exact ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from qpsvm.numerics import row_products
from qpsvm.numerics.products import transposed_times, weighted_sum, weighted_sum_depth

UNIT_ROUNDOFF = Fraction(2) ** -53


@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 127, 128, 129, 143, 1000, 1023, 20_000])
def test_a_weighted_sum_is_off_by_its_depth_at_most(n, rng):
    for a, b in (
        (np.full(n, 0.1), np.ones(n)),  # equal terms are rounded in the same direction
        (rng.random(n), rng.random(n)),
        (rng.standard_normal(n), np.exp(20.0 * rng.standard_normal(n))),
    ):
        terms = [Fraction(v) * Fraction(w) for v, w in zip(a.tolist(), b.tolist(), strict=True)]
        depth = weighted_sum_depth(n) * UNIT_ROUNDOFF
        allowed = depth / (1 - depth) * sum(abs(t) for t in terms)
        assert abs(Fraction(weighted_sum(a, b)) - sum(terms)) <= allowed


@pytest.mark.parametrize("shape", [(0, 3), (100, 0), (33, 1), (1025, 5)])
def test_a_combination_of_rows_takes_every_shape(shape, rng):
    X, v = rng.standard_normal(shape), rng.standard_normal(shape[0])
    np.testing.assert_allclose(transposed_times(X, v), X.T @ v, rtol=1e-12, atol=1e-13)


def test_the_depth_of_a_weighted_sum_grows_with_its_logarithm():
    depths = [weighted_sum_depth(n) for n in range(1, 3000)]
    assert max(depths) <= 2 + 9 + 144 // 8 + 5
    assert weighted_sum_depth(10**9) <= 60


@pytest.mark.parametrize("n_rows", [2, 7, 1001])
def test_halves_of_rows_are_summed_as_accurately_as_the_whole(rng, n_rows, monkeypatch):
    X, v = rng.standard_normal((n_rows, 5)), rng.standard_normal(n_rows) * 1e8
    rows = rng.permutation(n_rows)
    monkeypatch.setattr(row_products, "MIN_ENTRIES_FOR_HALVES", 1)
    terms = v[:, None] * X[rows]
    exact = [math.fsum(column) for column in terms.T.tolist()]
    error = np.abs(row_products.row_combination(X, rows, v) - exact)
    assert np.all(error <= 6.0 * np.finfo(float).eps * np.sum(np.abs(terms), axis=0))
    np.testing.assert_allclose(row_products.row_products(X, np.ones(5)), X.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(row_products.row_squares(X), np.sum(X * X, axis=1), rtol=1e-14)
