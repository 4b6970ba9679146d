"""The closing lines of a fit, as LIBSVM prints them, and the certified gap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.estimators.inputs.samples import arranged
from qpsvm.estimators.regression.kernel import arranged_targets
from qpsvm.estimators.votes import pairs_of
from qpsvm.result import Result

NEAR_BOUND = 1e-6
"""Relative distance from its bound at which a weight counts as bounded."""

Vector = NDArray[np.float64]


def closing_lines(svm_type: str, estimator: Any, X: Any, y: Any) -> Iterator[str]:
    """Yield LIBSVM's closing lines of each problem of a fit.

    Values and numbers are those of LIBSVM's problems; duplicate points that were merged count once.

    Parameters
    ----------
    svm_type : str
        One of ``qpsvm.cli.options.TYPE_CHOICES``.
    estimator : SVC, NuSVC, OneClassSVM, SVR or NuSVR
        Fitted.
    X : ndarray or CSR matrix, shape (m, d)
        The points of the fit.
    y : ndarray, shape (m,)
    """
    if svm_type in ("c-svc", "nu-svc"):
        yield from _classifier_lines(svm_type, estimator, X, y)
        yield f"Total nSV = {len(estimator.support_)}"
        return
    result, by_points = estimator.result_, estimator.kernel != "precomputed"
    rho, factor = -float(estimator.intercept_[0]), 1.0
    if svm_type == "one-class":
        weight = arranged(
            X, np.zeros(len(y), np.int64), np.ones(len(y)), by_points=by_points
        ).weight
        top, coef = weight / (estimator.nu * np.sum(weight)), result.x
        factor, first = (estimator.nu * float(np.sum(weight))) ** 2, None
    else:
        top = estimator.C * arranged_targets(X, y, None, by_points=by_points)[0].weight
        coef = np.abs(result.dual)
        first = (
            f"nu = {np.sum(coef) / np.sum(top):f}"
            if svm_type == "epsilon-svr"
            else f"epsilon = {estimator.epsilon_:f}"
        )
    yield from _lines(result, first, factor * result.value, rho, coef, top)


def _classifier_lines(svm_type: str, estimator: Any, X: Any, y: Any) -> Iterator[str]:
    classes, k = estimator.classes_, len(estimator.classes_)
    by_points = estimator.kernel != "precomputed"
    codes = np.searchsorted(classes, y)
    samples = arranged(X, codes, np.ones(len(codes)), by_points=by_points)
    own = [np.flatnonzero(samples.codes == code) for code in range(k)]
    if k == 2:
        rows = [np.arange(len(samples.codes))]
    else:
        rows = [np.concatenate([own[i], own[j]]) for i, j in pairs_of(k)]
    sums = _sums_of_positive_sides(estimator)
    for result, at, b, total in zip(
        estimator.result_, rows, estimator.intercept_, sums, strict=True
    ):
        weight = samples.weight[at]
        if svm_type == "nu-svc":  # the weights of a hull have the sum 1, in LIBSVM nu m / 2
            top = 2.0 * weight / (estimator.nu * float(np.sum(weight)))
            value = total * total * result.value
            first: str | None = f"C = {2.0 * total / (estimator.nu * float(np.sum(weight))):f}"
        else:
            factors = estimator.class_weight_[samples.codes[at]]
            value, top = result.value, estimator.C * weight * factors
            is_even = np.ptp(factors) == 0.0
            first = f"nu = {np.sum(result.x) / np.sum(top):f}" if is_even else None
        yield from _lines(result, first, value, -float(b), result.x, top)


def _sums_of_positive_sides(estimator: Any) -> list[float]:
    """Return for each machine the sum of its positive coefficients."""
    dual, k = estimator.dual_coef_, len(estimator.classes_)
    dual = dual.toarray() if sp.issparse(dual) else dual
    ends = np.append(0, np.cumsum(estimator.n_support_))
    if k == 2:
        return [float(np.sum(dual[0, ends[1] :]))]
    return [float(np.sum(dual[j - 1, ends[i] : ends[i + 1]])) for i, j in pairs_of(k)]


def _lines(
    result: Result, first: str | None, value: float, rho: float, coef: Vector, top: Vector
) -> Iterator[str]:
    """Yield the lines of one problem; `top` are the bounds of its weights."""
    yield f"optimization finished, #iter = {result.n_iter}"
    if first is not None:
        yield first
    yield f"obj = {value:f}, rho = {rho:f}"
    n_bounded = np.count_nonzero(coef >= (1.0 - NEAR_BOUND) * top)
    yield f"nSV = {np.count_nonzero(coef > 0)}, nBSV = {n_bounded}"


def gap_line(estimator: Any) -> str:
    """Return the certified gap of a fit, and whether it is what was asked for."""
    gap, results = estimator.dual_gap_, estimator.result_
    several = isinstance(results, list) and len(results) > 1
    of = f", the largest of {len(results)} problems" if several else ""
    passed = all(one.certificate.passed for one in (results if several else [_only(results)]))
    if passed:
        return f"Certified relative gap = {gap:.3g} (tolerance {estimator.tol:g}{of})"
    return (
        f"Certified relative gap = {gap:.3g}, above the tolerance {estimator.tol:g}{of}: "
        f"{estimator.status_.value}"
    )


def _only(results: Any) -> Result:
    found: Result = results[0] if isinstance(results, list) else results
    return found
