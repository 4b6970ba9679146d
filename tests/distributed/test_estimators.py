"""Estimators on chunked points: the answers of arrays, lazy predictions, and joblib's Dask backend."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import (
    RBF,
    SVC,
    SVDD,
    SVR,
    HingeDual,
    InputError,
    L2SVMDual,
    Linear,
    LinearSVC,
    MaxMarginClassifier,
    NuSVC,
    OneClassSVM,
    solve_path,
)
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_ROWS

SOLVE_TOLERANCE = 1e-5
"""Certified relative gap of every fit."""


@pytest.fixture(scope="module")
def three_classes(cloud):
    """Names of three classes of the points."""
    X, _ = cloud
    return np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [4.8, 5.8])]


def opened(X):
    return open_rows(X, chunk_bytes=10_000)


def assert_same_machine(one, other, X, rel=1e-3):
    """The certified intervals overlap, and the functions are nearly equal at the points."""
    ours, theirs = one.result_, other.result_
    pairs = zip(*(r if isinstance(r, list) else [r] for r in (ours, theirs)), strict=True)
    for a, b in pairs:
        assert a.converged and b.converged
        assert a.certificate.lower <= b.certificate.upper
        assert b.certificate.lower <= a.certificate.upper
    values = one.decision_function(X), other.decision_function(X)
    scale = np.max(np.abs(values[1]))
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=rel * scale)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_classifier_has_the_machine_of_the_array(cloud, weighted):
    X, y = cloud
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0) if weighted else None
    there, here = (SVC(tol=SOLVE_TOLERANCE).fit(P, y, sample_weight=weight) for P in (opened(X), X))
    assert there._gamma == pytest.approx(here._gamma)
    assert_same_machine(there, here, X, rel=2e-2)
    np.testing.assert_array_equal(there.support_vectors_, X[there.support_])
    assert there.dual_coef_.shape == (1, len(there.support_))
    assert there.n_features_in_ == X.shape[1] and there.shape_fit_ == X.shape
    predicted = there.predict(opened(X))
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_array_equal(predicted, there.predict(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("class_weight", [None, {-1.0: 2.0, 1.0: 0.5}])
def test_machines_of_reduced_hulls(cloud, class_weight, kernel):
    X, y = cloud
    options = {"nu": 0.75, "gamma": 0.3, "kernel": kernel, "tol": SOLVE_TOLERANCE}
    weight = np.where(np.arange(len(X)) % 3 == 0, 2.0, 1.0)
    there, here = (
        NuSVC(class_weight=class_weight, **options).fit(P, y, sample_weight=weight)
        for P in (opened(X), X)
    )
    if class_weight is None:
        assert_same_machine(there, here, X, rel=2e-2)
    values, others = here.decision_function(X), there.decision_function(X)  # factors: two solves
    np.testing.assert_allclose(others, values, rtol=0, atol=3e-2 * np.max(np.abs(values)))
    assert np.mean(there.predict(opened(X)) == here.predict(X)) > 0.99


@pytest.mark.parametrize("options", [{"nu": 0.4}, {"C": 2.0}])
def test_the_widest_margin_of_several_classes(cloud, three_classes, options):
    X, _ = cloud
    model = MaxMarginClassifier(gamma=0.3, tol=SOLVE_TOLERANCE, **options)
    there, here = (
        MaxMarginClassifier(**model.get_params()).fit(P, three_classes) for P in (opened(X), X)
    )
    np.testing.assert_allclose(there.margin_, here.margin_, rtol=1e-3)
    assert np.mean(there.predict(X) == here.predict(X)) > 0.99


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "dag"])
def test_several_classes_are_pairs_of_rows_in_their_chunks(cloud, three_classes, multi_class):
    X, _ = cloud
    model = SVC(kernel="rbf", gamma=0.2, tol=SOLVE_TOLERANCE, multi_class=multi_class, C=0.5)
    there = model.fit(opened(X), three_classes)
    found, scores = there.predict(X), there.decision_function(X)
    here = SVC(**model.get_params()).fit(X, three_classes)
    assert scores.shape == (len(X), 3)
    assert np.mean(found == here.predict(X)) > 0.995
    np.testing.assert_array_equal(there.support_vectors_, X[there.support_])
    assert np.sum(there.n_support_) == len(there.support_)


def test_linear_machines_are_solved_in_passes(cloud):
    X, y = cloud
    there, here = (SVC(kernel="linear", tol=SOLVE_TOLERANCE).fit(P, y) for P in (opened(X), X))
    assert_same_machine(there, here, X, rel=1e-2)
    assert there.result_[0].method == "newton-passes"
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "hinge"},
        {"loss": "hinge", "intercept_scaling": np.inf},
        {"loss": "hinge", "fit_intercept": False},
        {"loss": "squared_hinge", "intercept_scaling": 3.0},
        {"loss": "squared_hinge", "class_weight": "balanced"},
    ],
)
def test_linear_svc_declares_the_same_problem(cloud, options):
    X, y = cloud
    X = X - 4.0
    there, here = (
        LinearSVC(tol=SOLVE_TOLERANCE, C=0.3, **options).fit(P, y) for P in (opened(X), X)
    )
    assert_same_machine(there, here, X, rel=1e-2)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=1e-2)


def test_sparse_rows_have_sparse_support_vectors(cloud, tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, y = cloud
    dump_svmlight_file(X, y, str(tmp_path / "points.txt"), zero_based=False)
    rows = open_rows(tmp_path / "points.txt", chunk_bytes=10_000)
    model = SVC(gamma=0.3, tol=SOLVE_TOLERANCE).fit(rows, rows.labels)
    assert sp.issparse(model.support_vectors_) and sp.issparse(model.dual_coef_)
    np.testing.assert_allclose(model.support_vectors_.toarray(), X[model.support_], rtol=1e-14)
    np.testing.assert_array_equal(model.predict(rows), model.predict(sp.csr_matrix(X)))


@pytest.mark.parametrize("kind", [OneClassSVM, SVDD])
def test_outlier_detectors(cloud, kind):
    X, _ = cloud
    weight = np.where(np.arange(len(X)) % 4 == 0, 3.0, 1.0)
    there, here = (
        kind(nu=0.2, gamma="scale", tol=SOLVE_TOLERANCE).fit(P, sample_weight=weight)
        for P in (opened(X), X)
    )
    assert_same_machine(there, here, X, rel=1e-2)
    np.testing.assert_array_equal(there.support_vectors_, X[there.support_])
    np.testing.assert_array_equal(there.predict(opened(X)), there.predict(X))


def test_a_path_of_penalties_and_of_gammas(cloud):
    X, y = cloud
    for gram, changes in (
        (lambda P: RBF(P, gamma=0.3), ("C", [0.1, 1.0])),
        (lambda P: RBF(P, gamma=0.3), ("gamma", [0.1, 0.3])),
        (Linear, ("C", [0.1, 1.0])),
    ):
        there, here = (
            solve_path(HingeDual(gram(P), y), *changes, tol=SOLVE_TOLERANCE) for P in (opened(X), X)
        )
        assert there.values == here.values == changes[1]
        for one, other in zip(there, here, strict=True):
            assert one.converged and one.value == pytest.approx(
                other.value, rel=3 * SOLVE_TOLERANCE
            )
    there, here = (
        solve_path(L2SVMDual(RBF(P, gamma=0.3), y), "C", [0.5, 2.0]) for P in (opened(X), X)
    )
    assert [r.converged for r in there] == [True, True]
    assert [r.value for r in there] == pytest.approx([r.value for r in here], rel=3e-3)


def test_an_estimator_that_cannot_be_fitted_to_chunks_raises_before_the_solve(cloud):
    X, y = cloud
    rows = opened(X)
    with pytest.raises(InputError, match=r"X must be an array .*; got chunked rows"):
        SVR().fit(rows, y)
    with pytest.raises(InputError, match="kernel='precomputed'"):
        SVC(kernel="precomputed").fit(rows, y)
    with pytest.raises(InputError, match="probability must be False"):
        SVC(probability=True).fit(rows, y)
    with pytest.raises(InputError, match="sample_weight must be > 0"):
        SVC().fit(rows, y, sample_weight=np.arange(len(y)))
    with pytest.raises(InputError, match="1500 points; got 3 labels"):
        SVC().fit(rows, y[:3])
    with pytest.raises(ValueError, match="requires y to be passed"):
        SVC().fit(rows, None)
    with pytest.raises(ValueError, match="4 features"):
        SVC(gamma=1.0).fit(rows, y).predict(opened(X[:, :3]))


def test_predictions_of_dask_arrays_are_lazy(cloud, three_classes):
    da = pytest.importorskip("dask.array")
    X, y = cloud
    held = da.from_array(X, chunks=(CHUNK_ROWS, 2))
    for model, labels in ((SVC(C=0.5), three_classes), (SVR(), y), (LinearSVC(), y)):
        model.fit(X, labels)
        found = model.predict(held)
        assert isinstance(found, da.Array) and found.chunks[0] == held.chunks[0]
        assert found.dtype == model.predict(X).dtype
        np.testing.assert_array_equal(found.compute(), model.predict(X))
    scores = SVC(C=0.5).fit(X, three_classes).decision_function(held)
    assert scores.shape == (len(X), 3) and scores.compute().shape == (len(X), 3)


def test_a_frame_keeps_its_names(cloud, three_classes):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, _ = cloud
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(label=three_classes)
    table = dd.from_pandas(frame, npartitions=4)
    model = SVC(gamma=0.3).fit(table[list("pqrs")], table["label"])
    assert model.feature_names_in_.tolist() == list("pqrs")
    found = model.predict(table[list("pqrs")])
    np.testing.assert_array_equal(found.compute(), model.predict(frame[list("pqrs")]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[list("qprs")])


def test_a_fit_and_a_prediction_on_a_cluster(client, cloud):
    import dask.array as da

    X, y = cloud
    held = da.from_array(X, chunks=(CHUNK_ROWS, -1)).persist()
    labels = da.from_array(y, chunks=CHUNK_ROWS)
    there, here = SVC(tol=SOLVE_TOLERANCE).fit(held, labels), SVC(tol=SOLVE_TOLERANCE).fit(X, y)
    assert there._gamma == pytest.approx(here._gamma)
    assert_same_machine(there, here, X, rel=2e-2)
    np.testing.assert_array_equal(there.support_vectors_, X[there.support_])
    np.testing.assert_array_equal(there.predict(held).compute(), there.predict(X))
    assert there.score(held, labels) == pytest.approx(there.score(X, y))


def test_pairs_and_searches_run_at_the_workers_by_joblib(client, cloud, three_classes):
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    X, _ = cloud
    X, names = X[:400], three_classes[:400]
    here = SVC(gamma=0.3, tol=SOLVE_TOLERANCE).fit(X, names)
    with parallel_config(backend="dask"):
        there = SVC(gamma=0.3, tol=SOLVE_TOLERANCE, n_jobs=2).fit(X, names)
        search = GridSearchCV(SVC(), {"C": [0.1, 10.0]}, cv=3, n_jobs=2).fit(X, names)
    assert_same_machine(there, here, X, rel=1e-2)
    assert search.best_score_ == pytest.approx(
        GridSearchCV(SVC(), {"C": [0.1, 10.0]}, cv=3).fit(X, names).best_score_, abs=0.01
    )
