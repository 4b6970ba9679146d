"""Cross-validation on the command line, with LIBSVM's lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.cli.options import say, warnings_as_lines


def cross_validate(
    svm_type: str, estimator: Any, X: Any, y: Any, n_folds: int, *, quiet: bool
) -> int:
    """Print LIBSVM's lines of a cross-validation, and the largest certified gap of the fits.

    Parameters
    ----------
    svm_type : str
        One of ``qpsvm.cli.options.TYPE_CHOICES``.
    estimator : SVC, NuSVC, OneClassSVM, SVR or NuSVR
        Not fitted.
    X : ndarray or CSR matrix, shape (m, d)
    y : ndarray, shape (m,)
    n_folds : int
        More than there are points: each point is a part.
    quiet : bool
        Print no gap.

    Returns
    -------
    int
        0, or 1 where a gap was not reached.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold, StratifiedKFold

    is_classifier = svm_type in ("c-svc", "nu-svc")
    n = min(n_folds, len(y))
    is_stratified = is_classifier and int(np.unique(y, return_counts=True)[1].max()) >= n
    splits = (StratifiedKFold if is_stratified else KFold)(n, shuffle=True, random_state=0)
    predicted, gaps, missed = np.zeros(len(y)), [], 0
    with warnings_as_lines():
        for rows, left in splits.split(np.zeros(len(y)), y):
            is_matrix = estimator.kernel == "precomputed"
            machine = clone(estimator)
            machine.fit(X[np.ix_(rows, rows)] if is_matrix else X[rows], y[rows])
            predicted[left] = machine.predict(X[np.ix_(left, rows)] if is_matrix else X[left])
            gaps.append(machine.dual_gap_)
            missed += bool(machine.fit_status_)
    if svm_type.endswith("svr"):
        error, correlation = regression_figures(y, predicted)
        say(f"Cross Validation Mean squared error = {error:g}")
        say(f"Cross Validation Squared correlation coefficient = {correlation:g}")
    else:
        say(f"Cross Validation Accuracy = {100.0 * float(np.mean(predicted == y)):g}%")
    above = f", in {missed} of {n} fits above the tolerance" if missed else ""
    say(f"Certified relative gap = {max(gaps):.3g}, the largest of {n} fits{above}", quiet=quiet)
    return int(missed > 0)


def regression_figures(y: Any, predicted: Any) -> tuple[float, float]:
    """Return the mean squared error and the squared correlation coefficient, NaN where it is 0/0."""
    error = float(np.mean((predicted - y) ** 2))
    a, b = predicted - predicted.mean(), y - y.mean()
    square = float((a @ a) * (b @ b))
    return error, float(a @ b) ** 2 / square if square > 0 else float("nan")
