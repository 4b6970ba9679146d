"""Result files: what is stored comes back, damage is one error, and a write is all or nothing."""

import io
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import qpsvm
from qpsvm.files import container
from tests.conftest import PROJECT_ROOT
from tests.files.cases import (
    CLASS_NAMES,
    ESTIMATOR_CASES,
    GRAM_CASES,
    PROBLEM_CASES,
    T,
    X,
    Y,
    members_of,
    raw_member,
    rewrite,
)

NEW_POINTS = np.random.default_rng(3).standard_normal((25, 3))


def outputs(model, points):
    names = ("decision_function", "predict", "distance", "score_samples")
    methods = {name: getattr(model, name, None) for name in names}  # a distance may be a number
    return {name: method(points) for name, method in methods.items() if callable(method)}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ESTIMATOR_CASES)
def test_an_estimator_predicts_the_same_to_the_last_bit(name, sparse, tmp_path):
    kind, parameters, y = ESTIMATOR_CASES[name]
    points = sp.csr_matrix(X) if sparse else X
    model = kind(**parameters).fit(points, y)
    qpsvm.save(tmp_path / "a.npz", model, X=points, y=y)
    back = qpsvm.load(tmp_path / "a.npz").model()
    assert type(back) is kind and back.get_params() == model.get_params()
    new = sp.csr_matrix(NEW_POINTS) if sparse else NEW_POINTS
    expected = outputs(model, new)
    assert expected
    for method, values in outputs(back, new).items():
        np.testing.assert_array_equal(values, expected[method])
    assert back.dual_gap_ == model.dual_gap_ and back.status_ is model.status_


@pytest.mark.parametrize("kernel", ["linear", "rbf", "rbf-csr", "low-rank", "precomputed"])
@pytest.mark.parametrize("name", ["HingeDual", "MEBDual", "PolytopeDistanceDual", "SVRDual"])
def test_the_model_of_a_result_predicts_the_same_to_the_last_bit(name, kernel, tmp_path):
    problem = PROBLEM_CASES[name](GRAM_CASES[kernel])
    result = qpsvm.solve(problem)
    qpsvm.save(tmp_path / "a.npz", result, problem)
    stored = qpsvm.load(tmp_path / "a.npz")
    new = GRAM_CASES["precomputed"].K[:25] if kernel == "precomputed" else NEW_POINTS
    if (name, kernel) == ("MEBDual", "precomputed"):
        assert stored.model().radius == result.model.radius
        return  # distances to new points need k(x, x)
    for method, values in outputs(stored.model(), new).items():
        np.testing.assert_array_equal(values, getattr(result.model, method)(new))
    assert str(stored.model()) == str(result.model)


def test_a_stored_result_says_what_was_solved(tmp_path):
    problem = qpsvm.HingeDual(GRAM_CASES["rbf"], Y, 2.0)
    result = qpsvm.solve(problem)
    qpsvm.save(tmp_path / "a.npz", result, problem)
    stored = qpsvm.load(tmp_path / "a.npz")
    one = stored.problems[0]
    assert (stored.kind, stored.name, one.formulation) == ("result", "HingeDual", "HingeDual")
    assert stored.kernel == {"name": "rbf", "gamma": 0.3}
    assert stored.versions["qpsvm"] == qpsvm.__version__
    assert stored.data["X"] == container.hash_points(X)
    np.testing.assert_array_equal(one.result.x, result.x)
    np.testing.assert_array_equal(one.parameters["y"], Y)
    assert one.result.certificate == result.certificate
    assert one.result.status is result.status and one.rows is None


def test_hashes_are_those_of_the_numbers():
    dense, sparse = container.hash_points(X), container.hash_points(sp.csr_matrix(X))
    assert container.hash_points(np.asfortranarray(X)) == dense
    assert container.hash_points(X.astype(np.float32)) == container.hash_points(
        X.astype(np.float32).astype(np.float64)
    )
    assert container.hash_points(sp.coo_matrix(X)) == sparse and sparse != dense
    with_zero = sp.csr_matrix(([1.0, 0.0], ([0, 1], [0, 2])), shape=(2, 3))
    without = sp.csr_matrix(([1.0], ([0], [0])), shape=(2, 3))
    assert container.hash_points(with_zero) == container.hash_points(without)
    assert container.hash_points(np.array([[-0.0, 1.0]])) == container.hash_points([[0.0, 1.0]])
    assert container.hash_values([1, 2]) == container.hash_values([1.0, 2.0])
    assert container.hash_values(CLASS_NAMES) == container.hash_values(CLASS_NAMES.astype(object))
    assert container.hash_values(CLASS_NAMES) != container.hash_values(np.roll(CLASS_NAMES, 1))


def test_the_file_is_an_npz_with_a_json_header(tmp_path):
    qpsvm.save(tmp_path / "a.npz", qpsvm.SVC().fit(X, CLASS_NAMES))
    header, arrays = members_of(tmp_path / "a.npz")
    assert (header["format"], header["format_version"]) == ("qpsvm-result", 1)
    assert {p["formulation"] for p in header["problems"]} == {"HingeDual"}
    assert all(array.dtype.kind != "O" for array in arrays.values())
    assert header["kernel"]["name"] == "rbf" and header["kernel"]["gamma"] > 0


@pytest.fixture
def ball(tmp_path):
    path, problem = tmp_path / "ball.npz", qpsvm.MEBDual(GRAM_CASES["rbf"])
    qpsvm.save(path, qpsvm.solve(problem), problem)
    return path


def ends_in_an_error_or_the_same(path, content, expected):
    """Write bytes; return whether load and verify end in InputError, in "not ok", or as before."""
    path.write_bytes(content)
    try:
        report = qpsvm.verify(path, X)
    except qpsvm.InputError:
        with pytest.raises(qpsvm.InputError):
            qpsvm.load(path)
        return "error"
    if not report.ok:
        return "not ok"
    assert report == expected  # the change is no part of the content
    assert qpsvm.load(path).model().radius > 0
    return "same"


def test_fuzzed_files_end_in_one_error(ball, tmp_path, rng):
    content, expected = ball.read_bytes(), qpsvm.verify(ball, X)
    ends = []
    for _ in range(200):
        changed = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 4)):
            changed[at] ^= int(rng.integers(1, 256))
        ends.append(ends_in_an_error_or_the_same(tmp_path / "b.npz", bytes(changed), expected))
    for _ in range(100):
        start, stop = np.sort(rng.integers(0, len(content), 2))
        cut = content[:start] if rng.random() < 0.5 else content[:start] + content[stop + 1 :]
        ends.append(ends_in_an_error_or_the_same(tmp_path / "b.npz", cut, expected))
    assert set(ends[200:]) == {"error"} and ends.count("error") > 200


def test_fuzzed_headers_end_in_one_error_or_a_report(ball, tmp_path, rng):
    """The digests match, so that the content itself meets the readers."""
    header, arrays = members_of(ball)
    values = (None, -1, 0.5, "x", [], {}, {"$array": "none"}, {"$float": "nan"}, {"$class": "os"})
    places = []

    def collect(value):
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], (dict, list)):
                collect(value[key])

    collect({k: v for k, v in header.items() if k not in ("arrays", "digest")})
    for holder, key in places:
        kept, holder[key] = holder[key], values[rng.integers(len(values))]
        rewrite(tmp_path / "b.npz", header, arrays)
        holder[key] = kept
        for read in (lambda p: qpsvm.verify(p, X), lambda p: qpsvm.load(p).model()):
            try:
                read(tmp_path / "b.npz")
            except qpsvm.InputError:
                pass
    rewrite(tmp_path / "b.npz", header, arrays)
    assert qpsvm.verify(tmp_path / "b.npz", X).ok


def test_arrays_that_do_not_fit_are_errors(ball, tmp_path):
    header, arrays = members_of(ball)
    name = header["problems"][0]["result"]["fields"]["x"]["$array"]
    x = arrays[name]
    for wrong in (x[:-1], x[:, None], x * np.nan, x.astype("U"), np.append(x, 0.0)):
        rewrite(tmp_path / "b.npz", header, {**arrays, name: wrong})
        with pytest.raises(qpsvm.InputError):
            qpsvm.verify(tmp_path / "b.npz", X)


def test_digests_are_checked(ball, tmp_path):
    header, arrays = members_of(ball)
    name = header["problems"][0]["result"]["fields"]["x"]["$array"]
    cases = [
        (header, {**arrays, name: arrays[name] * 2.0}, "arrays that do not match"),
        (header, {k: v for k, v in arrays.items() if k != name}, "arrays that do not match"),
        (header, {**arrays, "more": np.zeros(1)}, "arrays that do not match"),
        ({**header, "kernel": {"name": "linear"}}, arrays, "does not match its digest"),
        ({**header, "format": "other"}, arrays, "another format"),
        ({**header, "format_version": 99}, arrays, "version 99"),
    ]
    for changed, members, text in cases:
        rewrite(tmp_path / "b.npz", changed, members, sign=False)
        with pytest.raises(qpsvm.InputError, match=text):
            qpsvm.load(tmp_path / "b.npz")


class Touch:
    """An object whose unpickling makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_no_pickle_is_read(ball, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Touch(str(tmp_path / "ran"))], dtype=object), allow_pickle=True)
    raw_member(ball, "more.npy", buffer.getvalue())
    with pytest.raises(qpsvm.InputError, match="numbers and text are allowed"):
        qpsvm.load(ball)
    (tmp_path / "p.npz").write_bytes(pickle.dumps(Touch(str(tmp_path / "ran"))))
    with pytest.raises(qpsvm.InputError):
        qpsvm.load(tmp_path / "p.npz")
    assert not (tmp_path / "ran").exists()


def test_an_archive_that_would_fill_the_memory_is_refused(ball, tmp_path):
    header, arrays = members_of(ball)
    rewrite(tmp_path / "b.npz", header, {**arrays, "zeros": np.zeros(10**6)}, compress=True)
    with pytest.raises(qpsvm.InputError, match=r"larger than the file|compressed"):
        qpsvm.load(tmp_path / "b.npz")
    promise = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        promise, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    raw_member(ball, "huge.npy", promise.getvalue())
    with pytest.raises(qpsvm.InputError, match="length does not match"):
        qpsvm.load(ball)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive", b"\x00" * 1000])
def test_other_files_are_one_error(content, tmp_path):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(qpsvm.InputError, match="must name a result file"):
        qpsvm.load(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with pytest.raises(qpsvm.InputError, match="has no header"):
        qpsvm.load(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("header.npy", b"text")
    with pytest.raises(qpsvm.InputError):
        qpsvm.load(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError):
        qpsvm.load(tmp_path / "none.npz")


def test_a_process_killed_while_it_writes_leaves_the_old_file(ball):
    code = f"""
import os, signal
import numpy as np
import qpsvm
from qpsvm.files import container

def killed(file, mode):
    file.write(b"half of a file")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

container.zipfile.ZipFile = killed
container.write_archive({str(ball)!r}, {{}}, {{"x": np.zeros(3)}})
"""
    if not hasattr(os, "kill") or sys.platform == "win32":
        pytest.skip("there is no SIGKILL")
    before = ball.read_bytes()
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, timeout=120)
    assert done.returncode == -9
    assert ball.read_bytes() == before and qpsvm.verify(ball, X).ok


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(ball, monkeypatch):
    def full(file, mode):
        file.write(b"half of a file")
        raise OSError("no space left on device")

    before = ball.read_bytes()
    monkeypatch.setattr(container.zipfile, "ZipFile", full)
    with pytest.raises(OSError, match="no space"):
        container.write_archive(ball, {}, {"x": np.zeros(3)})
    assert ball.read_bytes() == before
    assert os.listdir(ball.parent) == [ball.name]


def double(P, Q):
    return 2.0 * np.asarray(P @ Q.T)


def test_what_cannot_be_stored_is_one_error(tmp_path):
    path = tmp_path / "a.npz"
    fitted = qpsvm.SVC().fit(X, CLASS_NAMES)
    result = qpsvm.solve(qpsvm.MEBDual(GRAM_CASES["rbf"]))
    operator = sp.linalg.aslinearoperator(X)
    squares = qpsvm.LeastSquares(operator, Y, qpsvm.domains.simplex(3))
    birkhoff = qpsvm.QuadraticProgram(np.eye(9), np.zeros(9), qpsvm.domains.Birkhoff(3))
    cases = [
        ((result,), {}, "problem must be the formulation"),
        ((result, "MEBDual"), {}, "problem must be the formulation"),
        ((result, qpsvm.MEBDual(GRAM_CASES["rbf"])), {"X": X}, "X and y must be left out"),
        ((fitted, qpsvm.MEBDual(GRAM_CASES["rbf"])), {}, "problem must be left out"),
        ((qpsvm.solve(squares), squares), {}, "got an operator"),
        ((qpsvm.solve(birkhoff), birkhoff), {}, "domain of"),
        ((qpsvm.SVC(),), {}, "must be fitted"),
        ((object(),), {}, "a Result or one of"),
        ((pickle.loads(pickle.dumps(fitted)),), {}, "from its own fit"),
    ]
    for arguments, options, text in cases:
        with pytest.raises(qpsvm.InputError, match=text):
            qpsvm.save(path, *arguments, **options)
    assert not path.exists()


def test_a_kernel_function_is_given_again(tmp_path):
    model = qpsvm.SVR(kernel=double).fit(X, T)
    qpsvm.save(tmp_path / "a.npz", model, X=X, y=T)
    stored = qpsvm.load(tmp_path / "a.npz")
    assert stored.kernel["function"].endswith("double")
    with pytest.raises(qpsvm.InputError, match="kernel must be the function"):
        stored.model()
    back = stored.model(kernel=double)
    np.testing.assert_array_equal(back.predict(NEW_POINTS), model.predict(NEW_POINTS))
    assert qpsvm.verify(tmp_path / "a.npz", X, T, kernel=double).ok


def test_a_model_of_a_given_matrix_and_the_best_of_a_search_are_stored(tmp_path):
    K = np.exp(-0.3 * np.square(X[:, None] - X).sum(axis=2))
    model = qpsvm.SVC(kernel="precomputed").fit(K, CLASS_NAMES)
    qpsvm.save(tmp_path / "a.npz", model, X=K, y=CLASS_NAMES)
    assert qpsvm.verify(tmp_path / "a.npz", K, CLASS_NAMES).ok
    back = qpsvm.load(tmp_path / "a.npz").model()
    np.testing.assert_array_equal(back.decision_function(K[:9]), model.decision_function(K[:9]))
    best = qpsvm.SVCCV(Cs=[0.1, 1.0], gammas=[0.3], cv=3).fit(X, CLASS_NAMES).best_estimator_
    qpsvm.save(tmp_path / "b.npz", best, X=X, y=CLASS_NAMES)
    assert qpsvm.verify(tmp_path / "b.npz", X, CLASS_NAMES).ok


def test_a_callback_is_left_out_and_named(tmp_path):
    model = qpsvm.SVC(callback=lambda progress: False).fit(X, CLASS_NAMES)
    qpsvm.save(tmp_path / "a.npz", model)
    stored = qpsvm.load(tmp_path / "a.npz")
    assert stored.header["model"]["omitted"] == ["callback"]
    assert stored.model().callback is None
