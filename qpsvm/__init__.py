"""qpsvm: quadratic programs of support vector machines, solved with a certified duality gap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qpsvm import domains, formulations
from qpsvm.api import solve
from qpsvm.driver.selection import methods
from qpsvm.errors import InputError, Interrupted, MethodMismatchError
from qpsvm.formulations import *
from qpsvm.gram import Cached, LowRank, Precomputed, kernels
from qpsvm.gram.kernels import *
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
    from qpsvm.files.libsvm.model import load_libsvm_model, save_libsvm_model
    from qpsvm.files.result_file import StoredResult, load, save
    from qpsvm.files.verification import Verification, verify
    from qpsvm.plot.ball import BallDisplay
    from qpsvm.plot.closest_points import ClosestPointsDisplay
    from qpsvm.plot.convergence import ConvergenceDisplay, SupportGrowthDisplay
    from qpsvm.plot.one_class import OneClassDisplay
    from qpsvm.plot.path import PathDisplay
    from qpsvm.plot.regions import DecisionRegionDisplay
    from qpsvm.plot.search import SearchDisplay

__version__ = "0.1.0"

_NAMES_OF_MODULE = {
    "qpsvm.estimators": (
        "LSSVC LinearSVC LinearSVR MaxMarginClassifier NuSVC NuSVR NystroemSVC OneClassSVM SVC SVCCV "
        "SVDD SVR SVRCV from_sklearn"
    ),
    "qpsvm.files.libsvm.model": "load_libsvm_model save_libsvm_model",
    "qpsvm.files.result_file": "StoredResult load save",
    "qpsvm.files.verification": "Verification verify",
    "qpsvm.plot": (
        "BallDisplay ClosestPointsDisplay ConvergenceDisplay DecisionRegionDisplay OneClassDisplay "
        "PathDisplay SearchDisplay SupportGrowthDisplay"
    ),
}
"""Names that are imported when one is asked for: scikit-learn or matplotlib may be imported with them."""

_MODULE_OF_NAME = {
    name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()
}
"""Module that each of these names is imported from."""

_PUBLIC_FOLDERS = {"estimators": "qpsvm.estimators", "plot": "qpsvm.plot"}
"""Folders that are attributes of the package and are imported when one is asked for."""

__all__ = [
    *formulations.__all__,
    *kernels.__all__,
    "LSSVC",
    "SVC",
    "SVCCV",
    "SVDD",
    "SVR",
    "SVRCV",
    "BallDisplay",
    "Cached",
    "Candidate",
    "Certificate",
    "ClosestPointsDisplay",
    "ConvergenceDisplay",
    "DecisionRegionDisplay",
    "History",
    "InputError",
    "Interrupted",
    "LinearSVC",
    "LinearSVR",
    "LowRank",
    "MaxMarginClassifier",
    "MethodMismatchError",
    "NuSVC",
    "NuSVR",
    "NystroemSVC",
    "OneClassDisplay",
    "OneClassSVM",
    "PathDisplay",
    "Precomputed",
    "Progress",
    "Result",
    "SearchDisplay",
    "Status",
    "StoredResult",
    "SupportGrowthDisplay",
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
    """Import a folder of the package, or one of its names, when it is first asked for."""
    if name in _PUBLIC_FOLDERS:
        value: Any = import_module(_PUBLIC_FOLDERS[name])
    elif name in _MODULE_OF_NAME:
        value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(set(globals()) | set(__all__))
