"""Callbacks that raise, edit what they are given, or solve inside: the solve around them is unharmed."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from qpsvm import RBF, Cached, HingeDual, HingePrimal, L2SVMDual, Status, solve

METHOD_CASES = {
    "smo": lambda X, y: HingeDual(RBF(X, 0.5), y, C=10.0),
    "mfw": lambda X, y: L2SVMDual(RBF(X, 0.5), y, C=10.0),
    "mnp": lambda X, y: L2SVMDual(RBF(X, 0.5), y, C=10.0),
    "decomposition": lambda X, y: HingeDual(RBF(X, 0.5), y, C=10.0),
    "crsvm": lambda X, y: HingePrimal(X, y, C=10.0),
    "nesvm": lambda X, y: qpsvm.LSSVMPrimal(RBF(X, 0.5), y),
    "dcd": lambda X, y: HingePrimal(X, y, C=10.0),
}
every_method = pytest.mark.parametrize("method", METHOD_CASES)


class MineError(Exception):
    """An error that the library does not know."""


@every_method
@pytest.mark.parametrize("at", [1, 3])
def test_an_error_of_a_callback_comes_through_and_the_next_solve_is_the_same(method, at, clouds):
    problem = METHOD_CASES[method](*clouds)
    plain = solve(problem, method, tol=1e-9, max_iter=3000)
    calls = []

    def failing(progress):
        calls.append(progress.iteration)
        if len(calls) == at:
            raise MineError("at this check")

    if len(plain.history) >= at:
        with pytest.raises(MineError, match="at this check"):
            solve(problem, method, tol=1e-9, max_iter=3000, callback=failing)
        assert len(calls) == at
    again = solve(problem, method, tol=1e-9, max_iter=3000)
    assert again.x.tobytes() == plain.x.tobytes() and again.certificate == plain.certificate


@every_method
def test_what_a_callback_edits_is_its_own(method, clouds):
    X, y = (part.copy() for part in clouds)
    problem = METHOD_CASES[method](X, y)
    plain = solve(problem, method, tol=1e-9, max_iter=3000)

    def editing(progress):
        for name in ("x", "dual"):
            part = getattr(progress, name, None)
            if isinstance(part, np.ndarray):
                part[:] = np.nan
        for name in ("upper", "lower", "gap", "iteration", "time"):
            try:
                setattr(progress, name, 0)
            except AttributeError:
                pass

    edited = solve(problem, method, tol=1e-9, max_iter=3000, callback=editing)
    assert edited.x.tobytes() == plain.x.tobytes() and edited.certificate == plain.certificate
    np.testing.assert_array_equal(edited.history.gap, plain.history.gap)


@every_method
def test_a_solve_inside_a_callback_changes_neither(method, clouds):
    """Also on the same kernel, whose cached columns both read."""
    X, y = clouds
    problem = METHOD_CASES[method](X, y)
    plain = solve(problem, method, tol=1e-6, max_iter=2000)
    inner = []

    def solving(progress):
        if len(inner) < 3:
            inner.append(solve(problem, method, tol=1e-6, max_iter=2000))

    outer = solve(problem, method, tol=1e-6, max_iter=2000, callback=solving)
    for result in (outer, *inner):
        assert result.x.tobytes() == plain.x.tobytes()
    assert inner


def test_a_solve_inside_may_share_a_cached_kernel(clouds):
    X, y = clouds
    K = Cached(RBF(X, 0.5), memory_limit=120 * 8 * 30)
    inner = []

    def solving(progress):
        if len(inner) < 3:
            inner.append(solve(HingeDual(K, y, C=1.0), "smo", tol=1e-6))

    outer = solve(HingeDual(K, y, C=100.0), "smo", tol=1e-6, callback=solving)
    alone = solve(HingeDual(RBF(X, 0.5), y, C=1.0), "smo", tol=1e-6)
    assert outer.converged
    for result in inner:
        assert result.status is Status.OPTIMAL
        c = result.certificate
        assert c.lower <= alone.certificate.upper and alone.certificate.lower <= c.upper


def test_a_time_limit_inside_does_not_end_the_solve_around_it(clouds):
    problem = METHOD_CASES["smo"](*clouds)
    inner = []

    def solving(progress):
        inner.append(solve(problem, "smo", tol=1e-12, time_limit=0.0).status)

    outer = solve(problem, "smo", tol=1e-6, callback=solving)
    assert outer.converged and set(inner) == {Status.TIME_LIMIT}
