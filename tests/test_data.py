"""Data files in LIBSVM's format: plain, compressed, and wrong ones."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

import qpsvm
from qpsvm import data


def test_load_libsvm_finds_files_by_path_and_by_name(tmp_path, monkeypatch):
    text = "+1 1:0.5 3:2\n-1 2:1\n"
    (tmp_path / "plain").write_text(text)
    (tmp_path / "packed.bz2").write_bytes(bz2.compress(text.encode()))
    (tmp_path / "small.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "no-ending").write_bytes(gzip.compress(text.encode()))  # its first bytes say it
    monkeypatch.setenv("QPSVM_DATA", str(tmp_path))
    assert data.folder() == tmp_path
    for path in (
        tmp_path / "plain",
        "plain",
        "packed",
        "packed.bz2",
        "small",
        "zipped",
        "no-ending",
    ):
        points, y = data.load_libsvm(path, np.float32)
        assert points.dtype == np.float32
        np.testing.assert_array_equal(points.toarray(), [[0.5, 0, 2], [0, 1, 0]])
        np.testing.assert_array_equal(y, [1, -1])


def test_load_libsvm_takes_the_number_of_features(tmp_path):
    path = tmp_path / "test-part"
    path.write_text("+1 1:0.5\n-1 2:1\n")
    points, _ = data.load_libsvm(path, n_features=5)
    np.testing.assert_array_equal(points.toarray(), [[0.5, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
    for wrong in (1, 0, 2.5):
        with pytest.raises(qpsvm.InputError, match=r"^n_features must be"):
            data.load_libsvm(path, n_features=wrong)


def test_missing_data_set_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("QPSVM_DATA", str(tmp_path))
    with pytest.raises(qpsvm.InputError, match=r"QPSVM_DATA.*got 'a9a'"):
        data.load_libsvm("a9a")
    monkeypatch.delenv("QPSVM_DATA")
    assert data.folder() == Path(".")
    with pytest.raises(qpsvm.InputError, match=r"in the current folder .*got 'a9a'"):
        data.load_libsvm("a9a")


GOOD_LINE = "1 1:2\n"


@pytest.mark.parametrize(
    "text, said",
    [
        ("x 1:2\n", r"line 1, column 1: expected a finite number, the label; got 'x'"),
        ("inf 1:2\n", r"line 1, column 1: expected a finite number, the label; got 'inf'"),
        ("1 1:2\n\n# 1 3\n-1  3\n", r"line 4, column 5: expected index:value; got '3'"),
        ("1 2:1 1:2\n", r"line 1, column 7: expected an index above 2, the one before; got '1'"),
        ("1 1:1 2:1 2:2\n", r"line 1, column 11: expected an index above 2, .*got '2'"),
        (
            "1 -1:2\n",
            r"line 1, column 3: expected an index, an integer from 0 to 2147483646; got '-1'",
        ),
        ("1 a:2\n", r"line 1, column 3: expected an index, .*got 'a'"),
        ("1 99999999999999999999:2\n", r"line 1, column 3: expected an index, .*got '9+'"),
        ("1 " + "9" * 5000 + ":2\n", r"line 1, column 3: expected an index, .*got '9+"),
        ("1 1:2\n1 1:0 22:nan\n", r"line 2, column 10: expected a finite number; got 'nan'"),
        ("1 1:1e999\n", r"line 1, column 5: expected a finite number; got '1e999'"),
        ("1 1:2:3\n", r"line 1, column 5: expected a finite number; got '2:3'"),
        ("", r"must hold at least one point; got none"),
        ("# nothing\n\n", r"must hold at least one point; got none"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, lzma.compress], ids=["plain", "xz"])
def test_a_wrong_file_names_line_and_column(text, said, pack, tmp_path):
    (tmp_path / "wrong").write_bytes(pack(text.encode()))
    with pytest.raises(qpsvm.InputError, match=said):
        data.load_libsvm(tmp_path / "wrong")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_truncated_file_is_named(pack, tmp_path):
    (tmp_path / "cut").write_bytes(pack(GOOD_LINE.encode() * 100)[:-9])
    with pytest.raises(qpsvm.InputError, match=r"path must be a whole file; .*cut is damaged"):
        data.load_libsvm(tmp_path / "cut")


def test_comments_empty_lines_and_qid_are_skipped(tmp_path):
    (tmp_path / "file").write_text("# a comment\n\n1 qid:7 1:2 # 9:9\n-1\n")
    points, y = data.load_libsvm(tmp_path / "file")
    np.testing.assert_array_equal(points.toarray(), [[2.0], [0.0]])
    np.testing.assert_array_equal(y, [1, -1])


def test_indices_from_zero_count_features_from_zero(tmp_path):
    (tmp_path / "file").write_text("1 0:5 2:1\n2 1:3\n")
    points, _ = data.load_libsvm(tmp_path / "file")
    np.testing.assert_array_equal(points.toarray(), [[5, 0, 1], [0, 3, 0]])


def test_what_the_fast_reader_takes_the_careful_one_takes(tmp_path):
    """Else a good file would be refused after an error elsewhere."""
    for text in (GOOD_LINE, "+1.5e3 +3:-2 7:1e-4\n", "1 0:2\n", "3 qid:1 2:2\n", "1\n"):
        (tmp_path / "file").write_text(text)
        data.load_libsvm(tmp_path / "file")
        data.check_lines(tmp_path / "file")
