"""Estimators and problems by the options of the command line."""

from __future__ import annotations

from typing import Any

from qpsvm.cli.options import DataFile, KernelChoice, two_classes
from qpsvm.errors import InputError


def estimator_for(
    svm_type: str, kernel: KernelChoice, data: DataFile, *, cost: float, nu: float, epsilon: float,
    **settings: Any,
) -> Any:  # fmt: skip
    """Return an estimator that is not fitted."""
    from qpsvm.estimators.hulls import NuSVC
    from qpsvm.estimators.kernel_classifiers import SVC
    from qpsvm.estimators.outliers import OneClassSVM
    from qpsvm.estimators.regression.kernel import SVR, NuSVR

    kind, own = {
        "c-svc": (SVC, {"C": cost}),
        "nu-svc": (NuSVC, {"nu": nu}),
        "one-class": (OneClassSVM, {"nu": nu}),
        "epsilon-svr": (SVR, {"C": cost, "epsilon": epsilon}),
        "nu-svr": (NuSVR, {"C": cost, "nu": nu}),
    }[svm_type]
    estimator: Any = kind(
        kernel="poly" if kernel.name == "polynomial" else kernel.name,
        gamma=kernel.gamma or data.gamma,
        degree=kernel.degree,
        coef0=kernel.coef0,
        **own,
        **settings,
    )
    return estimator


def labels_for(svm_type: str, y: Any) -> Any:
    """Return labels as the type of machine takes them.

    Raises
    ------
    InputError
        If classes are not integers.
    """
    import numpy as np

    if svm_type not in ("c-svc", "nu-svc"):
        return y
    wrong = y != np.round(y)
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"labels of classes must be integers; got {y[first]:g} of point {first + 1} "
            "(-s epsilon-svr is for values)"
        )
    return y.astype(np.int64)


def gram_for(kernel: KernelChoice, data: DataFile) -> Any:
    """Return the Gram of the points of a file."""
    import numpy as np

    from qpsvm.estimators.inputs.kernels import Kernel, weighted_gamma

    gamma = weighted_gamma(kernel.gamma or data.gamma, data.X, np.ones(data.X.shape[0]))
    name = "poly" if kernel.name == "polynomial" else kernel.name
    return Kernel(name, gamma, kernel.degree, kernel.coef0).gram(data.X)


def problem_for(svm_type: str, gram: Any, y: Any, *, cost: float, nu: float, epsilon: float) -> Any:
    """Return the problem of a machine; classes must be two."""
    from qpsvm.formulations import HingeDual, NuSVCDual, NuSVRDual, OneClassDual, SVRDual

    if svm_type == "c-svc":
        return HingeDual(gram, two_classes(y), cost)
    if svm_type == "nu-svc":
        return NuSVCDual(gram, two_classes(y), nu)
    if svm_type == "one-class":
        return OneClassDual(gram, nu)
    if svm_type == "epsilon-svr":
        return SVRDual(gram, y, cost, epsilon)
    return NuSVRDual(gram, y, cost, nu)
