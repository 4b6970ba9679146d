"""One test for each bad argument of each public callable; the message names the argument."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from qpsvm import (
    RBF,
    Cached,
    CustomKernel,
    HingeDual,
    HingePrimal,
    InputError,
    L2SVMDual,
    Laplacian,
    Linear,
    MEBDual,
    MethodMismatchError,
    NuSVCDual,
    Polynomial,
    PolytopeDistanceDual,
    Precomputed,
    Sigmoid,
    solve,
)

X = np.arange(12.0).reshape(6, 2) % 5
Y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
K = X @ X.T + np.eye(6)
NAN, INF = np.nan, np.inf


def spoiled(array, value):
    """Return a copy of the array with one entry replaced."""
    array = array.copy()
    array.flat[3] = value
    return array


def refused(name, *calls):
    """Return parameters: calls that are refused because of the argument `name`."""
    return [pytest.param(name, call, id=f"{name}-{i}") for i, call in enumerate(calls)]


def is_refused(name, call):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(f"{name} ")
    assert isinstance(caught.value, ValueError)


BAD_POINTS = {
    "NaN": spoiled(X, NAN),
    "infinity": spoiled(X, INF),
    "minus-infinity": spoiled(X, -INF),
    "NaN-in-float32": spoiled(X, NAN).astype(np.float32),
    "NaN-in-CSR": sp.csr_matrix(spoiled(X, NAN)),
    "both-infinities": np.array([[INF, -INF], [1.0, 2.0]]),
    "complex": X.astype(complex),
    "complex-CSR": sp.csr_matrix(X.astype(complex)),
    "text": [["a", "b"], ["c", "d"]],
    "object": np.array([[{}, 1.0]], dtype=object),
    "ragged": [[1.0, 2.0], [3.0]],
    "one-dimensional": X[:, 0],
    "three-dimensional": X[None],
    "scalar": 3.0,
    "None": None,
    "no-points": np.empty((0, 2)),
    "no-features": np.empty((6, 0)),
}


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
@pytest.mark.parametrize("kernel", [Linear, RBF, Polynomial, Sigmoid, Laplacian])
def test_points_of_a_kernel(kernel, bad):
    is_refused("X", lambda: kernel(bad))


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
def test_points_of_a_primal(bad):
    is_refused("X", lambda: HingePrimal(bad, Y))


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
def test_points_of_two_hulls(bad):
    is_refused("P", lambda: PolytopeDistanceDual.from_points(bad, X))
    is_refused("Q", lambda: PolytopeDistanceDual.from_points(X, bad))


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
@pytest.mark.parametrize(
    "declare",
    [
        Precomputed,
        MEBDual,
        lambda K: L2SVMDual(K, Y),
        lambda K: HingeDual(K, Y),
        lambda K: PolytopeDistanceDual(K, Y),
    ],
)
def test_matrix(declare, bad):
    is_refused("K", lambda: declare(bad))


@pytest.mark.parametrize("psd", ["check", "assume"])
@pytest.mark.parametrize("asymmetry", [1e-6, 1.0, 1e300])
def test_matrix_that_is_not_symmetric(asymmetry, psd):
    is_refused("K", lambda: Precomputed(K + asymmetry * np.eye(6, k=1), psd))


def test_matrix_that_is_not_square():
    is_refused("K", lambda: MEBDual(K[:4]))


BAD_LABELS = {
    "zero-one": (Y + 1) / 2,
    "three-classes": spoiled(Y, 2.0),
    "zero": spoiled(Y, 0.0),
    "NaN": spoiled(Y, NAN),
    "infinity": spoiled(Y, INF),
    "too-few": Y[:5],
    "column": Y[:, None],
    "text": ["a", "b"] * 3,
    "complex": Y.astype(complex),
    "None": None,
}


@pytest.mark.parametrize("bad", BAD_LABELS.values(), ids=BAD_LABELS)
@pytest.mark.parametrize(
    "declare", [L2SVMDual, HingeDual, PolytopeDistanceDual, NuSVCDual, HingePrimal]
)
def test_labels(declare, bad):
    is_refused("y", lambda: declare(X if declare is HingePrimal else K, bad))


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_labels_of_one_class_have_no_distance(label):
    is_refused("y", lambda: PolytopeDistanceDual(K, label * np.ones(6)))
    is_refused("y", lambda: NuSVCDual(K, label * np.ones(6), 0.1))


BAD_PENALTIES = {
    "zero": 0.0,
    "negative": -1.0,
    "NaN": NAN,
    "minus-infinity": -INF,
    "text": "1",
    "complex": 1j,
    "None": None,
    "too-few": np.ones(5),
    "matrix": np.ones((6, 1)),
    "a-negative-one": spoiled(np.ones(6), -1e-9),
    "a-NaN": spoiled(np.ones(6), NAN),
    "only-zeros": np.zeros(6),
}


@pytest.mark.parametrize("bad", BAD_PENALTIES.values(), ids=BAD_PENALTIES)
@pytest.mark.parametrize("declare", [L2SVMDual, HingeDual, HingePrimal])
def test_penalty(declare, bad):
    is_refused("C", lambda: declare(X if declare is HingePrimal else K, Y, C=bad))


@pytest.mark.parametrize("declare", [HingeDual, HingePrimal])
def test_penalty_that_is_infinite_for_some_points(declare):
    C = spoiled(np.ones(6), INF)
    is_refused("C", lambda: declare(X if declare is HingePrimal else K, Y, C=C))


BAD_POSITIVE = [0.0, -1.0, NAN, -INF, "1", 1j, True, [1.0]]


@pytest.mark.parametrize("bad", BAD_POSITIVE, ids=repr)
def test_chi(bad):
    is_refused("chi", lambda: PolytopeDistanceDual(K, Y, chi=bad))
    is_refused("chi", lambda: PolytopeDistanceDual.from_points(X, X, chi=bad))


def test_hulls_in_different_dimensions():
    is_refused("Q", lambda: PolytopeDistanceDual.from_points(X, X[:, :1]))


@pytest.mark.parametrize("bad", [*BAD_POSITIVE, INF, None, "automatic"], ids=repr)
@pytest.mark.parametrize("kernel", [RBF, Polynomial, Sigmoid, Laplacian])
def test_gamma(kernel, bad):
    is_refused("gamma", lambda: kernel(X, gamma=bad))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        *refused("degree", *(lambda d=d: Polynomial(X, degree=d) for d in (0, -1, 2.5, NAN, "2"))),
        *refused("coef0", *(lambda c=c: Polynomial(X, coef0=c) for c in (NAN, INF, -INF, "0", 1j))),
        *refused("coef0", *(lambda c=c: Sigmoid(X, coef0=c) for c in (NAN, INF, None))),
        *refused("psd", *(lambda p=p: Sigmoid(X, psd=p) for p in ("yes", True, None))),
        *refused("psd", lambda: Precomputed(K, psd="fact"), lambda: CustomKernel(X, min, psd=1)),
        *refused("function", *(lambda f=f: CustomKernel(X, f) for f in (None, "rbf", 3))),
        *refused("gram", lambda: Cached(K), lambda: Cached(None), lambda: Cached(MEBDual(K))),
        *refused("memory_limit", *(lambda n=n: Cached(RBF(X), n) for n in (0, -1, 1.5, "1", None))),
    ],
)
def test_settings_of_a_gram(name, call):
    is_refused(name, call)


@pytest.mark.parametrize(
    "bad", [lambda A, B: np.ones((1, 1)), lambda A, B: NAN * A @ B.T], ids=["shape", "NaN"]
)
def test_function_that_returns_nonsense(bad):
    is_refused("function", lambda: solve(MEBDual(CustomKernel(X, bad))))


def solving(**options):
    return lambda: solve(MEBDual(K), **options)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        *refused("problem", *(lambda p=p: solve(p) for p in (K, None, "meb", MEBDual, RBF(X)))),
        *refused("problem", lambda: qpsvm.methods(K), lambda: qpsvm.methods(None)),
        *refused("tol", *(solving(tol=t) for t in (0.0, -1e-3, NAN, INF, 1e300, None, "1e-3"))),
        *refused("max_iter", *(solving(max_iter=n) for n in (-1, 1.5, NAN, "9", True))),
        *refused("time_limit", *(solving(time_limit=t) for t in (-1.0, NAN, "9", True))),
        *refused("callback", solving(callback=3), solving(callback="print")),
        *refused("verbose", solving(verbose="yes"), solving(verbose=None), solving(verbose=2)),
        *refused("seed", *(solving(seed=s) for s in (-1, 1.5, None, "0"))),
        *refused("memory_limit", *(solving(memory_limit=n) for n in (0, -1, 1.5, NAN, "1"))),
        *refused("method", *(solving(method=m) for m in ("nope", None, 3, "MFW", ["mfw"]))),
        *refused(
            "options", solving(method="mfw", momentum=0.9), solving(method="smo", start="ball")
        ),
        *refused("start", solving(method="mfw", start="middle"), solving(method="mfw", start=None)),
        *refused("start_size", *(solving(method="mfw", start_size=n) for n in (1, -5, 2.5, "20"))),
    ],
)
def test_arguments_of_solve(name, call):
    is_refused(name, call)


@pytest.mark.parametrize("gram", [lambda n: RBF(X), lambda n: Cached(RBF(X), n)])
def test_memory_for_too_few_columns(gram):
    is_refused("memory_limit", lambda: solve(MEBDual(gram(200)), memory_limit=200))


BAD_STARTS = {
    "NaN": spoiled(np.ones(6), NAN),
    "infinity": spoiled(np.ones(6), INF),
    "too-few": np.ones(5),
    "matrix": np.ones((6, 1)),
    "zeros": np.zeros(6),
    "negative": -np.ones(6),
    "text": "start",
    "complex": np.ones(6, complex),
}


@pytest.mark.parametrize("bad", BAD_STARTS.values(), ids=BAD_STARTS)
@pytest.mark.parametrize("method", ["mfw", "smo"])
def test_starting_point(method, bad):
    for problem in (MEBDual(K), L2SVMDual(K, Y), PolytopeDistanceDual(K, Y)):
        is_refused("x0", lambda problem=problem: solve(problem, method, x0=bad))


@pytest.mark.parametrize("bad", [np.ones(2), [1.0, NAN, 0.0], [INF, 1.0, 0.0], "w", 1j], ids=str)
def test_starting_point_of_a_primal(bad):
    is_refused("x0", lambda: solve(HingePrimal(X, Y), x0=bad))


def test_starting_point_from_another_problem():
    other = solve(MEBDual(np.eye(4)))
    is_refused("x0", lambda: solve(MEBDual(K), x0=other))


@pytest.mark.parametrize("method", ["fw", "mfw"])
def test_misfit_says_what_would_fit(method):
    problem = HingeDual(K, Y)
    with pytest.raises(MethodMismatchError, match=rf"'{method}' cannot solve HingeDual") as caught:
        solve(problem, method)
    assert isinstance(caught.value, ValueError)
    fitting = str(caught.value).split("these can: ")[1].replace("'", "").split(", ")
    assert fitting == qpsvm.methods(problem) != []


BAD_NEW_POINTS = {
    "features": np.ones((2, 3)),
    "NaN": spoiled(X, NAN),
    "one-dimensional": X[0],
    "text": "points",
    "None": None,
}


@pytest.mark.parametrize("bad", BAD_NEW_POINTS.values(), ids=BAD_NEW_POINTS)
@pytest.mark.parametrize("kernel", [Linear, RBF, lambda X: K])
def test_new_points(kernel, bad):
    for problem in (L2SVMDual(kernel(X), Y), HingeDual(kernel(X), Y)):
        model = solve(problem).model
        is_refused("points", lambda model=model: model.predict(bad))
        is_refused("points", lambda model=model: model.decision_function(bad))


@pytest.mark.parametrize("bad", BAD_NEW_POINTS.values(), ids=BAD_NEW_POINTS)
@pytest.mark.parametrize("kernel", [Linear, RBF])
def test_new_points_of_a_ball(kernel, bad):
    model = solve(MEBDual(kernel(X))).model
    is_refused("points", lambda: model.distance(bad))
    is_refused("points", lambda: model.contains(bad))


def test_new_points_of_a_ball_of_a_matrix():
    is_refused("points", lambda: solve(MEBDual(K)).model.distance(K))
