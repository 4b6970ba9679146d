"""Training, prediction and verification on the command line, beside LIBSVM's tools where they are."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import qpsvm
from qpsvm import InputError
from qpsvm.cli.progress import GapBar, in_words, seconds_left
from qpsvm.files.libsvm.text import read_libsvm_text
from qpsvm.files.result_file import load
from tests.files.libsvm.tools import run

TRAIN_FLAGS = {
    "c-svc": "-s 0 -c 5 train.txt",
    "linear": "-s 0 -t 0 -c 0.5 train.txt",
    "polynomial": "-s 0 -t 1 -d 2 -r 1 train.txt",
    "weights": "-s 0 -w1 3 -w-1 0.5 train.txt",
    "nu-svc": "-s 1 -n 0.3 train.txt",
    "one-class": "-s 2 -n 0.2 train.txt",
    "epsilon-svr": "-s 3 -c 4 -p 0.2 values.txt",
    "nu-svr": "-s 4 -c 4 -n 0.3 values.txt",
    "pairs": "-s 0 iris.txt",
    "pairs of reduced hulls": "-s 1 -n 0.4 iris.txt",
    "precomputed": "-s 0 -t 4 kernel.txt",
}


def numbers(text):
    """Return the numbers of LIBSVM's closing lines, one list for each kind of line."""
    found = {}
    for name, value in re.findall(r"(\w+) = (-?[\d.]+)", text.split("Certified")[0]):
        found.setdefault(name, []).append(float(value))
    found.pop("iter")
    return found


@pytest.mark.parametrize("name", TRAIN_FLAGS)
def test_the_closing_lines_are_those_of_libsvm(name, call):
    code, own, _ = call(f"train -e 1e-5 {TRAIN_FLAGS[name]} own.model")
    assert code == 0 and re.search(r"^Certified relative gap = \S+ \(tolerance 1e-05", own, re.M)
    theirs = numbers(run("svm-train", "-e", "1e-6", *TRAIN_FLAGS[name].split(), "their.model"))
    own = numbers(own)
    assert own.keys() == theirs.keys()
    for line, values in theirs.items():
        if line in ("nSV", "nBSV"):  # duplicates count once here
            np.testing.assert_allclose(own[line], values, atol=3)
        else:
            np.testing.assert_allclose(own[line], values, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", TRAIN_FLAGS)
def test_both_programs_predict_the_same_by_both_models(name, call, within):
    data = TRAIN_FLAGS[name].split()[-1]
    test = {"train.txt": "test.txt", "kernel.txt": "kernel-test.txt"}.get(data, data)
    assert call(f"train {TRAIN_FLAGS[name]} own.model")[0] == 0
    run("svm-train", "-q", *TRAIN_FLAGS[name].split(), "their.model")
    for model in ("own.model", "their.model"):
        code, said, _ = call(f"predict {test} {model} own.txt")
        assert code == 0
        theirs = run("svm-predict", test, model, "their.txt")
        np.testing.assert_allclose(
            np.loadtxt("own.txt"), np.loadtxt("their.txt"), rtol=1e-5, atol=1e-6
        )
        words, expected = (re.split(r"[ =%()/]+", text) for text in (said, theirs))
        for word, other in zip(words, expected, strict=True):
            if re.fullmatch(r"[\d.e-]+", other):
                assert float(word) == pytest.approx(float(other), rel=1e-4)
            else:
                assert word == other


def test_from_a_file_to_model_picture_and_proof(call, within):
    assert call("train -c 10 train.txt cancer.model --proof proof.npz --picture gap.png")[0] == 0
    assert (within / "gap.png").read_bytes().startswith(b"\x89PNG")
    assert call("predict test.txt cancer.model labels.txt")[0] == 0
    assert len((within / "labels.txt").read_text().splitlines()) == 100
    code, said, _ = call("verify proof.npz train.txt")
    assert code == 0 and said.rstrip().endswith("Verified.")
    code, said, _ = call("verify proof.npz train.txt -q")
    assert code == 0 and not said
    (within / "train.txt").write_text((within / "train.txt").read_text().replace("1:1", "1:2"))
    code, said, _ = call("verify proof.npz train.txt")
    assert code == 1 and "FAILED: X is that of the file" in said


@pytest.mark.parametrize("name", ["pairs", "one-class", "nu-svr", "precomputed"])
def test_the_proof_of_every_kind_is_verified(name, call):
    assert call(f"train {TRAIN_FLAGS[name]} own.model --proof proof.npz")[0] == 0
    code, said, _ = call(f"verify proof.npz {TRAIN_FLAGS[name].split()[-1]}")
    assert code == 0, said


def test_a_file_of_python_is_verified_whatever_the_form_of_its_points(call):
    X, y = qpsvm.data.load_libsvm("iris.txt")
    for points in (X, X.toarray(), np.pad(X.toarray(), ((0, 0), (0, 2)))):
        qpsvm.save("python.npz", qpsvm.SVC().fit(points, y), X=points, y=y)
        code, said, _ = call("verify python.npz iris.txt")
        assert code == 0, said


def test_serial_numbers_of_a_kernel_matrix_may_be_in_any_order(call, within):
    lines = (within / "kernel.txt").read_text().splitlines(keepends=True)
    (within / "kernel.txt").write_text("".join(lines[::-1][:60]))
    assert call("train -t 4 kernel.txt own.model")[0] == 0
    run("svm-train", "-q", "-t", "4", "kernel.txt", "their.model")
    own, theirs = read_libsvm_text("own.model"), read_libsvm_text("their.model")
    assert set(own.serial) == set(theirs.serial)
    assert call("predict kernel-test.txt own.model own.txt")[0] == 0
    run("svm-predict", "kernel-test.txt", "own.model", "their.txt")
    np.testing.assert_array_equal(np.loadtxt("own.txt"), np.loadtxt("their.txt"))


def test_features_counted_from_zero_stay_so(call, within):
    (within / "zero.txt").write_text(
        "".join(f"{k % 2} 0:{k % 2 + 0.1 * k} 1:{k}\n" for k in range(20))
    )
    assert call("train zero.txt own.model")[0] == 0
    assert " 0:" in (within / "own.model").read_text()
    assert call("predict zero.txt own.model own.txt")[0] == 0
    run("svm-predict", "zero.txt", "own.model", "their.txt")
    np.testing.assert_array_equal(np.loadtxt("own.txt"), np.loadtxt("their.txt"))


def test_long_names_mean_the_same_and_the_model_has_a_default_name(call, within):
    assert call("train -s 1 -t 1 -d 2 -g 0.5 -r 1 -n 0.3 -e 0.01 train.txt short.model")[0] == 0
    line = (
        "train --type nu-svc --kernel polynomial --degree 2 --gamma 0.5 --coef0 1 --nu 0.3 "
        "--tolerance 0.01 train.txt"
    )
    assert call(line)[0] == 0
    texts = [(within / name).read_text() for name in ("short.model", "train.txt.model")]
    assert texts[0] == texts[1]


def test_compressed_data_give_the_same_model(call, within):
    import lzma

    (within / "packed").write_bytes(lzma.compress((within / "train.txt").read_bytes()))
    assert call("train train.txt a")[0] == call("train packed b")[0] == 0
    assert (within / "a").read_text() == (within / "b").read_text()


@pytest.mark.parametrize(
    "flags, said",
    [
        ("-s 0 iris.txt", r"^Cross Validation Accuracy = (9\d(\.\d+)?|100)%$"),
        ("-s 0 -t 4 kernel.txt", r"^Cross Validation Accuracy = (9\d(\.\d+)?|100)%$"),
        ("-s 2 train.txt", r"^Cross Validation Accuracy = [\d.]+%$"),
        ("-s 3 values.txt", r"^Cross Validation Squared correlation coefficient = 0\.[789]\d+$"),
    ],
)
def test_cross_validation_prints_the_lines_of_libsvm(flags, said, call, within):
    before = set(within.iterdir())
    code, out, _ = call(f"train -v 5 {flags}")
    assert code == 0 and re.search(said, out, re.M)
    assert re.search(r"^Certified relative gap = \S+, the largest of 5 fits$", out, re.M)
    assert set(within.iterdir()) == before


def test_more_folds_than_points_leave_one_out(call, within):
    lines = (within / "iris.txt").read_text().splitlines(keepends=True)
    (within / "few.txt").write_text("".join(lines[::10]))
    code, out, _ = call("train -v 99 few.txt")
    assert code == 0 and "the largest of 15 fits" in out


def test_quiet_says_nothing_and_a_missed_gap_is_said_on_the_stream_of_errors(call, within):
    assert call("train -q train.txt m") == (0, "", "")
    code, out, err = call("train -q -t 3 -g 5 -r 1 train.txt missed")
    assert code == 1 and not out and "above the tolerance 0.001: not convex" in err
    assert (within / "missed").exists()
    assert call("predict -q test.txt m out") == (0, "", "")


def test_a_weight_of_a_class_that_is_missing_is_a_warning(call):
    code, _, err = call("train -q -w7 2 train.txt m")
    assert code == 0 and "class label 7 specified in weight is not found" in err


PROBABILITY_BOUNDS = {  # their bound: LIBSVM couples pairs by an iteration that ends early
    "two classes": ("train.txt", 1e-5),
    "two classes by weights": ("-w1 3 -w-1 0.5 train.txt", 1e-5),
    "three classes": ("iris.txt", 5e-3),
    "reduced hulls": ("-s 1 -n 0.4 iris.txt", 5e-3),
    "precomputed": ("-t 4 kernel.txt", 1e-5),
}


@pytest.mark.parametrize("name", PROBABILITY_BOUNDS)
@pytest.mark.parametrize("trained_by", ["qpsvm", "svm-train"])
def test_both_programs_predict_the_same_probabilities(name, trained_by, call, within):
    (flags, limit), data = PROBABILITY_BOUNDS[name], PROBABILITY_BOUNDS[name][0].split()[-1]
    test = {"train.txt": "test.txt", "kernel.txt": "kernel-test.txt"}.get(data, data)
    if trained_by == "qpsvm":
        assert call(f"train -q -b 1 {flags} model")[0] == 0
    else:
        run("svm-train", "-q", "-b", "1", *flags.split(), "model")
    assert call(f"predict -b 1 {test} model own")[0] == 0
    run("svm-predict", "-b", "1", test, "model", "theirs")
    own, theirs = ((within / file).read_text().splitlines() for file in ("own", "theirs"))
    assert own[0].split() == theirs[0].split()
    own, theirs = (np.loadtxt(lines[1:]) for lines in (own, theirs))
    np.testing.assert_allclose(own[:, 1:], theirs[:, 1:], atol=limit)
    np.testing.assert_allclose(own[:, 1:].sum(axis=1), 1.0)
    assert np.mean(own[:, 0] == theirs[:, 0]) > 0.97


def test_probabilities_are_near_those_that_libsvm_fits(call, within):
    """Both draw parts of a cross-validation, so that they agree roughly."""
    assert call("train -q -b 1 iris.txt own.model")[0] == 0
    run("svm-train", "-q", "-b", "1", "iris.txt", "their.model")
    tables = []
    for model in ("own.model", "their.model"):
        assert call(f"predict -q -b 1 iris.txt {model} labels")[0] == 0
        tables.append(np.loadtxt((within / "labels").read_text().splitlines()[1:]))
    assert np.mean(np.abs(tables[0] - tables[1])[:, 1:]) < 0.05


def test_the_errors_of_a_regression_have_a_scale(call, within):
    assert call("train -q -s 3 -b 1 values.txt own.model")[0] == 0
    _, said, _ = call("predict -b 1 values.txt own.model")
    line = next(line for line in said.splitlines() if "sigma=" in line)
    assert line in run("svm-predict", "-b", "1", "values.txt", "own.model", "labels")
    run("svm-train", "-q", "-s", "3", "-b", "1", "values.txt", "their.model")
    own, theirs = (read_libsvm_text(f"{who}.model").prob_a[0] for who in ("own", "their"))
    assert 0.7 < own / theirs < 1.4


def test_probabilities_that_are_not_in_the_model_are_one_error(call):
    assert call("train -q train.txt m")[0] == 0
    code, _, err = call("predict -b 1 test.txt m")
    assert code == 2 and "-b 1 needs a model of qpsvm train -b 1; m has no probabilities" in err
    code, _, err = call("train -s 2 -b 1 train.txt m")
    assert code == 2 and "one-class" in err


@pytest.mark.parametrize(
    "flags", ["train.txt", "-s 3 values.txt", "-s 2 train.txt", "-b 1 train.txt"]
)
def test_ctrl_c_writes_the_model_so_far_with_its_gap(flags, call, within, press_at_first_check):
    code, out, _ = call(f"train -e 1e-9 --method smo {flags} own.model")
    assert press_at_first_check
    assert code == 130
    assert re.search(r"^Certified relative gap = .*: interrupted from the keyboard", out, re.M)
    assert not read_libsvm_text("own.model").has_probabilities
    assert call(f"predict {flags.split()[-1]} own.model")[0] == 0


def test_ctrl_c_during_pairs_writes_a_model_of_all_of_them(
    call, within, press_at_first_check, monkeypatch
):
    from qpsvm.estimators.grid import pairs

    monkeypatch.setattr(pairs, "MAX_PAIR_POINTS", 10)  # each pair then is solved by itself
    code, out, _ = call("train -e 1e-9 iris.txt own.model")
    assert code == 130 and "the largest of 3 problems" in out
    assert len(read_libsvm_text("own.model").rho) == 3


def test_ctrl_c_in_the_common_solve_of_pairs_writes_a_model(call, within, monkeypatch):
    import os
    import signal

    from qpsvm.estimators.grid import pairs

    solved, own = [], pairs.hinge_path

    def press(*arguments):
        if not solved:
            os.kill(os.getpid(), signal.SIGINT)
        solved.append(1)
        return own(*arguments)

    monkeypatch.setattr(pairs, "hinge_path", press)
    code, _, _ = call("train iris.txt own.model")
    assert solved and code in (0, 130)  # the pairs may be solved before the signal is seen
    assert len(read_libsvm_text("own.model").rho) == 3


def test_a_second_fit_after_an_interrupted_one_raises_as_before(clouds):
    from qpsvm.estimators.training import returning_answers

    X, y = clouds

    def press(progress):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGINT)

    with returning_answers() as clock:
        model = qpsvm.SVC(tol=1e-9, callback=press, method="smo")
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(X, y)
    assert clock.interrupted and model.status_ is qpsvm.Status.INTERRUPTED
    with pytest.raises(qpsvm.Interrupted):
        model.fit(X, y)


def test_the_time_that_is_left_follows_from_the_decrease_of_the_gap():
    times, gaps = [0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1e-1, 1e-2, 1e-3, 1e-4]
    assert seconds_left(times, gaps, 1e-6) == pytest.approx(2.0)
    assert seconds_left(times, gaps, 1e-3) == 0.0
    assert seconds_left(times[:2], gaps[:2], 1e-6) is None
    assert seconds_left(times, gaps[::-1], 1e-6) is None
    assert seconds_left([1.0] * 5, gaps, 1e-6) is None
    assert [in_words(s) for s in (None, 5.2, 300.0, 7200.0)] == [
        "time left unknown", "about 5 s left", "about 5 min left", "about 2.0 h left",
    ]  # fmt: skip


def test_the_bar_shows_gap_and_time_on_a_terminal_and_nothing_elsewhere(
    clouds, monkeypatch, capsys
):
    X, y = clouds
    with GapBar() as bar:
        qpsvm.SVC(callback=bar, method="smo", tol=1e-8).fit(X, y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with GapBar() as bar:
        qpsvm.SVC(callback=bar, method="smo", tol=1e-8).fit(X, y)
    said = capsys.readouterr().err
    assert re.search(r"%\|.*\| problem 1: gap ~?\d\.\de[+-]\d\d, (about|time left)", said)
    with GapBar(quiet=True) as bar:
        qpsvm.SVC(callback=bar).fit(X, y)
    assert capsys.readouterr().err == ""


def test_a_picture_without_matplotlib_is_an_error_before_the_fit(call, within, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = call("train train.txt own.model --picture gap.png")
    assert code == 2 and not out and "qpsvm[plot]" in err
    assert not (within / "own.model").exists()


def test_a_proof_holds_the_certified_gap(call):
    assert call("train train.txt own.model --proof proof.npz")[0] == 0
    gaps = [one.result.certificate.relative_gap for one in load("proof.npz").problems]
    assert len(gaps) == 1 and gaps[0] <= 1e-3


def test_labels_of_one_class_alone_are_an_error(call, within):
    (within / "one.txt").write_text("1 1:1\n1 1:2\n")
    code, _, err = call("train one.txt")
    assert code == 2 and "number of classes" in err
    with pytest.raises(InputError):
        qpsvm.SVC().fit([[1.0], [2.0]], [1, 1])
