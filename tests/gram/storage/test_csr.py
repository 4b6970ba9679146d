"""CSR points: panels of any shape, and rounding bounds against exact rational arithmetic."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, Laplacian, Linear, Polynomial, Sigmoid, threads
from qpsvm.gram.engine.formula import gaussian, linear
from qpsvm.gram.engine.tiles import add_both, fill_between
from qpsvm.gram.kernels import base
from qpsvm.gram.storage.sparse_panels import numbered

DECIMAL_DIGITS = 40
"""Decimal digits of the exponential of an exact argument."""


def integers(rng, m, d, density, dtype=np.float64):
    """Return CSR points with small integer coordinates."""
    X = sp.random(m, d, density, format="csr", dtype=dtype, random_state=rng)
    X.data[:] = rng.integers(-9, 10, X.nnz)
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 70])
@pytest.mark.parametrize(
    ("d", "density"), [(90, 0.0), (90, 0.04), (90, 0.6), (1, 1.0), (1 << 20, 3e-5)]
)
def test_products_are_exact_on_integers(n, d, density, dtype, rng):
    """Small integers have no rounding: whatever the order of the sums, all entries are equal."""
    A, B = integers(rng, n, d, density, dtype), integers(rng, 700, d, density, dtype)
    A.data.flags.writeable = B.data.flags.writeable = B.indices.flags.writeable = False
    zero, out = np.zeros(700), np.full((n, 700), np.nan, dtype)
    fill_between(A, zero[:n], B, zero, linear(), out)
    np.testing.assert_array_equal(out, (A @ B.T).toarray())


def test_parts_of_numbered_rows_are_summed_with_chosen_points(rng):
    A, B = integers(rng, 40, 300, 0.05), integers(rng, 90, 300, 0.05)
    rows, chosen = numbered(A), rng.permutation(90)[:70]
    x, z, out, back = rng.integers(9, size=12), rng.integers(9, size=70), np.ones(70), np.ones(12)
    zero = np.zeros(90)
    add_both(
        rows.part(17, 29), zero[:12], B, zero, 1.0, linear().map, x, out, z * 1.0, back, rows=chosen
    )  # fmt: skip
    K = (A[17:29] @ B[chosen].T).toarray()
    np.testing.assert_array_equal(out, 1.0 + x @ K)
    np.testing.assert_array_equal(back, 1.0 + K @ z)


def test_sums_of_many_points_do_not_depend_on_threads(rng, monkeypatch):
    X = sp.random(3000, 5000, 0.004, format="csr", random_state=rng)
    gram, x = RBF(X, 0.3), np.where(rng.random(3000) < 0.4, rng.standard_normal(3000), 0.0)
    found = []
    for n in (1, 2):
        with threads.limit(n):
            found.append(gram.dot(x))
    np.testing.assert_array_equal(*found)
    K = gram.block(np.arange(3000), None)
    np.testing.assert_allclose(found[0], K @ x, rtol=0, atol=1e-11)
    formula, norms = gaussian(0.3), np.asarray(X.multiply(X).sum(axis=1)).ravel()
    distance = norms[:, None] + norms - 2.0 * (X @ X.T).toarray()
    np.testing.assert_allclose(K, np.exp(-0.3 * distance), rtol=0, atol=1e-13)
    assert formula.map == gram._formula.map


def exact(x):
    return {int(k): Fraction(float(v)) for k, v in zip(x.indices, x.data, strict=True)}


def decimal(t):
    """Return a rational number to `DECIMAL_DIGITS` digits, in a context of more."""
    return Decimal(t.numerator) / Decimal(t.denominator)


def exact_value(gram, x, z):
    """Return k(x, z), rational or to `DECIMAL_DIGITS` digits, from the stored coordinates."""
    x, z = exact(x), exact(z)
    gamma, coef0 = (Fraction(float(getattr(gram, name, 0.0))) for name in ("gamma", "coef0"))
    every = set(x) | set(z)
    differences = [x.get(k, Fraction(0)) - z.get(k, Fraction(0)) for k in every]
    product = sum((x[k] * z[k] for k in set(x) & set(z)), Fraction(0))
    with localcontext() as context:
        context.prec = DECIMAL_DIGITS
        if isinstance(gram, RBF):
            return Fraction(decimal(-gamma * sum(t * t for t in differences)).exp())
        if isinstance(gram, Laplacian):
            return Fraction(decimal(-gamma * sum(abs(t) for t in differences)).exp())
        if isinstance(gram, Polynomial):
            return (gamma * product + coef0) ** gram.degree
        if isinstance(gram, Sigmoid):
            e = decimal(2 * (gamma * product + coef0)).exp()
            return Fraction((e - 1) / (e + 1))
    return product


KERNEL_CASES = {
    "rbf": lambda X: RBF(X, 1.0),
    "steep rbf": lambda X: RBF(X, 30.0),
    "laplacian": lambda X: Laplacian(X, 0.2),
    "quadratic": lambda X: Polynomial(X, 2, 1.0, 1.0),
    "degree 5": lambda X: Polynomial(X, 5, 0.7, 0.25),
    "sigmoid": lambda X: Sigmoid(X, 0.8, -0.3, psd="assume"),
    "linear": Linear,
}


@pytest.mark.parametrize("name", KERNEL_CASES)
@pytest.mark.parametrize("kind", ["text", "signed", "uneven"])
def test_entries_are_within_their_bounds_of_exact_rationals(name, kind, rng, monkeypatch):
    """Columns in float32 and in float64, stored and summed; many features, few terms."""
    monkeypatch.setattr(base, "MIN_ENTRIES_FOR_COMPILED_PASS", 0)
    monkeypatch.setattr(base, "MIN_POINTS_FOR_TILES", 0)
    m, d = 70, 30_000
    lengths = rng.integers(0, 60, size=m) if kind == "uneven" else np.full(m, 25)
    columns = [
        np.sort(rng.choice(60 if kind != "uneven" else d, n, replace=False)) for n in lengths
    ]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    data = rng.standard_normal(ends[-1]) if kind == "signed" else rng.random(ends[-1])
    X = sp.csr_matrix((data / 4.0, np.concatenate(columns), ends), (m, d))
    given = KERNEL_CASES[name](X)
    low = given.low_precision()
    assert low.dtype == np.float32 and sp.issparse(low.X)
    few, weights = rng.permutation(m)[:5], rng.standard_normal(5)
    values = [[exact_value(given, X[i], X[j]) for j in range(m)] for i in few]
    for gram in (given, low):
        bound, out = gram.column_error, np.zeros((5, m), gram.dtype)
        gram.fill(few, out, np.arange(5))
        for k in range(5):
            for j in range(m):
                assert abs(Fraction(float(out[k, j])) - values[k][j]) <= Fraction(float(bound[j]))
        if gram.relative_error is not None:
            factors = np.outer(gram.relative_error.columns(few), gram.relative_error.rows())
            for k in range(5):
                for j in range(m):
                    error = abs(Fraction(float(out[k, j])) - values[k][j])
                    limit = Fraction(float(factors[k, j])) * values[k][j]
                    assert error <= limit + Fraction(2.0**-124 + 2.0 * gram.error)
        total = np.zeros(m)
        gram.add(few, weights, total)
        slack = 1e-14 * np.abs(weights).sum() * (1.0 + np.max(np.abs(gram.diag())))
        limits = np.abs(weights).sum() * (bound + gram.sum_error) + slack
        for j in range(m):
            whole = sum(Fraction(float(w)) * v[j] for w, v in zip(weights, values, strict=True))
            assert abs(Fraction(float(total[j])) - whole) <= Fraction(float(limits[j]))
    assert np.max(low.column_error) < 1e-3 * np.max(np.abs(given.diag()))


def test_bounds_count_the_terms_of_a_point_and_not_its_features(rng):
    X = sp.random(50, 1 << 20, 2e-5, format="csr", random_state=rng)
    for gram in (RBF(X, 0.1), Polynomial(X, 2, 0.1, 1.0), Laplacian(X, 0.1)):
        assert np.max(gram.low_precision().column_error / np.median(gram.diag())) < 1e-3
