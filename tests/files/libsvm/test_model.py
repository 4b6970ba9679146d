"""LIBSVM's model files: ours are read by its tools, theirs by us, with the same answers."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import qpsvm
from qpsvm import NuSVC, NuSVR, OneClassSVM, data
from qpsvm.files.libsvm.model import estimator_of, libsvm_model_of
from qpsvm.files.libsvm.text import read_libsvm_text
from tests.files.libsvm.tools import run, values_by_libsvm, write_data, write_kernel

pytestmark = pytest.mark.filterwarnings(
    "ignore:The certified relative gap is inf"
)  # a sigmoid kernel

KERNEL_CASES = {
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 2, "coef0": 0.5},
    "rbf": {"gamma": 0.4},
    "sigmoid": {"gamma": 0.02, "coef0": 0.1},
    "precomputed": {},
}
ESTIMATOR_CASES = {
    "c_svc": (qpsvm.SVC, {"C": 2.0}, ["-s", "0", "-c", "2"]),
    "nu_svc": (NuSVC, {"nu": 0.7}, ["-s", "1", "-n", "0.7"]),
    "one_class": (OneClassSVM, {"nu": 0.2}, ["-s", "2", "-n", "0.2"]),
    "epsilon_svr": (qpsvm.SVR, {"C": 2.0, "epsilon": 0.05}, ["-s", "3", "-c", "2", "-p", "0.05"]),
    "nu_svr": (NuSVR, {"C": 2.0, "nu": 0.4}, ["-s", "4", "-c", "2", "-n", "0.4"]),
}
N_TRAIN = 60


def points(n_classes):
    """Return points in the plane with some features of zero, and labels that are not in order."""
    rng = np.random.default_rng(n_classes)
    codes = np.arange(100) % n_classes
    labels = np.array([7, -2, 4])[codes]
    X = rng.standard_normal((100, 4))
    X[:, :2] += 1.2 * np.column_stack([np.cos(2 * codes), np.sin(2 * codes)])
    X += 1.5  # the origin is outside, so that one class has a hyperplane
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, labels


@pytest.fixture
def files(tmp_path):
    """Return the function that writes the training part and the test part of some data."""

    def write(kernel, n_classes, is_regression):
        X, y = points(n_classes)
        y = np.round(X[:, 0] - X[:, 1] ** 2, 6) if is_regression else y
        parts = slice(None, N_TRAIN), slice(N_TRAIN, None)
        if kernel == "precomputed":
            K = np.exp(-0.4 * ((X[:, None] - X[None, :N_TRAIN]) ** 2).sum(axis=2))
            paths = [
                write_kernel(tmp_path / f"part{k}", K[own], y[own]) for k, own in enumerate(parts)
            ]
            return (K, y, *paths)
        paths = [write_data(tmp_path / f"part{k}", X[own], y[own]) for k, own in enumerate(parts)]
        return (X, y, *paths)

    return write


def cases():
    for svm_type in ESTIMATOR_CASES:
        for kernel in KERNEL_CASES:
            for n_classes in (2, 3) if svm_type in ("c_svc", "nu_svc") else (2,):
                yield pytest.param(
                    svm_type, kernel, n_classes, id=f"{svm_type}-{kernel}-{n_classes}"
                )


def values_of(estimator, X):
    """Return the values of all machines, in the signs of the estimator."""
    if hasattr(estimator, "classes_"):
        return estimator.set_params(decision_function_shape="ovo").decision_function(X)
    return estimator.predict(X) if hasattr(estimator, "score") else estimator.decision_function(X)


def is_regression(svm_type):
    return svm_type.endswith("svr")


@pytest.mark.parametrize("svm_type, kernel, n_classes", list(cases()))
def test_a_model_trained_here_predicts_the_same_in_libsvm(
    svm_type, kernel, n_classes, files, tmp_path
):
    kind, parameters, _ = ESTIMATOR_CASES[svm_type]
    X, y, _, test = files(kernel, n_classes, is_regression(svm_type))
    estimator = kind(kernel=kernel, **KERNEL_CASES[kernel], **parameters).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )
    qpsvm.save_libsvm_model(tmp_path / "model", estimator)
    run("svm-predict", test, tmp_path / "model", tmp_path / "labels")
    theirs, own = np.loadtxt(tmp_path / "labels"), estimator.predict(X[N_TRAIN:])
    if is_regression(svm_type):
        np.testing.assert_allclose(theirs, own, atol=1e-6, rtol=1e-5)
    else:
        np.testing.assert_array_equal(theirs, own)
    values = values_by_libsvm(read_libsvm_text(tmp_path / "model"), test, tmp_path)
    own = values_of(estimator, X[N_TRAIN:]).reshape(len(values), -1)
    np.testing.assert_allclose(values, own, atol=1e-6, rtol=5e-6)  # it prints six digits


@pytest.mark.parametrize("svm_type, kernel, n_classes", list(cases()))
def test_a_model_of_libsvm_predicts_the_same_here(svm_type, kernel, n_classes, files, tmp_path):
    X, _, train, test = files(kernel, n_classes, is_regression(svm_type))
    flags = dict(zip(KERNEL_CASES, "01234", strict=True))
    flag = {"gamma": "-g", "degree": "-d", "coef0": "-r"}
    given = [
        text for name, value in KERNEL_CASES[kernel].items() for text in (flag[name], str(value))
    ]
    run(
        "svm-train",
        "-q",
        "-t",
        flags[kernel],
        *given,
        *ESTIMATOR_CASES[svm_type][2],
        train,
        tmp_path / "model",
    )
    run("svm-predict", test, tmp_path / "model", tmp_path / "labels")
    estimator = qpsvm.load_libsvm_model(tmp_path / "model", n_features=X.shape[1])
    assert type(estimator) is ESTIMATOR_CASES[svm_type][0]
    theirs, own = np.loadtxt(tmp_path / "labels"), estimator.predict(X[N_TRAIN:])
    if is_regression(svm_type):
        np.testing.assert_allclose(theirs, own, atol=1e-6, rtol=1e-5)
    else:
        np.testing.assert_array_equal(theirs, own)
    model = read_libsvm_text(tmp_path / "model")
    values = values_by_libsvm(model, test, tmp_path)
    if len(model.label) == 2:  # theirs are positive for the first label
        values *= 1.0 if model.label[0] == estimator.classes_[1] else -1.0
    own = values_of(estimator, X[N_TRAIN:]).reshape(len(values), -1)
    np.testing.assert_allclose(values, own, atol=1e-6, rtol=5e-6)


@pytest.mark.parametrize("svm_type, kernel, n_classes", list(cases()))
def test_a_file_that_is_read_and_written_is_the_same(svm_type, kernel, n_classes, files, tmp_path):
    """Without LIBSVM's tools: the estimator that is read has the values of the one that was fitted."""
    kind, parameters, _ = ESTIMATOR_CASES[svm_type]
    X, y, *_ = files(kernel, n_classes, is_regression(svm_type))
    estimator = kind(kernel=kernel, **KERNEL_CASES[kernel], **parameters).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )
    qpsvm.save_libsvm_model(tmp_path / "model", estimator)
    again = qpsvm.load_libsvm_model(tmp_path / "model", n_features=X.shape[1])
    values = values_of(estimator, X)
    np.testing.assert_allclose(values_of(again, X), values, atol=1e-9)
    # A support vector on the boundary has a value of zero up to rounding, and either sign.
    is_clear = (np.abs(values.reshape(len(X), -1)) > 1e-9).all(axis=1)
    np.testing.assert_allclose(
        again.predict(X[is_clear]), estimator.predict(X[is_clear]), atol=1e-9
    )
    qpsvm.save_libsvm_model(tmp_path / "again", again)
    assert (tmp_path / "again").read_text() == (tmp_path / "model").read_text()
    if hasattr(again, "to_sklearn") and kernel != "precomputed" and svm_type != "nu_svr":
        theirs = again.to_sklearn()
        np.testing.assert_allclose(values_of(theirs, X), values_of(again, X), atol=1e-6)


def test_labels_of_libsvm_keep_their_order_which_settles_equal_votes(tmp_path):
    """Each of three classes has one vote at 0: the first one of the file is predicted."""
    text = """svm_type c_svc
kernel_type linear
nr_class 3
total_sv 3
rho -1 1 -1
label 5 9 2
nr_sv 1 1 1
SV
0 0 1:1
0 0 1:1
0 0 1:1
"""
    (tmp_path / "model").write_text(text)
    (tmp_path / "point").write_text("0 1:0\n")
    assert qpsvm.load_libsvm_model(tmp_path / "model").predict([[0.0]]).tolist() == [5]
    run("svm-predict", tmp_path / "point", tmp_path / "model", tmp_path / "label")
    assert (tmp_path / "label").read_text().strip() == "5"


def test_probabilities_of_two_classes_are_written(tmp_path):
    X, y = points(2)
    estimator = qpsvm.SVC(gamma=0.4, probability=True).fit(X, y)
    qpsvm.save_libsvm_model(tmp_path / "model", estimator)
    path = write_data(tmp_path / "data", X, y)
    run("svm-predict", "-b", "1", path, tmp_path / "model", tmp_path / "labels")
    head, *lines = (tmp_path / "labels").read_text().splitlines()
    assert head.split() == ["labels", "7", "-2"]
    theirs = np.array([line.split()[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(theirs[:, ::-1], estimator.predict_proba(X), atol=1e-5)
    assert read_libsvm_text(tmp_path / "model").has_probabilities


def test_probabilities_of_libsvm_are_read_and_not_used(tmp_path):
    X, y = points(3)
    path = write_data(tmp_path / "data", X, y)
    run("svm-train", "-q", "-b", "1", path, tmp_path / "model")
    assert read_libsvm_text(tmp_path / "model").has_probabilities
    estimator = qpsvm.load_libsvm_model(tmp_path / "model")
    run("svm-predict", path, tmp_path / "model", tmp_path / "labels")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "labels"), estimator.predict(X))


def test_points_with_more_features_than_the_support_vectors(tmp_path):
    X, y = points(2)
    narrow = qpsvm.SVC(gamma=0.4).fit(X[:, :2], y)
    qpsvm.save_libsvm_model(tmp_path / "model", narrow)
    path = write_data(tmp_path / "data", X, y)
    wide = qpsvm.load_libsvm_model(tmp_path / "model", n_features=4)
    values = values_by_libsvm(read_libsvm_text(tmp_path / "model"), path, tmp_path)
    np.testing.assert_allclose(wide.decision_function(X), values[:, 0], atol=1e-6)
    with pytest.raises(
        qpsvm.InputError, match=r"n_features must be at least 2, as in the file; got 1"
    ):
        qpsvm.load_libsvm_model(tmp_path / "model", n_features=1)


def test_features_that_are_counted_from_zero(tmp_path):
    X, y = points(2)
    estimator = qpsvm.SVC(gamma=0.4).fit(X, y)
    model = libsvm_model_of(estimator, first_index=0)
    assert model.points.shape[1] == 4
    values = values_by_libsvm(model, write_data(tmp_path / "data", X, y, first_index=0), tmp_path)
    np.testing.assert_allclose(estimator.decision_function(X), values[:, 0], atol=1e-6)
    again = estimator_of(model)
    np.testing.assert_allclose(again.decision_function(X), values[:, 0], atol=1e-6)
    own, _ = data.load_libsvm(tmp_path / "data")
    np.testing.assert_array_equal(own.toarray(), X)


@pytest.mark.parametrize(
    "estimator, said",
    [
        (qpsvm.SVC(kernel="laplacian"), "kernel must be one that LIBSVM has"),
        (qpsvm.SVC(multi_class="ovr"), "multi_class must be 'ovo'"),
        (qpsvm.SVC(break_ties=True), "multi_class must be 'ovo' and break_ties False"),
        (qpsvm.SVC(probability=True), "probability must be False for more than two classes"),
        (qpsvm.LinearSVC(), "estimator must be one of SVC, NuSVC, .*got LinearSVC"),
    ],
)
def test_what_libsvm_has_no_model_for_is_an_error(estimator, said, tmp_path):
    X, y = points(3)
    with pytest.raises(qpsvm.InputError, match=said):
        qpsvm.save_libsvm_model(tmp_path / "model", estimator.fit(X, y))
    assert not list(tmp_path.iterdir())


def test_labels_that_are_no_integers_are_an_error(tmp_path):
    X, _ = points(2)
    estimator = qpsvm.SVC().fit(X, np.array(["a", "b"])[np.arange(100) % 2])
    with pytest.raises(qpsvm.InputError, match="classes must be integers"):
        qpsvm.save_libsvm_model(tmp_path / "model", estimator)


GOOD_FILE = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 2
rho 0.1
label 1 -1
nr_sv 1 1
SV
1 1:0.5 3:2
-1 2:1
"""


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "svm_type c_svc\n",
            "+1 1:0.5\n",
            r"line 1: expected svm_type, as LIBSVM's model files begin",
        ),
        ("c_svc", "svc", r"line 1: expected one of c_svc, .*got 'svc'"),
        ("gamma 0.5\n", "", r"expected a line gamma"),
        ("gamma 0.5", "gamma half", r"line 3: expected gamma and 1 numbers; got 'half'"),
        ("nr_class 2", "nr_class two", r"line 4: expected nr_class and a number; got 'two'"),
        ("nr_class 2", "nr_class 1", r"line 4: expected at least 2 classes; got '1'"),
        ("rho 0.1", "rho 0.1 nan", r"line 6: expected rho and 1 numbers"),
        ("nr_sv 1 1", "nr_sv 1 2", r"line 8: expected numbers >= 0 of sum 2"),
        ("SV\n", "vectors\n", r"line 9: expected a line of the header, or SV; got 'vectors'"),
        ("-1 2:1\n", "", r"line 10: expected 2 support vectors; got '1 lines after SV'"),
        ("-1 2:1\n", "x 2:1\n", r"line 11: expected 1 coefficients; got 'x 2:1'"),
        ("label 1 -1", "label 1 1", r"line 7: expected different labels"),
        ("label 1 -1", "label 1 0.5", r"line 7: expected label and 2 integers"),
        ("nr_sv 1 1", "nr_sv 3 -1", r"line 8: expected numbers >= 0 of sum 2"),
        ("gamma 0.5", "gamma -0.5", r"line 3: expected gamma >= 0; got '-0.5'"),
        (
            "rbf\ngamma 0.5",
            "polynomial\ndegree 2.5\ngamma 0.5\ncoef0 0",
            r"line 3: expected degree and 1 integers",
        ),
        ("total_sv 2", "total_sv " + "9" * 5000, r"line 5: expected total_sv and a number"),
        ("3:2", "9" * 5000 + ":2", r"line 10: expected index:value, indices ascending"),
        (
            "rbf\ngamma 0.5",
            "precomputed",
            r"line 8: expected one entry 0:number for each support vector",
        ),
        ("3:2", "1:2", r"line 10: expected index:value, indices ascending; got '1:2'"),
        (
            "SV\n1 1:0.5 3:2\n-1 2:1\n",
            "",
            r"line 9: expected the line SV; got 'the end of the file'",
        ),
    ],
)
def test_a_wrong_model_file_names_the_line(old, new, said, tmp_path):
    (tmp_path / "model").write_text(GOOD_FILE.replace(old, new))
    with pytest.raises(qpsvm.InputError, match=said):
        qpsvm.load_libsvm_model(tmp_path / "model")


@pytest.mark.parametrize("serial", ["1e300", "0", "1.5", "-1"])
def test_a_serial_number_out_of_range_is_an_error(serial, tmp_path):
    text = GOOD_FILE.replace("rbf\ngamma 0.5", "precomputed").replace("1:0.5 3:2", "0:1")
    (tmp_path / "model").write_text(text.replace("2:1", f"0:{serial}"))
    with pytest.raises(qpsvm.InputError, match="line 8: expected one entry 0:number"):
        qpsvm.load_libsvm_model(tmp_path / "model")


def test_a_missing_file_and_a_compressed_one(tmp_path):
    with pytest.raises(qpsvm.InputError, match="path must be a file that can be read"):
        qpsvm.load_libsvm_model(tmp_path / "none")
    (tmp_path / "model.gz").write_bytes(gzip.compress(GOOD_FILE.encode()))
    assert qpsvm.load_libsvm_model(tmp_path / "model.gz").classes_.tolist() == [-1, 1]
    with pytest.raises(qpsvm.InputError, match="path must be a file that can be written"):
        model = qpsvm.load_libsvm_model(tmp_path / "model.gz")
        qpsvm.save_libsvm_model(tmp_path / "no" / "folder", model)
