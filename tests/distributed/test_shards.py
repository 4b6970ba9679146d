"""Problems over shards have the answers of one process: values within the gap, and the same models."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import (
    RBF,
    CustomKernel,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Laplacian,
    Linear,
    MEBDual,
    MethodMismatchError,
    OneClassDual,
    Polynomial,
    Status,
    SVDDDual,
    SVRDual,
    solve,
)
from qpsvm.distributed.rows import open_rows
from qpsvm.solvers.base import FLOOR_BYTES
from tests.distributed.conftest import CHUNK_BYTES, N_FEATURES, N_POINTS


def square(A, B):
    return (1.0 + 0.2 * np.asarray(A @ B.T)) ** 2


KERNEL_OF_NAME = {
    "rbf": lambda X: RBF(X, gamma=0.3),
    "laplacian": lambda X: Laplacian(X, gamma=0.3),
    "polynomial": lambda X: Polynomial(X, degree=2, gamma=0.1, coef0=1.0),
    "linear": Linear,
    "custom": lambda X: CustomKernel(X, square),
}
PROBLEM_OF_NAME = {
    "hinge": lambda K, y: HingeDual(K, y, C=2.0),
    "hinge primal": lambda K, y: HingePrimal(K, y, C=2.0),
    "weighted hinge": lambda K, y: HingeDual(K, y, C=np.linspace(0.5, 2.0, K.m)),
    "l2": lambda K, y: L2SVMDual(K, y, C=2.0),
    "l2 without bias": lambda K, y: L2SVMDual(K, y, C=2.0, bias=False),
    "one-class": lambda K, y: OneClassDual(K, nu=0.1),
    "soft ball": lambda K, y: SVDDDual(K, C=20.0 / K.m),
    "ball": lambda K, y: MEBDual(K),
}
KERNEL_CASES = [("rbf", name) for name in PROBLEM_OF_NAME] + [
    (kernel, name)
    for kernel in KERNEL_OF_NAME
    for name in ("hinge", "one-class", "ball")
    if kernel != "rbf"
]


@pytest.mark.parametrize(("kernel", "name"), KERNEL_CASES)
def test_the_certified_answer_is_that_of_one_process(cloud, kernel, name):
    X, y = cloud
    rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
    here = solve(PROBLEM_OF_NAME[name](KERNEL_OF_NAME[kernel](X), y), tol=1e-4)
    there = solve(PROBLEM_OF_NAME[name](KERNEL_OF_NAME[kernel](rows), y), tol=1e-4)
    assert there.status is Status.OPTIMAL
    assert_bounds_overlap(here, there)
    assert there.certificate.relative_gap <= 1e-4 and there.certificate.violation <= 1e-9
    weights = there.dual if name == "hinge primal" else there.x
    assert there.support.tolist() == np.flatnonzero(weights).tolist()
    assert there.counters["shards"] == 4 and there.counters["bytes_sent"] > 0
    if kernel != "linear" or name != "one-class":
        new = X[:50] + 0.01
        value = "distance" if "ball" in name else "decision_function"
        one, other = (getattr(r.model, value)(new) for r in (here, there))
        size = float(np.max(np.abs(one)))
        np.testing.assert_allclose(other, one, atol=0.05 * max(size, 1e-6))


def test_the_bytes_of_each_iteration_are_in_the_history(cloud):
    X, y = cloud
    result = solve(HingeDual(RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3), y))
    sent = result.history.bytes_sent
    assert len(sent) == len(result.history) and np.all(np.diff(sent) > 0)
    assert sent[-1] <= result.counters["bytes_sent"] < 40 * N_POINTS * N_FEATURES * 8


def test_a_start_and_a_limit_of_iterations_hold(cloud):
    X, y = cloud
    K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
    first = solve(HingeDual(K, y), tol=1e-6)
    again = solve(HingeDual(K, y), x0=first, max_iter=0, tol=1e-6)
    assert first.converged and again.converged and again.n_iter == 0
    ended = solve(HingeDual(K, y), max_iter=1, tol=1e-8)
    assert ended.status is Status.MAX_ITER
    assert ended.certificate.lower <= first.certificate.upper <= ended.certificate.upper


def test_a_callback_and_a_time_limit_end_it(cloud):
    X, y = cloud
    K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
    stopped = solve(HingeDual(K, y), callback=lambda progress: progress.iteration >= 2, tol=1e-9)
    assert stopped.status is Status.CALLBACK_STOP
    late = solve(HingeDual(K, y), time_limit=0.0, tol=1e-9)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)


@pytest.mark.parametrize("method", ["decomposition", "mfw", "cvm", "mnp"])
def test_a_limit_within_the_setup_leaves_a_certified_start(cloud, method):
    X, y = cloud
    K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
    exact = solve(L2SVMDual(RBF(X, gamma=0.3), y), tol=1e-6)
    late = solve(L2SVMDual(K, y), method, time_limit=0.0, tol=1e-9)
    assert late.status is Status.TIME_LIMIT and np.isfinite(late.certificate.gap)
    assert late.certificate.lower <= exact.certificate.upper
    assert exact.certificate.lower <= late.certificate.upper


def test_what_shards_cannot_do_is_said_in_one_sentence(cloud):
    X, y = cloud
    K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
    with pytest.raises(MethodMismatchError, match="decomposition"):
        solve(HingeDual(K, y), method="smo")
    with pytest.raises(InputError, match="bias"):
        solve(HingeDual(K, y, bias=False))
    with pytest.raises(InputError, match="chunked"):
        solve(SVRDual(K, y))
    with pytest.raises(InputError, match="omits a point"):
        solve(HingeDual(K, y, C=np.where(np.arange(len(y)) < 3, 0.0, 1.0)))


def test_arguments_of_solve_hold_or_are_refused(cloud):
    X, y = cloud
    K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
    problem = HingeDual(K, y, C=2.0)
    with pytest.raises(InputError, match=r"entering.*got.*leaving"):
        solve(problem, leaving=5)
    with pytest.raises(InputError, match="largest must"):
        solve(problem, largest=0)
    with pytest.raises(InputError, match="merge"):
        solve(problem, merge=True)
    for argument in ("original", "polish"):
        with pytest.raises(InputError, match="low-rank"):
            solve(problem, **{argument: True})
    free, few = solve(problem, tol=1e-5), solve(problem, tol=1e-5, entering=20)
    assert few.n_iter > free.n_iter
    assert_bounds_overlap(free, few)


def test_the_matrix_of_the_working_set_keeps_the_memory_limit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3500, N_FEATURES))
    y = np.where(rng.random(3500) < 0.2, -1.0, 1.0) * np.sign(X[:, 0] ** 2 + X[:, 1] - 0.5)
    problem = HingeDual(RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3), y, C=2.0)
    free, small = solve(problem, tol=1e-4), solve(problem, tol=1e-4, memory_limit=1_000_000)
    assert small.counters["matrix_bytes"] <= FLOOR_BYTES < free.counters["matrix_bytes"]
    assert_bounds_overlap(free, small)


def assert_bounds_overlap(one, other):
    """Both results are certified, and their bounds enclose a common value."""
    assert one.converged and other.converged
    assert one.certificate.lower <= other.certificate.upper
    assert other.certificate.lower <= one.certificate.upper
