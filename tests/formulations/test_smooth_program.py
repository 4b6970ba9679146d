"""Smooth convex functions over domains: bounds against known optima, checks of arguments, all methods."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import qpsvm
from qpsvm import InputError, LeastSquares, MethodMismatchError, SmoothProgram, Status, solve
from qpsvm.domains import KSubset, L1Ball, L2Ball, Spectrahedron, hypercube, simplex

METHODS_OF_SMOOTH = ["fw", "mfw", "pfw", "bpfw", "fcfw", "nep-fw", "nep-fc"]


def logistic(domain, seed=0, n=60):
    """Return a logistic regression over a domain, with its data."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, domain.m))
    y = np.sign(rng.standard_normal(n))
    problem = SmoothProgram(
        lambda x: np.logaddexp(0.0, -y * (A @ x)).sum(),
        lambda x: -A.T @ (y / (1.0 + np.exp(y * (A @ x)))),
        domain,
        smoothness=0.25 * np.linalg.norm(A, 2) ** 2,
    )
    return problem, A, y


def reference_value(A, y, constraints):
    """Return the optimum by cvxpy, from the exponential cone."""
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(A.shape[1])
    objective = cp.Minimize(cp.sum(cp.logistic(-cp.multiply(y, A @ x))))
    return float(cp.Problem(objective, constraints(cp, x)).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize(
    ("domain", "constraints"),
    [
        (L1Ball(12, 1.0), lambda cp, x: [cp.norm1(x) <= 1.0]),
        (L2Ball(12, 1.0), lambda cp, x: [cp.norm2(x) <= 1.0]),
        (hypercube(12), lambda cp, x: [x >= 0, x <= 1]),
        (KSubset(12, 4), lambda cp, x: [x >= 0, x <= 1, cp.sum(x) == 4]),
        (simplex(12), lambda cp, x: [x >= 0, cp.sum(x) == 1]),
    ],
    ids=["l1", "l2", "cube", "k", "simplex"],
)
def test_bounds_enclose_the_optimum(domain, constraints):
    """lower <= optimum <= upper for any status; all methods but `nep-fw` reach the tolerance."""
    problem, A, y = logistic(domain)
    optimum = reference_value(A, y, constraints)
    for method in METHODS_OF_SMOOTH:
        result = solve(problem, method, tol=1e-3, max_iter=3000)
        c = result.certificate
        assert c.lower - 1e-6 <= optimum <= c.upper + 1e-6
        assert c.gap <= 0.02 * optimum
        assert c.upper == problem.value(result.x)
        assert result.converged or method == "nep-fw"


def test_the_gap_holds_in_fractions():
    """f(x) - lower is no less than max g'(x - a) over vertices, in exact arithmetic, for a quartic."""
    target = np.array([0.9, -0.4, 0.35, 0.2])
    problem = SmoothProgram(
        lambda x: np.sum((x - target) ** 4) + 0.5 * np.sum(x**2),
        lambda x: 4.0 * (x - target) ** 3 + x,
        simplex(4),
        smoothness=30.0,
    )
    result = solve(problem, tol=1e-9)
    assert result.converged
    x = [Fraction(v) for v in result.x]
    t = [Fraction(v) for v in target]
    value = sum((a - b) ** 4 for a, b in zip(x, t, strict=True)) + sum(a * a for a in x) / 2
    g = [4 * (a - b) ** 3 + a for a, b in zip(x, t, strict=True)]
    lower = value - (sum(a * b for a, b in zip(g, x, strict=True)) - min(g))
    assert result.certificate.lower <= lower + abs(sum(x) - 1)
    assert value <= Fraction(result.certificate.upper) + Fraction(result.certificate.roundoff)


@pytest.mark.parametrize("domain", [hypercube(8), L1Ball(8, 2.0), KSubset(8, 3)])
def test_a_quadratic_by_its_functions_has_the_optimum_of_least_squares(domain, rng):
    A, b = rng.standard_normal((20, 8)), rng.standard_normal(20)
    problem = SmoothProgram(
        lambda x: 0.5 * np.sum((A @ x - b) ** 2),
        lambda x: A.T @ (A @ x - b),
        domain,
        smoothness=np.linalg.norm(A, 2) ** 2,
    )
    exact = solve(LeastSquares(A, b, domain), tol=1e-9).certificate
    for method in ("pfw", "nep-fc", "auto"):
        found = solve(problem, method, tol=1e-6, max_iter=20_000)
        assert found.converged
        assert found.certificate.lower <= exact.upper + exact.roundoff
        assert found.certificate.upper >= exact.lower


def test_points_of_matrices_have_their_shape():
    """The functions are given matrices, read-only; the answer is one."""
    target = np.diag([0.7, 0.5, -0.2])

    def value(X):
        assert X.shape == (3, 3)
        assert not X.flags.writeable
        return 0.5 * np.sum((X - target) ** 2)

    problem = SmoothProgram(value, lambda X: X - target, Spectrahedron(3), smoothness=1.0)
    result = solve(problem, "nep-fc", tol=1e-3, max_iter=2000)
    assert result.converged
    np.testing.assert_allclose(result.model.point, np.diag([0.6, 0.4, 0.0]), atol=0.02)


def quadratic(**changes):
    """Return a problem on the cube whose parts may be replaced."""
    target = np.array([0.3, 2.0])
    given = {
        "value": lambda x: np.sum((x - target) ** 2),
        "gradient": lambda x: 2.0 * (x - target),
        "domain": hypercube(2),
        "smoothness": 2.0,
    }
    return SmoothProgram(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradient": lambda x: -2.0 * (x - np.array([0.3, 2.0]))}, "disagree"),
        ({"gradient": lambda x: x - np.array([0.3, 2.0])}, "disagree"),
        ({"smoothness": 0.5}, "disagree"),
        ({"value": lambda x: -np.sum(x**2), "gradient": lambda x: -2.0 * x}, "disagree"),
        ({"gradient": lambda x: np.zeros(3)}, "gradient.*shape"),
        ({"gradient": lambda x: np.zeros(2, complex)}, "gradient.*real"),
        ({"value": lambda x: x}, "value.*one real number"),
        ({"value": lambda x: np.nan}, "finite"),
        ({"gradient": lambda x: np.full(2, np.inf)}, "finite"),
        ({"value": 3.0}, "value must be callable"),
        ({"sample": 3.0}, "sample must be callable"),
        ({"domain": "cube"}, "domain"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"precision": -1.0}, "precision"),
    ],
)
def test_wrong_functions_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        quadratic(**changes)


def test_methods_that_need_more_do_not_fit():
    with pytest.raises(MethodMismatchError):
        solve(quadratic(), "apg")
    with pytest.raises(MethodMismatchError):
        solve(quadratic(), "nep-sfw")


def test_stated_rounding_is_part_of_the_gap():
    """A coarse function proves less: the gap grows by its rounding."""
    fine, coarse = quadratic(), quadratic(precision=1e-3)
    assert solve(fine, tol=1e-8).certificate.gap < 1e-6
    rough = solve(coarse, tol=1e-8, max_iter=200)
    assert not rough.converged
    assert rough.certificate.gap >= rough.certificate.roundoff >= 1e-3


def test_a_function_that_turns_bad_ends_the_solve():
    """Numbers that are not finite end it with a status, and errors of the user reach the user."""
    calls = []

    def gradient(x):
        calls.append(0)
        g = 2.0 * (x - np.array([0.3, 2.0]))
        return g if len(calls) < 4 else np.full(2, np.nan)

    result = solve(quadratic(gradient=gradient), "nep-fw", tol=1e-9)
    assert result.status in (Status.NUMERICAL_ERROR, Status.OPTIMAL)

    n_calls = iter(range(100))

    def failing(x):
        if next(n_calls) > 4:
            raise RuntimeError("out of range")
        return 2.0 * (x - np.array([0.3, 2.0]))

    with pytest.raises(RuntimeError, match="out of range"):
        solve(quadratic(gradient=failing), "nep-fw", tol=1e-9)


def test_a_time_limit_holds():
    result = solve(logistic(hypercube(20))[0], "nep-fw", tol=1e-12, time_limit=0.05)
    assert result.status is Status.TIME_LIMIT
    assert np.isfinite(result.certificate.gap)


def noisy(m, size, beta=3.0):
    """Return beta / 2 |x - target|^2 on the cube; draws deviate by G = size beta sqrt(m)."""
    target = np.where(np.arange(m) < 3, 0.4, np.where(np.arange(m) % 2, 1.0, 0.0))
    return SmoothProgram(
        lambda x: 0.5 * beta * np.sum((x - target) ** 2),
        lambda x: beta * (x - target),
        hypercube(m),
        smoothness=beta,
        sample=lambda x, k, rng: (
            beta * (x - target) + size * beta * rng.standard_normal(m) / np.sqrt(k)
        ),
    )


def test_theorem_5_and_7_with_an_oracle_of_the_user():
    """Mean error of NEP-SFW with batches (G D / (beta S_t))^2 (t + 1)^2, for S_t = D_*^2 / 2.

    E h_{t+1} <= (1 - eta) E h_t + beta eta^2 S_t (Theorem 7), alpha = beta. Of Theorem 5: calls of the
    oracle to an error epsilon are O(beta D_*^2 / epsilon), and draws are the sum of the batches.
    """
    m, size, beta, d_star, runs, steps = 16, 0.02, 3.0, 3.0, 20, 80
    problem = noisy(m, size, beta)
    growth = (size * np.sqrt(m) * np.sqrt(m) / (0.5 * d_star)) ** 2
    qp = problem.as_qp()
    solver = qpsvm.solvers.methods.METHODS["nep-sfw"].maker(qp)(growth=growth)
    errors = np.zeros((runs, steps + 1))
    for seed in range(runs):
        state = solver.init(qp, np.zeros(m), np.random.default_rng(seed))
        errors[seed, 0] = problem.value(state.x)
        for t in range(1, steps + 1):
            solver.advance(qp, state, 1)
            errors[seed, t] = problem.value(state.x)
        sizes = np.ceil(growth * np.arange(2.0, steps + 2.0) ** 2)
        assert state.rows == int(sizes.sum())
    mean = errors.mean(axis=0)
    bound = mean[0]
    for t in range(1, steps + 1):
        eta = 2.0 / (t + 1.0)
        spread = 0.5 * d_star + min(m, 2.0 / beta * bound)
        bound = (1.0 - eta) * bound + beta * eta**2 * spread
        assert mean[t] <= bound
    for epsilon in (0.5, 0.2):
        reached = int(np.argmax(mean <= epsilon))
        assert 0 < reached <= 8.0 * beta * d_star / epsilon


def test_stochastic_solves_repeat_with_the_seed():
    problem = noisy(10, 0.1)
    one, other = (solve(problem, "nep-sfw", max_iter=50, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.x, other.x)
    linear = solve(problem, "sfw", max_iter=50, seed=3)
    assert linear.certificate.lower <= 0.0 <= linear.certificate.upper
