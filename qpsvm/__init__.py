"""qpsvm: quadratic programs of support vector machines, solved with a certified duality gap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qpsvm import domains
from qpsvm.api import solve
from qpsvm.driver.selection import methods
from qpsvm.errors import InputError, Interrupted, MethodMismatchError
from qpsvm.formulations import (
    HingeDual,
    HingePrimal,
    L2SVMDual,
    LeastSquares,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    NuSVRDual,
    OneClassDual,
    PolytopeDistanceDual,
    QuadraticProgram,
    SVDDDual,
    SVRDual,
)
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
from qpsvm.path import solve_path
from qpsvm.result import Candidate, Certificate, History, Progress, Result, Status

if TYPE_CHECKING:
    from qpsvm.estimators.conversion import from_sklearn
    from qpsvm.estimators.grid.regression import SVRCV
    from qpsvm.estimators.grid.search import SVCCV
    from qpsvm.estimators.hulls import MaxMarginClassifier, NuSVC
    from qpsvm.estimators.kernel_classifiers import LSSVC, SVC
    from qpsvm.estimators.linear import LinearSVC
    from qpsvm.estimators.low_rank import NystroemSVC
    from qpsvm.estimators.outliers import SVDD, OneClassSVM
    from qpsvm.estimators.regression.kernel import SVR, NuSVR
    from qpsvm.estimators.regression.linear import LinearSVR
    from qpsvm.files.libsvm_model import load_libsvm_model, save_libsvm_model
    from qpsvm.files.result_file import StoredResult, load, save
    from qpsvm.files.verification import Verification, verify

__version__ = "0.1.0"

_FILE_OF_NAME = {
    "StoredResult": "qpsvm.files.result_file",
    "Verification": "qpsvm.files.verification",
    "load": "qpsvm.files.result_file",
    "load_libsvm_model": "qpsvm.files.libsvm_model",
    "save": "qpsvm.files.result_file",
    "save_libsvm_model": "qpsvm.files.libsvm_model",
    "verify": "qpsvm.files.verification",
}
"""Modules of files, by name: they are imported when one is asked for."""

_ESTIMATOR_NAMES = (
    "LSSVC",
    "LinearSVC",
    "LinearSVR",
    "MaxMarginClassifier",
    "NuSVC",
    "NuSVR",
    "NystroemSVC",
    "OneClassSVM",
    "SVC",
    "SVCCV",
    "SVDD",
    "SVR",
    "SVRCV",
    "from_sklearn",
)
"""Names of `qpsvm.estimators`, which imports scikit-learn: it is imported when one is asked for."""

__all__ = [
    "LSSVC",
    "RBF",
    "SVC",
    "SVCCV",
    "SVDD",
    "SVR",
    "SVRCV",
    "Cached",
    "Candidate",
    "Certificate",
    "CustomKernel",
    "HingeDual",
    "HingePrimal",
    "History",
    "InputError",
    "Interrupted",
    "L2SVMDual",
    "LPSVMPrimal",
    "LSSVMPrimal",
    "Laplacian",
    "LeastSquares",
    "Linear",
    "LinearSVC",
    "LinearSVR",
    "LowRank",
    "MEBDual",
    "MaxMarginClassifier",
    "MethodMismatchError",
    "NuSVC",
    "NuSVCDual",
    "NuSVR",
    "NuSVRDual",
    "NystroemSVC",
    "OneClassDual",
    "OneClassSVM",
    "Polynomial",
    "PolytopeDistanceDual",
    "Precomputed",
    "Progress",
    "QuadraticProgram",
    "Result",
    "SVDDDual",
    "SVRDual",
    "Sigmoid",
    "Status",
    "StoredResult",
    "Verification",
    "domains",
    "from_sklearn",
    "load",
    "load_libsvm_model",
    "methods",
    "save",
    "save_libsvm_model",
    "solve",
    "solve_path",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import an estimator, and scikit-learn with it, or a name of files when it is first asked for."""
    if name in _FILE_OF_NAME:
        value = getattr(import_module(_FILE_OF_NAME[name]), name)
        globals()[name] = value
        return value
    if name not in (*_ESTIMATOR_NAMES, "estimators"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = import_module("qpsvm.estimators")
    value = room if name == "estimators" else getattr(room, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(set(globals()) | set(__all__))
