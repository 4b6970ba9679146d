"""What a result file says of a problem, a result and an estimator, and how these are built from it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from qpsvm.domains import Box, CappedSimplex, L1Ball, L2Ball, ScaledSimplex, SimplexProduct
from qpsvm.errors import InputError
from qpsvm.estimators import (
    LSSVC,
    SVC,
    SVDD,
    SVR,
    LinearSVC,
    LinearSVR,
    MaxMarginClassifier,
    NuSVC,
    NuSVR,
    NystroemSVC,
    OneClassSVM,
)
from qpsvm.estimators.base import Estimator
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.training import Terms
from qpsvm.expansion import Expansion, Normal
from qpsvm.files.plain import Encoder
from qpsvm.formulations import Formulation, LeastSquares
from qpsvm.formulations.quadratic import Minimizer
from qpsvm.gram import (
    RBF,
    Cached,
    CustomKernel,
    Laplacian,
    Linear,
    LowRank,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from qpsvm.gram.model_features import LandmarkMap, LinearMap, MatrixColumns
from qpsvm.gram.operator import SparseGram
from qpsvm.models import Ball, ClosestPoints, Hyperplane, OneClass, ReducedHulls, Regressor
from qpsvm.result import Candidate, Certificate, History, Result, Status

CLASSES_BY_NAME: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        Ball, Candidate, Certificate, ClosestPoints, Expansion, History, Hyperplane, Kernel,
        LandmarkMap, Laplacian, Linear, LinearMap, MatrixColumns, Minimizer, Normal, OneClass,
        Polynomial, RBF, ReducedHulls, Regressor, Result, Sigmoid, Status,
    )
}  # fmt: skip
"""Classes whose instances are stored by their fields and built again by their constructors."""

ESTIMATORS_BY_NAME: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        LSSVC, LinearSVC, LinearSVR, MaxMarginClassifier, NuSVC, NuSVR, NystroemSVC, OneClassSVM,
        SVC, SVDD, SVR,
    )
}  # fmt: skip
"""Estimators that files hold."""

NAMES_OF_KERNELS = {
    "Linear": "linear", "RBF": "rbf", "Laplacian": "laplacian", "Polynomial": "polynomial",
    "Sigmoid": "sigmoid", "Precomputed": "precomputed", "SparseGram": "precomputed",
    "CustomKernel": "custom",
}  # fmt: skip
"""Names of kernels in a header, by the class of the Gram."""

NAMES_OF_PARAMETER = {"poly": "polynomial"}
"""Names of kernels in a header, where they differ from those of the parameter `kernel`."""

DOMAINS_ALLOWED = (SimplexProduct, CappedSimplex, Box, L1Ball, L2Ball, ScaledSimplex)
"""Domains of a general problem that the verification knows."""

ATTRIBUTES_LEFT_OUT = ("_features", "_support_gram", "_solved_as", "_terms", "result_")
"""Attributes of an estimator that are derived from others, or stored as problems."""


def kernel_entry(gram: Any, encoder: Encoder) -> dict[str, Any]:
    """Return the kernel of a Gram by its name and numbers, and what is computed from the points first.

    Raises
    ------
    InputError
        If the verification has no formula for it.
    """
    gram = gram.gram if isinstance(gram, Cached) else gram
    if isinstance(gram, LowRank):
        kept: Any = gram.own(np.zeros(0, np.int64))
        if not hasattr(kept.landmarks, "X"):
            raise InputError("problem must have a LowRank kernel of points; got one of a matrix")
        inner = kernel_entry(kept.landmarks, encoder)
        landmarks = landmarks_entry(inner, kept.landmarks.X, kept.W, encoder)
        return {"name": "linear", "transform": landmarks}
    name = NAMES_OF_KERNELS.get(type(gram).__name__)
    if name is None:
        raise InputError(
            f"problem must have a kernel of {sorted(set(NAMES_OF_KERNELS.values()))} or a LowRank "
            f"one; got {type(gram).__name__}"
        )
    entry: dict[str, Any] = {"name": name}
    for parameter in ("gamma", "degree", "coef0"):
        if hasattr(gram, parameter):
            entry[parameter] = float(getattr(gram, parameter))
    if isinstance(gram, CustomKernel):
        entry["function"] = name_of_function(gram.function)
    return entry


def name_of_function(function: Any) -> str:
    """Return module and name of a function, for people to read."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"


def landmarks_entry(
    kernel: dict[str, Any], points: Any, weights: Any, encoder: Encoder
) -> dict[str, Any]:
    """Return features that are kernel values with landmarks, times a matrix."""
    return {
        "kind": "landmarks",
        "kernel": kernel,
        "points": encoder.encode(points),
        "weights": encoder.encode(np.asarray(weights, dtype=np.float64)),
    }


def points_of(problem: Formulation) -> Any:
    """Return the data that a problem is about: points, a given matrix K or Q, or A."""
    declared = getattr(problem, fields(problem)[0].name)  # type: ignore[arg-type]
    declared = declared.gram if isinstance(declared, Cached) else declared
    declared = declared.exact if isinstance(declared, LowRank) else declared
    if isinstance(declared, Precomputed):
        return declared.K
    if isinstance(declared, SparseGram):
        return declared.K
    return getattr(declared, "X", declared)


def problem_entry(problem: Formulation, encoder: Encoder) -> dict[str, Any]:
    """Return a declared problem without its points.

    Raises
    ------
    InputError
        If the verification has no formulas for it.
    """
    if not isinstance(problem, Formulation):
        raise InputError(
            f"problem must be the formulation that was solved; got {type(problem).__name__}"
        )
    terms = Terms.of(problem)
    declared = getattr(problem, fields(problem)[0].name)  # type: ignore[arg-type]
    if isinstance(problem, LeastSquares):
        if not hasattr(declared, "toarray") and not isinstance(declared, np.ndarray):
            raise InputError("problem must have A as an array or a sparse matrix; got an operator")
        kernel: dict[str, Any] = {"name": "matrix"}
    elif isinstance(declared, np.ndarray) or hasattr(declared, "tocsr"):
        kernel = {"name": "linear"}
    else:
        kernel = kernel_entry(declared, encoder)
    return {"kernel": kernel, **terms_entry(terms, None, encoder)}


def terms_entry(terms: Terms, rows: Any, encoder: Encoder) -> dict[str, Any]:
    """Return the formulation with its numbers and vectors, and the points that it is about."""
    values = dict(terms.values)
    domain = values.pop("domain", None)
    values.pop("smoothness", None)
    entry = {"formulation": terms.formulation, "by_coefficients": terms.by_coefficients}
    if domain is not None:
        entry["domain"] = domain_entry(domain, encoder)
    return {
        **entry,
        "rows": None if rows is None else encoder.encode(np.asarray(rows, dtype=np.int64)),
        "parameters": encoder.encode(values),
    }


def domain_entry(domain: Any, encoder: Encoder) -> Any:
    """Return a domain by its name and numbers.

    Raises
    ------
    InputError
        If the verification does not know it.
    """
    if type(domain) not in DOMAINS_ALLOWED:
        names = ", ".join(cls.__name__ for cls in DOMAINS_ALLOWED)
        raise InputError(f"problem must have a domain of {names}; got {type(domain).__name__}")
    values = {f.name: getattr(domain, f.name) for f in fields(domain)}
    return encoder.encode({"name": type(domain).__name__, **values})


def result_entry(result: Result, problem: Formulation, encoder: Encoder) -> dict[str, Any]:
    """Return the header of a result: its problem, its answer and its model."""
    entry = problem_entry(problem, encoder)
    entry["result"] = encoder.encode(replace(result, model=None))
    is_function = entry["kernel"]["name"] == "custom"
    return {
        "kind": "result",
        "name": entry["formulation"],
        "kernel": entry.pop("kernel"),
        "problems": [entry],
        "model": None if is_function else encoder.encode(result.model),
    }


def model_entry(model: Any, encoder: Encoder) -> dict[str, Any]:
    """Return the header of an estimator: its problems, their answers, and its attributes."""
    entry = estimator_entry(model, encoder)
    results = model.result_ if entry["several"] else [model.result_]
    terms = getattr(model, "_terms", None)
    if terms is None:
        raise InputError(
            "model must come from its own fit; one that was unpickled or made by from_sklearn has no "
            "problem that could be verified"
        )
    problems = [
        {
            **terms_entry(one, one.rows, encoder),
            "result": encoder.encode(replace(result, model=None)),
        }
        for one, result in zip(terms, results, strict=True)
    ]
    return {
        "kind": "estimator",
        "name": entry["estimator"],
        "kernel": kernel_of_estimator(model, encoder),
        "problems": problems,
        "model": entry,
    }


def kernel_of_estimator(model: Any, encoder: Encoder) -> dict[str, Any]:
    """Return the kernel of an estimator, and what was done to the points first."""
    solved: Kernel | None = getattr(model, "_kernel", None)
    if solved is None:
        changes = {k: v for k, v in model._solved_as.items() if k != "dtype" and v is not None}
        for kind, value in changes.items():
            dtype = model._solved_as["dtype"]
            transform = {"kind": kind, "value": float(value), "dtype": dtype}
            return {"name": "linear", "transform": transform}
        return {"name": "linear"}
    if isinstance(solved.name, str):
        entry: dict[str, Any] = {"name": NAMES_OF_PARAMETER.get(solved.name, solved.name)}
        entry |= {"gamma": float(solved.gamma), "coef0": float(solved.coef0)}
        entry["degree"] = float(solved.degree)
    else:
        entry = {"name": "custom", "function": name_of_function(solved.name)}
    if not hasattr(model, "normalization_"):
        return entry
    landmarks = landmarks_entry(entry, model.components_, model.normalization_, encoder)
    return {"name": "linear", "transform": landmarks}


def estimator_entry(model: Estimator, encoder: Encoder) -> dict[str, Any]:
    """Return the parameters and the attributes of a fitted estimator.

    Raises
    ------
    InputError
        If it is not fitted, or holds what a file cannot.
    """
    name = type(model).__name__
    if ESTIMATORS_BY_NAME.get(name) is not type(model):
        raise InputError(
            f"answer must be a Result or one of {', '.join(ESTIMATORS_BY_NAME)}; got {name}"
        )
    if not hasattr(model, "result_"):
        raise InputError(f"model must be fitted; got a {name} that is not")
    if hasattr(model, "_calibrated"):
        raise InputError("model must have probability=False; the calibration cannot be stored")
    parameters, omitted = dict(model.get_params(deep=False)), []
    for parameter in ("callback", "random_state"):
        if not isinstance(parameters.get(parameter), (int, np.integer, type(None))):
            parameters[parameter] = None
            omitted.append(parameter)
    state = {
        key: value for key, value in vars(model).items()
        if key not in parameters and key not in ATTRIBUTES_LEFT_OUT
    }  # fmt: skip
    if callable(parameters.get("kernel")):
        parameters["kernel"] = {"function": name_of_function(parameters["kernel"])}
        if "_kernel" in state:
            state["_kernel"] = state["_kernel"]._replace(name="custom")
    return {
        "estimator": name,
        "parameters": encoder.encode(parameters),
        "state": encoder.encode(state),
        "omitted": omitted,
        "several": isinstance(model.result_, list),
    }


def built_estimator(entry: dict[str, Any], state: Any, parameters: Any, results: Any) -> Any:
    """Return the estimator of an entry; its parameters and attributes are set as they were.

    Raises
    ------
    InputError
        If a name is no parameter or attribute of this estimator.
    """
    name = entry["estimator"]
    if name not in ESTIMATORS_BY_NAME:
        raise InputError(f"has an estimator {name!r}, which this release does not know")
    cls = ESTIMATORS_BY_NAME[name]
    model = cls(**parameters)
    for key, value in state.items():
        if (not key.endswith("_") and not key.startswith("_")) or callable(getattr(cls, key, None)):
            raise InputError(f"has an attribute {key!r}, which {name} does not have")
        setattr(model, key, value)
    model.result_ = results if entry["several"] else results[0]
    return model


def build(name: str, values: Any) -> Any:
    """Return the instance of a stored class."""
    if name not in CLASSES_BY_NAME:
        raise InputError(f"has an object {name!r}, which this release does not know")
    cls = CLASSES_BY_NAME[name]
    return Status[values] if cls is Status else cls(**values)
