"""Estimators with scikit-learn's interface; each name is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qpsvm.estimators.conversion import from_sklearn as from_sklearn
    from qpsvm.estimators.grid.regression import SVRCV as SVRCV
    from qpsvm.estimators.grid.search import SVCCV as SVCCV
    from qpsvm.estimators.hulls import MaxMarginClassifier as MaxMarginClassifier
    from qpsvm.estimators.hulls import NuSVC as NuSVC
    from qpsvm.estimators.kernel_classifiers import LSSVC as LSSVC
    from qpsvm.estimators.kernel_classifiers import SVC as SVC
    from qpsvm.estimators.linear import LinearSVC as LinearSVC
    from qpsvm.estimators.low_rank import NystroemSVC as NystroemSVC
    from qpsvm.estimators.outliers import SVDD as SVDD
    from qpsvm.estimators.outliers import OneClassSVM as OneClassSVM
    from qpsvm.estimators.regression.kernel import SVR as SVR
    from qpsvm.estimators.regression.kernel import NuSVR as NuSVR
    from qpsvm.estimators.regression.linear import LinearSVR as LinearSVR

_MODULE_OF_NAME = {
    "LSSVC": "kernel_classifiers",
    "LinearSVC": "linear",
    "LinearSVR": "regression.linear",
    "MaxMarginClassifier": "hulls",
    "NuSVC": "hulls",
    "NuSVR": "regression.kernel",
    "NystroemSVC": "low_rank",
    "OneClassSVM": "outliers",
    "SVC": "kernel_classifiers",
    "SVCCV": "grid.search",
    "SVDD": "outliers",
    "SVR": "regression.kernel",
    "SVRCV": "grid.regression",
    "from_sklearn": "conversion",
}
"""The module of each public name."""

__all__ = sorted(_MODULE_OF_NAME)


def __getattr__(name: str) -> Any:
    """Import a public name, and scikit-learn with it."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(set(globals()) | set(_MODULE_OF_NAME))
