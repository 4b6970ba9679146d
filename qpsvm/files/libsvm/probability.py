"""Probabilities of LIBSVM's model files: parameters from cross-validation, and their evaluation.

The machine of the classes i and j with the value f gives i, against j, the probability
1 / (1 + exp(A f + B)) (Platt). With r_ij these probabilities of i against j, the probabilities p of the
classes have the sum 1 and minimize sum_ij (r_ji p_i - r_ij p_j)^2: Wu, Lin and Weng (2004), "Probability
estimates for multi-class classification by pairwise coupling", second approach. The errors z of a
regression have the density exp(-|z| / sigma) / (2 sigma): Lin and Weng (2004).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from qpsvm.estimators.votes import pairs_of
from qpsvm.files.libsvm.text import LibsvmModel

LEAST_PROBABILITY = 1e-7
"""Probabilities of pairs lie between this and 1 minus this, as in LIBSVM."""

N_FOLDS = 5
"""Parts of the cross-validation of a regression."""

MAX_DEVIATIONS = 5.0
"""Standard deviations beyond which an error counts as an outlier and is left out."""

Vector = NDArray[np.float64]


def class_probabilities(values: Vector, prob_a: Vector, prob_b: Vector) -> Vector:
    """Return the probabilities of the classes.

    Parameters
    ----------
    values : ndarray, shape (n, k (k - 1) / 2)
        Values of the machines, in the order of the pairs, positive for the first class.
    prob_a, prob_b : ndarray, shape (k (k - 1) / 2,)

    Returns
    -------
    ndarray, shape (n, k)
        Rows of the sum 1.
    """
    n, n_pairs = values.shape
    k = int(np.sqrt(2 * n_pairs)) + 1
    first = expit(-(prob_a * values + prob_b))
    first = np.clip(first, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    if k == 2:
        return np.hstack([first, 1.0 - first])
    r = np.zeros((n, k, k))
    for number, (i, j) in enumerate(pairs_of(k)):
        r[:, i, j], r[:, j, i] = first[:, number], 1.0 - first[:, number]
    system = np.zeros(
        (n, k + 1, k + 1)
    )  # the conditions of optimality, with a multiplier of the sum
    system[:, :k, :k] = -r * r.transpose(0, 2, 1)
    system[:, range(k), range(k)] = np.sum(r * r, axis=1)
    system[:, :k, k] = system[:, k, :k] = 1.0
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :k, 0], 0.0)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def predicted_probabilities(estimator: Any, model: LibsvmModel, X: Any) -> Vector:
    """Return the probabilities of the classes, shape (n, n_classes), in the order of the file.

    Parameters
    ----------
    estimator : SVC or NuSVC
        That of the model (`qpsvm.files.libsvm.model.estimator_of`).
    model : LibsvmModel
        With probabilities.
    X : array_like or sparse matrix, shape (n, n_features)
    """
    if len(model.label) > 2:
        values = estimator.set_params(decision_function_shape="ovo").decision_function(X)
    else:
        sign = 1.0 if estimator.classes_[1] == model.label[0] else -1.0
        values = sign * np.asarray(estimator.decision_function(X))[:, None]
    return class_probabilities(values, model.prob_a, model.prob_b)


def with_probabilities(model: LibsvmModel, estimator: Any, X: Any, y: Any) -> LibsvmModel:
    """Return the model with parameters of probabilities, by cross-validated fits.

    Parameters
    ----------
    model : LibsvmModel
    estimator : SVC, NuSVC, SVR or NuSVR
        Fitted, without probabilities of its own.
    X : ndarray or sparse matrix, shape (m, d)
        The points of its fit; of a precomputed kernel the matrix.
    y : ndarray, shape (m,)

    Raises
    ------
    InputError
        If a class has fewer than 2 points.
    """
    if not model.is_classifier:
        return replace(model, prob_a=np.array([_laplace_scale(estimator, X, y)]))
    found = [_sigmoid(estimator, X, y, model.label[[i, j]]) for i, j in pairs_of(len(model.label))]
    prob_a, prob_b = np.array(found).T
    return replace(model, prob_a=prob_a, prob_b=prob_b)


def _sigmoid(estimator: Any, X: Any, y: Any, labels: Any) -> tuple[float, float]:
    """Return A and B of the machine of two classes, which is positive for the first."""
    from sklearn.base import clone

    rows = np.flatnonzero(np.isin(y, labels))
    settings: dict[str, Any] = {"probability": True, "gamma": _number(estimator)}
    if getattr(estimator, "class_weight", None):
        factors = [estimator.class_weight.get(int(label), 1.0) for label in labels]
        settings["class_weight"] = {1: factors[0], 0: factors[1]}
    machine = clone(estimator).set_params(**settings)
    machine.fit(_part(estimator, X, rows, rows), (y[rows] == labels[0]).astype(np.int64))
    sigmoid = machine._calibrated.calibrated_classifiers_[0].calibrators[0]
    return float(sigmoid.a_), float(sigmoid.b_)


def _laplace_scale(estimator: Any, X: Any, y: Any) -> float:
    """Return the mean absolute error of predictions for points left out, outliers apart."""
    from sklearn.base import clone
    from sklearn.model_selection import KFold

    error = np.zeros(len(y))
    for rows, left in KFold(min(N_FOLDS, len(y)), shuffle=True, random_state=0).split(y):
        machine = clone(estimator).set_params(gamma=_number(estimator))
        machine.fit(_part(estimator, X, rows, rows), y[rows])
        error[left] = np.abs(y[left] - machine.predict(_part(estimator, X, left, rows)))
    deviation = np.sqrt(2.0) * float(np.mean(error))  # of the Laplace density
    return float(np.mean(error[error <= MAX_DEVIATIONS * deviation]))


def _number(estimator: Any) -> float | str:
    """Return the gamma of the fit: "scale" depends on the points of a part."""
    gamma = float(estimator._kernel.gamma)
    return gamma if gamma > 0.0 else "auto"


def _part(estimator: Any, X: Any, rows: Any, columns: Any) -> Any:
    """Return points, or kernel values of them with those of a fit."""
    return X[np.ix_(rows, columns)] if estimator.kernel == "precomputed" else X[rows]
