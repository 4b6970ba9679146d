"""The L2-SVM without a bias minimizes 1/2 |w|^2 + 1/2 sum C_i max(0, 1 - y_i w'x_i)^2."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from qpsvm import RBF, InputError, L2SVMDual, Linear, methods, solve


def test_its_normal_is_that_of_the_primal(clouds):
    X, y = clouds

    def objective(w):
        slack = np.maximum(1.0 - y * (X @ w), 0.0)
        return 0.5 * w @ w + slack @ slack, w - 2.0 * X.T @ (y * slack)

    result = solve(L2SVMDual(Linear(X), y, C=2.0, bias=False), tol=1e-9)
    expected = minimize(objective, np.zeros(X.shape[1]), jac=True, tol=1e-12)
    assert result.converged and result.model.b == 0.0
    np.testing.assert_allclose(result.model.w, expected.x, atol=1e-5)


def test_it_differs_from_the_one_with_a_bias(clouds):
    X, y = clouds
    with_bias, without = (
        solve(L2SVMDual(RBF(X), y, bias=bias), tol=1e-8) for bias in (True, False)
    )
    assert with_bias.model.b != 0.0 and without.model.b == 0.0
    assert without.value < with_bias.value


@pytest.mark.parametrize("method", ["smo", "mfw", "fw", "cvm", "face-newton"])
def test_methods_agree(clouds, method):
    X, y = clouds
    problem = L2SVMDual(RBF(X), y, bias=False)
    assert method in methods(problem)
    loose, tight = solve(problem, method, tol=1e-3), solve(problem, tol=1e-8)
    assert loose.certificate.lower <= tight.value <= loose.value * (1 + 1e-6)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_newton_steps_in_w_need_no_bias(clouds, storage):
    X, y = clouds
    problem = L2SVMDual(Linear(storage(X)), y, C=3.0, bias=False)
    newton, other = solve(problem, tol=1e-10), solve(problem, "mnp", tol=1e-10)
    assert newton.method == "mfn" and newton.converged
    assert newton.value == pytest.approx(other.value, rel=1e-9)
    np.testing.assert_allclose(newton.model.w, other.model.w, rtol=1e-4, atol=1e-6)


def test_a_bias_is_true_or_false(clouds):
    X, y = clouds
    with pytest.raises(InputError, match="bias must be one of"):
        L2SVMDual(Linear(X), y, bias=2)
