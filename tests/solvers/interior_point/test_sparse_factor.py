"""The sparse factor of the normal matrix, by CHOLMOD where cvxopt is installed and by SuperLU."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from qpsvm import HingePrimal, Status
from qpsvm.solvers.interior_point import sparse_factor
from qpsvm.solvers.interior_point.normal_equations import NormalEquations
from qpsvm.solvers.interior_point.sparse_factor import SparseFactors

N_ROWS, N_COLUMNS = 6000, 4000


@pytest.fixture(params=["cholmod", "superlu"])
def package(request, monkeypatch):
    if request.param == "cholmod":
        pytest.importorskip("cvxopt.cholmod")
    else:
        monkeypatch.setattr(sparse_factor, "_cvxopt", lambda: None)
    return request.param


def banded(rng, n_entries=3, width=6):
    """Return CSR points with a few entries each, near to each other."""
    first = rng.integers(0, N_COLUMNS - width, N_ROWS)[:, None]
    columns = first + np.argsort(rng.random((N_ROWS, width)), axis=1)[:, :n_entries]
    values = rng.standard_normal(columns.size)
    ends = np.arange(0, columns.size + 1, n_entries)
    return sp.csr_matrix((values, columns.ravel(), ends), shape=(N_ROWS, N_COLUMNS))


def patches(rng, side=50, width=3):
    """Return CSR points with the entries of a square of a grid each, where row exchanges fill in."""
    first = rng.integers(0, side - width, (2, N_ROWS, 1))
    across, down = (v.ravel() for v in np.meshgrid(np.arange(width), np.arange(width)))
    columns = (first[0] + across) * side + first[1] + down
    values = rng.standard_normal(columns.size)
    ends = np.arange(0, columns.size + 1, width**2)
    return sp.csr_matrix((values, columns.ravel(), ends), shape=(N_ROWS, side**2))


def normal_matrix(X, d):
    return (X.T @ (sp.diags(d) @ X) + sp.identity(X.shape[1])).tocsc()


@pytest.mark.parametrize("points", [banded, patches])
def test_it_solves(rng, package, points):
    X, factors = points(rng), SparseFactors()
    for some in (slice(None), slice(None), slice(0, 3000)):  # the same pattern again, then another
        A = normal_matrix(X[some], 10.0 ** rng.uniform(-3, 3, X[some].shape[0]))
        factor, b = factors.factor(A), rng.standard_normal(X.shape[1])
        assert factor.package == package
        assert np.linalg.norm(A @ factor.solve(b) - b) <= 1e-10 * np.linalg.norm(b)


def test_the_analysis_is_kept_while_the_pattern_is_the_same(rng):
    pytest.importorskip("cvxopt.cholmod")
    X, factors = banded(rng), SparseFactors()
    first = factors.factor(normal_matrix(X, np.ones(N_ROWS)))
    assert factors.factor(normal_matrix(X, rng.uniform(1, 2, N_ROWS))) is first
    assert factors.factor(normal_matrix(X[:3000], np.ones(3000))) is not first


def test_nearly_diagonal_matrices_are_for_superlu():
    assert SparseFactors().factor(sp.identity(5, format="csc")).package == "superlu"


def test_what_rounding_has_made_indefinite_is_for_superlu(rng, package):
    G = rng.standard_normal((40, 40))
    A, b = sp.csc_matrix(G + G.T), rng.standard_normal(40)
    factor = SparseFactors().factor(A)
    assert factor.package == "superlu"
    np.testing.assert_allclose(A @ factor.solve(b), b, rtol=0, atol=1e-6)


def test_matrices_that_are_not_finite_are_refused(rng, package):
    A = normal_matrix(banded(rng), np.full(N_ROWS, np.nan))
    with pytest.raises(np.linalg.LinAlgError):
        SparseFactors().factor(A)


def test_the_normal_equations_take_it(rng, package):
    X, d = banded(rng), rng.uniform(0.1, 10.0, N_ROWS)
    points = NormalEquations(X, np.asarray(X.multiply(X).sum(axis=1)).ravel())
    points.factor(d, X.T @ d, None, exact=False)
    assert points._factor.package == package
    b = rng.standard_normal(N_COLUMNS)
    dw, _ = points.solve(b)
    product = dw + X.T @ (d * (X @ dw)) - points.mean * float(d @ (X @ dw))
    assert np.linalg.norm(product - b) <= 1e-10 * np.linalg.norm(b)


@pytest.mark.parametrize("method", ["crsvm", "pdipm"])
def test_either_gives_the_same_certified_answer(rng, monkeypatch, method):
    pytest.importorskip("cvxopt.cholmod")
    X = banded(rng)
    y = np.where(
        X @ rng.standard_normal(N_COLUMNS) + 0.5 * rng.standard_normal(N_ROWS) > 0, 1.0, -1.0
    )
    used = []
    init = sparse_factor.Sparse.__init__

    def noted(self, *args):
        init(self, *args)
        used.append(self.package)

    monkeypatch.setattr(sparse_factor.Sparse, "__init__", noted)
    by_cholmod = qpsvm.solve(HingePrimal(X, y), method, tol=1e-8)
    n_factors = len(used)
    monkeypatch.setattr(sparse_factor, "_cvxopt", lambda: None)
    by_superlu = qpsvm.solve(HingePrimal(X, y), method, tol=1e-8)
    assert set(used[:n_factors]) == {"cholmod"} and set(used[n_factors:]) == {"superlu"}
    assert by_cholmod.status is by_superlu.status is Status.OPTIMAL
    assert by_cholmod.value == pytest.approx(by_superlu.value, rel=2e-8)
