"""A kernel function that turns bad after good calls: one error, or an answer whose bounds hold."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from qpsvm import CustomKernel, HingeDual, L2SVMDual, MEBDual, solve

X = np.random.default_rng(2).standard_normal((150, 3))
Y = np.where(X[:, 0] > 0.2, 1.0, -1.0)

PROBLEM_CASES = {
    "smo": lambda K: HingeDual(K, Y, C=1e3),
    "mfw": lambda K: L2SVMDual(K, Y, C=1e3),
    "swap": lambda K: MEBDual(K),
    "auto": lambda K: HingeDual(K, Y, C=1e3),
}

FEW_COLUMNS = 8 * len(X) * 30
"""Memory for so few columns that the function is called again and again."""


class TurningBad:
    """A Gaussian kernel function that is bad from a call on."""

    def __init__(self, n_good: int, bad) -> None:
        self.n_good, self.bad, self.n_calls = n_good, bad, 0

    def __call__(self, A, B):
        self.n_calls += 1
        values = np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))
        if self.n_calls > self.n_good:
            return self.bad(values)
        return values


def nan_in_one(values):
    values[-1, 0] = np.nan
    return values


def raising(values):
    raise ZeroDivisionError("in the kernel")


@pytest.mark.parametrize("method", PROBLEM_CASES)
@pytest.mark.parametrize("n_good", [5, 100])
@pytest.mark.parametrize(
    "bad",
    [nan_in_one, lambda values: np.full_like(values, np.inf), lambda values: values[:-1]],
    ids=["nan", "inf", "shape"],
)
def test_values_that_are_no_numbers_are_one_error(method, n_good, bad):
    function = TurningBad(n_good, bad)
    problem = PROBLEM_CASES[method](CustomKernel(X, function))
    with pytest.raises(qpsvm.InputError, match="function"):
        for _ in range(200):
            solve(problem, method, tol=1e-9, memory_limit=FEW_COLUMNS)
    assert function.n_calls > n_good


@pytest.mark.parametrize("method", PROBLEM_CASES)
def test_an_error_of_the_function_comes_through(method):
    function = TurningBad(20, raising)
    problem = PROBLEM_CASES[method](CustomKernel(X, function))
    with pytest.raises(ZeroDivisionError, match="in the kernel"):
        for _ in range(200):
            solve(problem, method, tol=1e-9, memory_limit=FEW_COLUMNS)
