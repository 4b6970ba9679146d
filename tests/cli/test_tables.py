"""Scaling, and the commands that print what is in a file or a table: info, path, bench."""

from __future__ import annotations

import re

import numpy as np
import pytest

from qpsvm import data
from qpsvm.cli.path import values_of
from qpsvm.files.scaling import read_scaling
from tests.files.libsvm.tools import run


@pytest.mark.parametrize("flags", ["", "-l 0", "-l -2 -u 3", "-l 0 -u 1 -y -1 1"])
def test_scaled_points_and_ranges_are_those_of_svm_scale(flags, call, within):
    lines = (within / "values.txt").read_text().splitlines()
    lines = [f"{line} 7:{k % 3} 9:4" for k, line in enumerate(lines)]
    (within / "values.txt").write_text("\n".join(lines) + "\n")  # 5, 6, 8 empty; 9 of one value
    assert call(f"scale {flags} -s own.ranges -o own.txt values.txt")[0] == 0
    theirs = run("svm-scale", *flags.split(), "-s", "their.ranges", "values.txt")
    (within / "their.txt").write_text(theirs)
    for own, other in (("own.txt", "their.txt"),):
        (X, y), (Z, z) = data.load_libsvm(own), data.load_libsvm(other)
        np.testing.assert_allclose(X.toarray(), Z.toarray(), atol=2e-5)
        np.testing.assert_allclose(y, z, atol=2e-5)
        assert np.array_equal(X.toarray() != 0, Z.toarray() != 0)
    own, other = read_scaling("own.ranges"), read_scaling("their.ranges")
    np.testing.assert_allclose(own.low, other.low)
    np.testing.assert_allclose(own.high, other.high)
    assert (own.lower, own.upper, own.y_ends) == (other.lower, other.upper, other.y_ends)


def test_ranges_of_both_programs_are_read_by_both(call, within):
    assert call("scale -s own.ranges -o scaled.txt train.txt")[0] == 0
    run("svm-scale", "-s", "their.ranges", "train.txt")
    for ranges in ("own.ranges", "their.ranges"):
        assert call(f"scale -r {ranges} -o own.txt test.txt")[0] == 0
        (within / "their.txt").write_text(run("svm-scale", "-r", ranges, "test.txt"))
        X, Z = (data.load_libsvm(name)[0].toarray() for name in ("own.txt", "their.txt"))
        np.testing.assert_allclose(X, Z, atol=2e-5, rtol=1e-5)


def test_scaled_points_lie_between_the_ends(call):
    code, out, err = call("scale -l 0 -u 2 train.txt")
    assert code == 0 and not err
    values = [float(v) for v in re.findall(r":(\S+)", out)]
    assert min(values) > 0.0 and max(values) == 2.0


def test_features_without_a_range_are_removed_and_named(call, within):
    assert call("scale -s iris.ranges -o scaled.txt iris.txt")[0] == 0
    code, out, err = call("scale -r iris.ranges test.txt")
    assert code == 0 and "are removed: 5, 6, 7, 8, 9, ..." in err
    assert max(int(j) for j in re.findall(r"(\d+):", out)) == 4


def test_more_entries_than_before_are_a_warning(call, within):
    (within / "sparse.txt").write_text("1 1:1\n0 2:1\n1 3:1\n")
    assert "-l 0 keeps zeros" in call("scale sparse.txt")[2]
    assert call("scale -l 0 sparse.txt")[2] == ""


@pytest.mark.parametrize(
    "text, said",
    [
        ("x\n", r"line 2: expected 2 numbers; got 'the end of the file'"),
        ("x\n-1 1\n1 0\n", r"line 3: expected 3 numbers; got '1 0'"),
        ("x\n-1 1\n1 3 2\n", r"line 3: expected an index and its least and largest value"),
        ("y\n-1 1\nz\n", r"line 3: expected 2 numbers; got 'z'"),
        ("y\n-1 1\n0 1\n", r"line 4: expected x, or y first; got 'the end of the file'"),
    ],
)
def test_a_wrong_file_of_ranges_names_the_line(text, said, call, within):
    (within / "ranges").write_text(text)
    code, _, err = call("scale -r ranges train.txt")
    assert code == 2 and re.search(said, err)


def test_info_says_what_each_kind_of_file_holds(call):
    _, said, _ = call("info iris.txt")
    assert re.search(r"^points +150$", said, re.M) and re.search(
        r"^features +4, counted", said, re.M
    )
    assert "3 (0: 50, 1: 50, 2: 50)" in said
    _, said, _ = call("info values.txt")
    assert re.search(r"^labels +4\.3 to 7\.9, mean 5\.84", said, re.M)
    assert call("train -t 1 -d 2 iris.txt own.model --proof proof.npz")[0] == 0
    _, said, _ = call("info own.model")
    assert "kernel    polynomial, degree 2, gamma 0.25, coef0 0" in said
    assert re.search(r"^classes +3$", said, re.M) and re.search(r"^machines +3, rho", said, re.M)
    _, said, _ = call("info proof.npz")
    assert "estimator, SVC" in said and re.search(r"^problems +3 \(HingeDual\)$", said, re.M)
    assert call("train -s 3 values.txt own.model")[0] == 0
    assert re.search(r"^support +\d+$", call("info own.model")[1], re.M)


def test_path_prints_a_row_for_each_penalty(call):
    code, said, _ = call("path -c 0.1:10:3 -e 1e-4 train.txt")
    rows = [line.split() for line in said.splitlines()[1:4]]
    assert code == 0 and [float(row[0]) for row in rows] == [0.1, 1.0, 10.0]
    assert all(0.0 <= float(row[1]) <= 1e-4 for row in rows)
    assert all(int(row[2]) > 0 and 90.0 < float(row[3].rstrip("%")) <= 100.0 for row in rows)


def test_path_that_ends_early_exits_with_1(call):
    code, said, _ = call("path -c 1,2,3 --time-limit 0 train.txt")
    assert code == 1 and "TIME_LIMIT" in said


def test_values_of_a_range_stand_in_equal_ratios():
    assert values_of("2,1") == [2.0, 1.0]
    np.testing.assert_allclose(values_of("0.01:100:5"), [0.01, 0.1, 1, 10, 100], rtol=1e-12)
    assert values_of("0.3:0.7:2") == [0.3, 0.7]


@pytest.mark.parametrize(
    "flags", ["train.txt", "-s 1 -n 0.3 train.txt", "-s 2 train.txt", "-s 3 values.txt"]
)
def test_bench_times_some_methods(flags, call):
    code, said, _ = call(f"bench --methods smo,decomposition --time-limit 20 {flags}")
    rows = [line.split() for line in said.splitlines()[2:4]]
    assert code == 0 and [row[0] for row in rows] == ["smo", "decomposition"]
    assert all(row[-1] == "OPTIMAL" and float(row[2]) <= 1e-3 for row in rows)


def test_bench_exits_with_1_where_a_gap_is_not_reached(call):
    code, said, _ = call("bench --methods smo --time-limit 1e-9 train.txt")
    assert code == 1 and "TIME_LIMIT" in said
