"""Problems, estimators, and the changes of files that tests make."""

import json
import zipfile

import numpy as np
import scipy.sparse as sp

import qpsvm
from qpsvm.domains import (
    CappedSimplex,
    L1Ball,
    L2Ball,
    ScaledSimplex,
    SimplexProduct,
    hypercube,
    simplex,
)
from qpsvm.files.container import digest_of, json_text

RNG = np.random.default_rng(7)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] + 0.4 * RNG.standard_normal(60) > 0, 1.0, -1.0)
T = X[:, 0] + 0.1 * RNG.standard_normal(60)
SAMPLE_WEIGHT = RNG.integers(0, 4, 60).astype(float)
CLASS_NAMES = np.array(["a", "b", "c"])[np.argmax(X, axis=1)]
A = RNG.standard_normal((12, 6))
B = RNG.standard_normal(12)
for array in (X, Y, T, SAMPLE_WEIGHT, A, B):
    array.flags.writeable = False

GRAM_CASES = {
    "linear": qpsvm.Linear(X),
    "linear-far": qpsvm.Linear(X + 1000.0),
    "linear-csr": qpsvm.Linear(sp.csr_matrix(X)),
    "rbf": qpsvm.RBF(X, 0.3),
    "rbf-float32": qpsvm.RBF(X.astype(np.float32), 0.3),
    "rbf-csr": qpsvm.RBF(sp.csr_matrix(X), 0.3),
    "laplacian": qpsvm.Laplacian(X, 0.3),
    "polynomial": qpsvm.Polynomial(X, 2, 0.5, 1.0),
    "precomputed": qpsvm.Precomputed(np.exp(-np.square(X[:, None] - X).sum(axis=2))),
    "sigmoid": qpsvm.Sigmoid(X, 0.01, 0.0),
    "cached": qpsvm.Cached(qpsvm.RBF(X, 0.3)),
    "low-rank": qpsvm.LowRank(qpsvm.RBF(X, 0.3), 12),
}

PROBLEM_CASES = {
    "HingeDual": lambda K: qpsvm.HingeDual(K, Y, 2.0),
    "HingeDual-weights": lambda K: qpsvm.HingeDual(K, Y, SAMPLE_WEIGHT, bias=False),
    "L2SVMDual": lambda K: qpsvm.L2SVMDual(K, Y, 2.0),
    "L2SVMDual-weights": lambda K: qpsvm.L2SVMDual(K, Y, SAMPLE_WEIGHT, bias=False),
    "MEBDual": qpsvm.MEBDual,
    "SVDDDual": lambda K: qpsvm.SVDDDual(K, 0.05),
    "OneClassDual": lambda K: qpsvm.OneClassDual(K, 0.3),
    "OneClassDual-weights": lambda K: qpsvm.OneClassDual(K, 0.3, SAMPLE_WEIGHT),
    "NuSVCDual": lambda K: qpsvm.NuSVCDual(K, Y, 0.3),
    "PolytopeDistanceDual": lambda K: qpsvm.PolytopeDistanceDual(K, Y),
    "PolytopeDistanceDual-chi": lambda K: qpsvm.PolytopeDistanceDual(K, Y, 2.0),
    "SVRDual": lambda K: qpsvm.SVRDual(K, T, 2.0, 0.1),
    "SVRDual-weights": lambda K: qpsvm.SVRDual(K, T, SAMPLE_WEIGHT, 0.1, bias=False),
    "L2SVRDual": lambda K: qpsvm.L2SVRDual(K, T, 2.0, 0.1),
    "L2SVRDual-weights": lambda K: qpsvm.L2SVRDual(K, T, SAMPLE_WEIGHT, 0.1, bias=False),
    "NuSVRDual": lambda K: qpsvm.NuSVRDual(K, T, 2.0, 0.3),
    "HingePrimal": lambda K: qpsvm.HingePrimal(K, Y, 2.0),
    "LSSVMPrimal": lambda K: qpsvm.LSSVMPrimal(K, Y, 2.0),
    "LPSVMPrimal": lambda K: qpsvm.LPSVMPrimal(K, Y, 2.0),
}

OTHER_CASES = {
    "HingePrimal-points": lambda: qpsvm.HingePrimal(X + 100.0, Y, 2.0),
    "HingePrimal-csr": lambda: qpsvm.HingePrimal(sp.csr_matrix(X), Y, SAMPLE_WEIGHT, bias=False),
    "LSSVMPrimal-points": lambda: qpsvm.LSSVMPrimal(X, Y, SAMPLE_WEIGHT),
    "LPSVMPrimal-points": lambda: qpsvm.LPSVMPrimal(X, Y, SAMPLE_WEIGHT),
    "HingeDual-hard": lambda: qpsvm.HingeDual(qpsvm.RBF(X, 5.0), Y, np.inf),
    "HingePrimal-hard": lambda: qpsvm.HingePrimal(qpsvm.RBF(X, 5.0), Y, np.inf),
    "L2SVMDual-hard": lambda: qpsvm.L2SVMDual(qpsvm.RBF(X, 5.0), Y, np.inf),
    "HingeDual-infeasible": lambda: qpsvm.HingeDual(qpsvm.Linear(X), Y, np.inf),
}

DOMAIN_CASES = {
    "simplex": simplex(6),
    "product": SimplexProduct(np.arange(6) % 2),
    "capped": CappedSimplex(np.full(6, 0.3)),
    "cube": hypercube(6),
    "l1": L1Ball(6, 0.5),
    "l2": L2Ball(6, 0.5),
    "scaled": ScaledSimplex(6, 2.0, True),
}

ESTIMATOR_CASES = {
    "SVC": (qpsvm.SVC, {}, CLASS_NAMES),
    "SVC-objects": (qpsvm.SVC, {"kernel": "linear"}, CLASS_NAMES.astype(object)),
    "SVC-ovr": (qpsvm.SVC, {"kernel": "poly", "multi_class": "ovr"}, CLASS_NAMES),
    "SVC-squared": (qpsvm.SVC, {"kernel": "laplacian", "loss": "squared_hinge"}, CLASS_NAMES),
    "SVC-weights": (qpsvm.SVC, {"class_weight": {"a": 2.0, "b": 1.0, "c": 0.5}}, CLASS_NAMES),
    "SVC-numbers": (qpsvm.SVC, {"kernel": "sigmoid", "gamma": 0.01}, Y.astype(int)),
    "NuSVC": (qpsvm.NuSVC, {"nu": 0.3}, CLASS_NAMES),
    "NuSVC-weights": (qpsvm.NuSVC, {"nu": 0.3, "class_weight": {"a": 2.0}}, CLASS_NAMES),
    "LinearSVC": (qpsvm.LinearSVC, {"intercept_scaling": 3.0}, CLASS_NAMES),
    "LinearSVC-l1": (qpsvm.LinearSVC, {"penalty": "l1", "loss": "hinge"}, Y),
    "LSSVC": (qpsvm.LSSVC, {}, CLASS_NAMES),
    "NystroemSVC": (qpsvm.NystroemSVC, {"rank": 12}, CLASS_NAMES),
    "MaxMarginClassifier": (qpsvm.MaxMarginClassifier, {}, CLASS_NAMES),
    "SVR": (qpsvm.SVR, {}, T),
    "NuSVR": (qpsvm.NuSVR, {"kernel": "linear"}, T),
    "LinearSVR": (qpsvm.LinearSVR, {}, T),
    "LinearSVR-squared": (qpsvm.LinearSVR, {"loss": "squared_epsilon_insensitive"}, T),
    "OneClassSVM": (qpsvm.OneClassSVM, {}, None),
    "SVDD": (qpsvm.SVDD, {}, None),
}


def members_of(path):
    """Return the header of a file, and the arrays beside it."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def rewrite(path, header, arrays, *, sign=True, compress=False):
    """Write a file again, its digest recomputed where `sign`."""
    if sign:
        from qpsvm.files.container import _entry

        header["arrays"] = {name: _entry(array) for name, array in arrays.items()}
        header["digest"] = digest_of(header)
    text = np.frombuffer(json_text(header).encode(), np.uint8)
    (np.savez_compressed if compress else np.savez)(path, header=text, **arrays)


def raw_member(path, name, content, *, compress=zipfile.ZIP_STORED):
    """Append a member of any bytes to an archive."""
    with zipfile.ZipFile(path, "a", compression=compress) as archive:
        archive.writestr(name, content)
