"""Large real data in LIBSVM's format, from the folder that QPSVM_DATA names; n/a without it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import qpsvm
from asv_benchmarks.common import compile_steps, settle
from qpsvm.data import FOLDER_VARIABLE, load_libsvm

# The default is relative to the root of the repository; asv runs elsewhere.
os.environ.setdefault(FOLDER_VARIABLE, str(Path(__file__).resolve().parents[2] / "shared" / "data"))


def load(name):
    """Return a data set in single precision; asv shows n/a where it is missing."""
    try:
        return load_libsvm(name, np.float32)
    except qpsvm.InputError:
        raise NotImplementedError(f"no data set {name} in {os.environ[FOLDER_VARIABLE]}") from None


def declare(name, what):
    """Return the ball ("ball"), the L2-SVM or the hinge dual of a data set, RBF, C = 1."""
    X, y = load(name)
    K = qpsvm.RBF(X, 0.05)
    if what == "ball":
        return qpsvm.MEBDual(K)
    return (qpsvm.HingeDual if what == "hinge" else qpsvm.L2SVMDual)(K, y, C=1.0)


class Ball:
    """Smallest ball, RBF, to a certified gap of 1e-3."""

    params = [["a9a", "w8a"], ["mfw", "smo"]]
    param_names = ["data", "method"]

    def setup(self, name, method):
        self.problem = declare(name, "ball")
        compile_steps(method, np.float32)

    def time_solve(self, name, method):
        settle(self.problem, method, tol=1e-3)


class ClassifierAfterFiveSeconds:
    """How far a classifier comes in five seconds of iterations: the certified relative gap."""

    params = [["a9a", "w8a"], ["l2_svm mfw", "hinge smo"]]
    param_names = ["data", "formulation and method"]
    timeout = 120

    def setup(self, name, what):
        formulation, self.method = what.split()
        self.problem = declare(name, formulation)
        compile_steps(self.method, np.float32)

    def track_gap(self, name, what):
        result = qpsvm.solve(self.problem, self.method, tol=1e-3, time_limit=5.0)
        return result.certificate.relative_gap

    track_gap.unit = "relative gap"


class ExactKernel:
    """Kernel machines to a certified gap of 1e-3 and 1e-6 by the automatic choice, RBF, C = 1."""

    params = [["a9a", "w8a"], ["hinge", "l2_svm"], [1e-3, 1e-6]]
    param_names = ["data", "formulation", "tolerance"]
    timeout = 120

    def setup(self, name, what, tol):
        self.problem = declare(name, what)
        settle(self.problem, "auto", tol)  # once before, so that it is compiled

    def time_solve(self, name, what, tol):
        settle(self.problem, "auto", tol)

    def peakmem_solve(self, name, what, tol):
        settle(self.problem, "auto", tol)


class LinearClassifier:
    """L1-hinge SVM on the points themselves: few digits without bias, many with one."""

    params = [["a9a", "w8a"], ["dcd 1e-3", "crsvm 1e-8"]]
    param_names = ["data", "method and tolerance"]

    def setup(self, name, how):
        X, y = load(name)
        self.method, self.tol = how.split()[0], float(how.split()[1])
        self.problem = qpsvm.HingePrimal(X, y, C=1.0, bias=self.method != "dcd")
        settle(self.problem, self.method, self.tol)  # once before, so that it is compiled

    def time_solve(self, name, how):
        settle(self.problem, self.method, self.tol)


class Prediction:
    """Decision values of the test set of a9a for 2,000 support vectors, RBF."""

    def setup(self):
        X, y = load("a9a")
        self.points, _ = load("a9a.t")
        self.points.resize(self.points.shape[0], X.shape[1])
        self.model = qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X[:5000], 0.05), y[:5000])).model
        self.model.decision_function(self.points[:500])

    def time_decision_function(self):
        self.model.decision_function(self.points)
