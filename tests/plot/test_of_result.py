"""`Result.plot` chooses by the model; names load when asked for; matplotlib may be missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import qpsvm
from qpsvm import HingeDual, Linear, MEBDual, OneClassDual, PolytopeDistanceDual

DISPLAY_NAMES = (
    "BallDisplay ClosestPointsDisplay ConvergenceDisplay DecisionRegionDisplay OneClassDisplay "
    "PathDisplay SearchDisplay SupportGrowthDisplay"
).split()


@pytest.mark.parametrize(
    ("declare", "name"),
    [
        (lambda X, y: MEBDual(Linear(X)), "BallDisplay"),
        (lambda X, y: MEBDual(qpsvm.RBF(X)), "OneClassDisplay"),
        (lambda X, y: OneClassDual(qpsvm.RBF(X), 0.5), "OneClassDisplay"),
        (lambda X, y: PolytopeDistanceDual(Linear(X), y), "ClosestPointsDisplay"),
        (lambda X, y: PolytopeDistanceDual(qpsvm.RBF(X), y), "DecisionRegionDisplay"),
        (lambda X, y: HingeDual(Linear(X), y), "DecisionRegionDisplay"),
        (lambda X, y: qpsvm.HingePrimal(X, y), "DecisionRegionDisplay"),
        (lambda X, y: qpsvm.NuSVCDual(qpsvm.RBF(X), y, 0.3), "DecisionRegionDisplay"),
        (lambda X, y: HingeDual(qpsvm.LowRank(qpsvm.RBF(X), 5), y), "DecisionRegionDisplay"),
        (lambda X, y: HingeDual(qpsvm.Precomputed(X @ X.T), y), "ConvergenceDisplay"),
        (lambda X, y: qpsvm.SVRDual(qpsvm.RBF(X), y), "ConvergenceDisplay"),
    ],
)
def test_the_model_decides(blobs, ax, declare, name):
    X, y = blobs
    display = qpsvm.solve(declare(X, y), tol=1e-3).plot(X, y, ax)
    assert type(display).__name__ == name and display.ax_ is ax


def test_without_points_of_two_features_it_is_the_convergence(blobs):
    X, y = blobs
    result = qpsvm.solve(HingeDual(Linear(X), y))
    alone = result.plot(against="iteration")
    assert isinstance(alone, qpsvm.ConvergenceDisplay)
    assert list(alone.lines_) == [result.method]
    wide = np.column_stack([X, X])
    assert isinstance(
        qpsvm.solve(MEBDual(Linear(wide))).plot(wide), qpsvm.ConvergenceDisplay
    )  # fmt: skip


def test_two_classes_need_labels(blobs):
    X, y = blobs
    with pytest.raises(qpsvm.InputError, match="y must be given beside X"):
        qpsvm.solve(HingeDual(Linear(X), y)).plot(X)


def test_displays_are_listed_and_load_without_matplotlib(fresh_process):
    code = f"""
import sys, qpsvm
names = {DISPLAY_NAMES}
assert set(names) <= set(dir(qpsvm)) and names == qpsvm.plot.__all__
before = [name for name in sys.modules if name.startswith("qpsvm.plot.")]
same = all(getattr(qpsvm, name) is getattr(qpsvm.plot, name) for name in names)
print(before, same, "matplotlib" in sys.modules, hasattr(qpsvm.plot, "PieDisplay"))
"""
    assert fresh_process(code).strip() == "[] True False False"


def test_a_missing_matplotlib_is_one_clear_error(blobs, monkeypatch):
    X, y = blobs
    result = qpsvm.solve(MEBDual(Linear(X)))
    path = qpsvm.solve_path(HingeDual(Linear(X), y), "C", [0.1, 1.0])
    display = qpsvm.PathDisplay([1.0], [2])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    calls = {
        "ConvergenceDisplay": result.plot,
        "BallDisplay": lambda: result.plot(X),
        "PathDisplay": lambda: qpsvm.PathDisplay.from_path(path),
    }
    for name, call in calls.items():
        with pytest.raises(ImportError, match=rf'{name} needs matplotlib.*"qpsvm\[plot\]"'):
            call()
    with pytest.raises(ImportError, match=r"qpsvm\[plot\]"):
        display.plot()
