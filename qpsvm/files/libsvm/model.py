"""Estimators to and from LIBSVM's model files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from qpsvm.errors import InputError, check_number
from qpsvm.estimators.hulls import NuSVC
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.kernel_classifiers import SVC
from qpsvm.estimators.outliers import OneClassSVM
from qpsvm.estimators.regression.kernel import SVR, NuSVR
from qpsvm.estimators.votes import pairs_of
from qpsvm.files.libsvm.text import (
    KERNEL_NAMES,
    LibsvmModel,
    read_libsvm_text,
    write_libsvm_text,
)

ESTIMATOR_OF_TYPE: dict[str, type[Any]] = {
    "c_svc": SVC, "nu_svc": NuSVC, "one_class": OneClassSVM, "epsilon_svr": SVR, "nu_svr": NuSVR,
}  # fmt: skip
"""The estimator of each type of machine."""

KERNEL_OF_NAME = {
    name: "poly" if name == "polynomial" else name for name in KERNEL_NAMES
}  # fmt: skip
"""Kernels by LIBSVM's names."""

MIN_DENSITY = 2.0 / 3.0
"""Share of entries from which support vectors are stored densely: CSR then takes more memory."""


def save_libsvm_model(path: str | Path, estimator: Any) -> None:
    """Write a fitted estimator as a model file that LIBSVM's ``svm-predict`` reads.

    Parameters
    ----------
    path : str or Path
    estimator : SVC, NuSVC, OneClassSVM, SVR or NuSVR
        With a kernel that LIBSVM has. Of several classes one against one; labels are integers.
        The probabilities of two classes are written, too.

    Raises
    ------
    InputError
        If LIBSVM has no such model, or the file cannot be written.

    Examples
    --------
    >>> save_libsvm_model("digits.model", SVC().fit(X, y))  # doctest: +SKIP
    """
    write_libsvm_text(path, libsvm_model_of(estimator))


def load_libsvm_model(path: str | Path, *, n_features: int | None = None) -> Any:
    """Read a model file of LIBSVM as a fitted estimator.

    More than two `classes_` have the order of the file, which settles equal votes. What a model file does
    not hold is missing: `C`, `nu` and `epsilon` are defaults, and there are no `dual_gap_` and
    `result_`. Parameters of probabilities serve `qpsvm predict -b 1` alone.

    Parameters
    ----------
    path : str or Path
        Plain or compressed.
    n_features : int, optional
        Number of features of the points to predict; by default the largest index of a support vector.

    Returns
    -------
    SVC, NuSVC, OneClassSVM, SVR or NuSVR

    Raises
    ------
    InputError
        If the file is none of LIBSVM's models, or `n_features` is too small.

    Examples
    --------
    >>> model = load_libsvm_model("digits.model", n_features=64)  # doctest: +SKIP
    >>> model.predict(X)  # doctest: +SKIP
    """
    return estimator_of(read_libsvm_text(path), n_features=n_features)


def libsvm_model_of(estimator: Any, first_index: int = 1) -> LibsvmModel:
    """Return what a model file of a fitted estimator holds.

    Parameters
    ----------
    estimator : SVC, NuSVC, OneClassSVM, SVR or NuSVR
    first_index : {1, 0}
        Index of the first feature in files.

    Raises
    ------
    InputError
        If LIBSVM has no such model.
    """
    types = {kind.__name__: name for name, kind in ESTIMATOR_OF_TYPE.items()}
    svm_type = types.get(type(estimator).__name__)
    if svm_type is None:
        raise InputError(
            f"estimator must be one of {', '.join(types)}; got {type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    kernel: Kernel = estimator._kernel
    names = {own: name for name, own in KERNEL_OF_NAME.items()}
    if not isinstance(kernel.name, str) or kernel.name not in names:
        raise InputError(
            f"kernel must be one that LIBSVM has, {', '.join(names)}; got {kernel.name!r}"
        )
    dual = estimator.dual_coef_
    model = LibsvmModel(
        svm_type,
        names[kernel.name],
        -np.asarray(estimator.intercept_, dtype=np.float64),
        np.array(dual.toarray() if sp.issparse(dual) else dual, dtype=np.float64),
        sp.csr_matrix((len(estimator.support_), first_index))
        if kernel.is_precomputed
        else _by_index(estimator.support_vectors_, first_index),
        estimator.support_.astype(np.int64) + 1 if kernel.is_precomputed else np.zeros(0, np.int64),
        kernel.degree,
        kernel.gamma,
        kernel.coef0,
    )
    return _with_classes(model, estimator) if model.is_classifier else model


def _with_classes(model: LibsvmModel, estimator: Any) -> LibsvmModel:
    """Return the model of a classifier with its classes; of two the positive one is the first."""
    classes, k = np.asarray(estimator.classes_), len(estimator.classes_)
    if classes.dtype.kind not in "biuf" or np.any(classes != np.round(classes.astype(float))):
        raise InputError(f"classes must be integers in LIBSVM's files; got {classes.tolist()}")
    label, n_support = classes.astype(np.int64), estimator.n_support_.astype(np.int64)
    if k > 2:
        if estimator.multi_class != "ovo" or estimator.break_ties:
            raise InputError(
                "multi_class must be 'ovo' and break_ties False, as LIBSVM predicts; got "
                f"{estimator.multi_class!r} and {estimator.break_ties!r}"
            )
        if hasattr(estimator, "_calibrated"):
            raise InputError(
                "probability must be False for more than two classes: LIBSVM's files hold the "
                "probabilities of pairs, scikit-learn's calibration those of classes; got True"
            )
        return replace(model, label=label, n_support=n_support)
    model = _with_groups_swapped(replace(model, label=label, n_support=n_support))
    if not hasattr(estimator, "_calibrated"):
        return model
    sigmoid = estimator._calibrated.calibrated_classifiers_[0].calibrators[0]
    return replace(model, prob_a=np.array([sigmoid.a_]), prob_b=np.array([sigmoid.b_]))


def _with_groups_swapped(model: LibsvmModel) -> LibsvmModel:
    """Return the model with the two classes, and their support vectors, in the other order.

    Coefficients stay: they are positive on the side of the second class in an estimator, of the first
    in a file.
    """
    first, n = int(model.n_support[0]), int(model.n_support.sum())
    order = np.append(np.arange(first, n), np.arange(first))
    return replace(
        model,
        label=model.label[::-1],
        n_support=model.n_support[::-1],
        coef=model.coef[:, order],
        points=model.points[order],
        serial=model.serial[order] if len(model.serial) else model.serial,
    )


def _by_index(points: Any, first_index: int) -> sp.csr_matrix:
    """Return points whose column j has the index j in files."""
    rows = sp.csr_matrix(points, dtype=np.float64)
    if not rows.has_sorted_indices:
        rows = rows.sorted_indices()
    shape = rows.shape[0], rows.shape[1] + first_index
    return sp.csr_matrix((rows.data, rows.indices + first_index, rows.indptr), shape)


def estimator_of(
    model: LibsvmModel, *, n_features: int | None = None, first_index: int | None = None
) -> Any:
    """Return the fitted estimator of a model file.

    Parameters
    ----------
    model : LibsvmModel
    n_features : int, optional
        As in `load_libsvm_model`.
    first_index : {1, 0}, optional
        Index of the first feature in files; by default 0 where a support vector has an entry of index 0.

    Raises
    ------
    InputError
        If `n_features` is too small.
    """
    is_precomputed = model.kernel_type == "precomputed"
    if first_index is None:
        has_zero = bool(model.points.nnz) and int(model.points.indices.min()) == 0
        first_index = 0 if has_zero else 1
    largest = int(model.serial.max(initial=1)) if is_precomputed else (
        max(1, model.points.shape[1] - first_index)
    )  # fmt: skip
    d = largest if n_features is None else n_features
    check_number("n_features", d, low=1, integer=True)
    if d < largest:
        raise InputError(f"n_features must be at least {largest}, as in the file; got {d}")
    kernel = Kernel(KERNEL_OF_NAME[model.kernel_type], model.gamma, model.degree, model.coef0)
    has_gamma = kernel.name in ("poly", "rbf", "sigmoid")
    estimator = ESTIMATOR_OF_TYPE[model.svm_type](
        kernel=kernel.name,
        degree=kernel.degree,
        gamma=kernel.gamma if has_gamma and kernel.gamma > 0 else "auto",
        coef0=kernel.coef0,
    )
    if len(model.label) == 2:  # an estimator has the classes in ascending order
        model = (
            _with_groups_swapped(model)
            if model.label[0] > model.label[1]
            else replace(model, coef=-model.coef, rho=-model.rho)
        )
    estimator.n_features_in_, estimator.fit_status_ = d, 0
    estimator.intercept_ = -model.rho
    if model.is_classifier:
        estimator.classes_ = model.label
        estimator.class_weight_ = np.ones(len(model.label))
        estimator.n_support_ = model.n_support.astype(np.int32)
        estimator.n_iter_ = np.zeros(len(model.rho), np.int32)
    else:
        estimator.n_support_ = np.array([model.coef.shape[1]], dtype=np.int32)
        estimator.n_iter_ = 0
    if model.svm_type == "one_class":
        estimator.offset_ = float(model.rho[0])
    n = model.coef.shape[1]
    vectors = np.empty((0, 0)) if is_precomputed else _features(model.points, first_index, d)
    estimator.support_ = (model.serial - 1 if is_precomputed else np.arange(n)).astype(np.int32)
    estimator.support_vectors_ = vectors
    estimator.dual_coef_ = sp.csr_matrix(model.coef) if sp.issparse(vectors) else model.coef
    normals = _normals(model, vectors) if kernel.is_linear else None
    if model.is_classifier:
        estimator._normals = normals
    else:
        estimator._normal = None if normals is None else normals[0]
    return estimator._keep(kernel, (d, d) if is_precomputed else (n, d))


def _features(points: sp.csr_matrix, first_index: int, d: int) -> Any:
    """Return points of shape (n_support, d), densely where that takes no more memory."""
    moved = sp.csr_matrix(
        (points.data, points.indices - first_index, points.indptr), (points.shape[0], d)
    )
    is_dense = points.nnz >= MIN_DENSITY * points.shape[0] * d
    return moved.toarray() if is_dense else moved


def _normals(model: LibsvmModel, vectors: Any) -> NDArray[np.float64]:
    """Return the normals of linear machines, shape (n_machines, d)."""
    coef, ends = model.coef, np.append(0, np.cumsum(model.n_support))
    if len(coef) == 1:
        return np.atleast_2d(np.asarray(coef @ vectors))
    own = [slice(ends[i], ends[i + 1]) for i in range(len(model.n_support))]
    return np.array(
        [
            coef[j - 1, own[i]] @ vectors[own[i]] + coef[i, own[j]] @ vectors[own[j]]
            for i, j in pairs_of(len(own))
        ]
    )
