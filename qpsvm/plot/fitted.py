"""What displays take out of fitted estimators, those of scikit-learn and pipelines included."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.plot.data import with_history
from qpsvm.result import Result


class Fitted(NamedTuple):
    """A fitted estimator and its parts."""

    whole: Any  # what predicts for points as they are given
    machine: Any  # the last step of a pipeline, the best estimator of a search, or the estimator
    before: Any  # the steps before the machine, or None

    def to_machine(self, X: Any) -> Any:
        """Return points as the machine receives them."""
        return X if self.before is None else self.before.transform(X)


def fitted_parts(estimator: Any) -> Fitted:
    """Return the parts of an estimator.

    Parameters
    ----------
    estimator : estimator, pipeline or search

    Returns
    -------
    Fitted

    Raises
    ------
    NotFittedError
        If it is not fitted; scikit-learn's error.
    InputError
        If it is no estimator.
    """
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(f"estimator must be a fitted estimator; got {estimator!r}")
    check_is_fitted(estimator)
    whole = getattr(estimator, "best_estimator_", estimator)
    if not hasattr(whole, "steps"):
        return Fitted(whole, whole, None)
    machine = whole[-1]
    check_is_fitted(machine)
    machine = getattr(machine, "best_estimator_", machine)
    return Fitted(whole, machine, whole[:-1] if len(whole.steps) > 1 else None)


def check_two_features(estimator: Any) -> None:
    """Raise InputError where an estimator was fitted to another number of features than two."""
    n_features = getattr(estimator, "n_features_in_", 2)
    if n_features != 2:
        raise InputError(
            "estimator must be fitted to two features to be drawn in the plane; got one of "
            f"{n_features} features"
        )


def results_of(estimator: Any) -> dict[str, Result[Any]]:
    """Return the results of the problems of a fit by their labels.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted; scikit-learn's error.
    InputError
        If it holds no results, as those of other libraries do not.
    """
    machine = fitted_parts(estimator).machine
    if not hasattr(machine, "result_"):
        raise InputError(
            f"estimator must be one of qpsvm, which keeps its results; got {type(machine).__name__}"
        )
    found = machine.result_ if isinstance(machine.result_, list) else [machine.result_]
    labels = [f"{type(machine).__name__}"]
    if len(found) > 1:
        classes = [str(name) for name in machine.classes_]
        by_pair = [f"{first} / {second}" for first, second in combinations(classes, 2)]
        one_each = getattr(machine, "multi_class", "ovr") == "ovr"
        labels = [f"{name} / rest" for name in classes] if one_each else by_pair
    return {label: with_history(label, result) for label, result in zip(labels, found, strict=True)}


def support_among(fitted: Fitted, X: Any) -> NDArray[np.bool_]:
    """Return which of the points are support vectors: equal to one of those that the machine holds.

    Without support vectors, as for linear machines without dual weights, none is.
    """
    points = np.asarray(_dense(fitted.to_machine(X)), dtype=np.float64)
    vectors = getattr(fitted.machine, "support_vectors_", None)
    if vectors is None:
        return np.zeros(len(points), bool)
    known = {tuple(row) for row in np.asarray(_dense(vectors), dtype=np.float64)}
    return np.array([tuple(row) in known for row in points], dtype=bool)


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X
