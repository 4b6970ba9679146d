"""Data, models and ranges of LIBSVM, damaged at random: each is read, or ends in one InputError.

hypothesis cuts, repeats and replaces parts of files that were written well. What is still read must be
usable: a model predicts, points have finite coordinates. Result files: tests/files/test_result_file.py.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import qpsvm
from qpsvm import InputError
from qpsvm.data import load_libsvm
from qpsvm.files.scaling import Scaling, read_scaling, write_scaling

INSERTED_WORDS = (
    b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"1", b"2.5", b"1e400:1", b"3:nan", b"0:1",
    b"2147483647:1", b"99999999999999999999:1", b"9" * 5000, b"9" * 5000 + b":1", b"", b":", b"1:",
    b"\xff\xfe", b"\x00", b"\xc2\xb2", b"#", b"qid:3", b"SV", b"svm_type c_svc", b"nr_class 2",
    b"total_sv 1000000000000", b"nr_class 1000000", b"1e-400", b"-0.0", b"1_000", b"0x1p3",
    b"kernel_type polynomial", b"degree -3", b"degree 1e300", b"gamma -1", b"gamma 1e308", b"\r",
    b"nr_sv -1 5", b"label 1 1", b"label 0.5 2", b"probA 1 2 3", b"rho", b"y", b"x",
)  # fmt: skip
"""What is put into a text in place of a word or a line."""

FEW_SECONDS = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
"""Settings of every test here: the same files at each run."""


@st.composite
def damages(draw, longest: int):
    """Draw a few changes: what is done, where, how much of it, and by what it is replaced."""
    one = st.tuples(
        st.sampled_from(("cut", "flip", "word", "line", "repeat", "swap", "bytes", "end")),
        st.integers(0, longest),
        st.integers(0, 40),
        st.sampled_from(INSERTED_WORDS),
    )
    return draw(st.lists(one, min_size=1, max_size=4))


def damaged(content: bytes, changes: list[tuple[str, int, int, bytes]]) -> bytes:
    """Return a file after some changes."""
    for kind, at, length, word in changes:
        at %= max(1, len(content))
        lines = content.split(b"\n")
        row = at % len(lines)
        if kind == "cut":
            content = content[:at] + content[at + length :]
        elif kind == "end":
            content = content[:at]
        elif kind == "flip":
            content = content[:at] + bytes([content[at] ^ (1 << length % 8)]) + content[at + 1 :] if (
                content
            ) else word  # fmt: skip
        elif kind == "bytes":
            content = content[:at] + word + content[at:]
        elif kind == "word":
            words = lines[row].split(b" ")
            words[length % len(words)] = word
            lines[row] = b" ".join(words)
            content = b"\n".join(lines)
        elif kind == "line":
            lines[row] = word
            content = b"\n".join(lines)
        elif kind == "repeat":
            content = b"\n".join([*lines[: row + 1], *lines[row:]])
        else:
            other = length % len(lines)
            lines[row], lines[other] = lines[other], lines[row]
            content = b"\n".join(lines)
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzed")


def points_and_classes(n_classes: int = 2):
    rng = np.random.default_rng(5)
    return rng.standard_normal((24, 3)), np.arange(24) % n_classes


@pytest.fixture(scope="module")
def models(folder):
    """Well-written model files by kind."""
    X, y = points_and_classes()
    X3, y3 = points_and_classes(3)
    fits = {
        "two classes": qpsvm.SVC().fit(X, y),
        "three classes": qpsvm.SVC(kernel="poly", degree=2).fit(X3, y3),
        "linear": qpsvm.SVC(kernel="linear").fit(X, y),
        "precomputed": qpsvm.SVC(kernel="precomputed").fit(X @ X.T, y),
        "one class": qpsvm.OneClassSVM().fit(X),
        "regression": qpsvm.SVR().fit(X, X[:, 0]),
        "nu": qpsvm.NuSVC(gamma=0.1).fit(X, y),
    }
    found = {}
    for name, fit in fits.items():
        path = folder / f"{name}.model"
        qpsvm.save_libsvm_model(path, fit)
        found[name] = path.read_bytes()
    return found


@FEW_SECONDS
@given(changes=damages(400), packing=st.sampled_from(("", "", "gz", "bz2", "xz")))
@example(changes=[("word", 0, 1, b"9" * 5000 + b":1")], packing="")
@example(changes=[("bytes", 0, 0, b"BZh")], packing="")
@example(changes=[("bytes", 0, 0, b"\x1f\x8b")], packing="")
def test_damaged_data_end_in_one_error(folder, changes, packing):
    content = b"".join(b"%d 1:%d 3:0.5 7:-2e-3\n" % (1 - 2 * (i % 2), i) for i in range(12))
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(packing, bytes)
    path = folder / "damaged.data"
    path.write_bytes(damaged(pack(content), changes))
    with suppress(InputError):
        X, y = load_libsvm(path)
        assert np.isfinite(X.data).all() and np.isfinite(y).all()
        X.check_format(full_check=True)


@FEW_SECONDS
@pytest.mark.parametrize(
    "kind",
    ["two classes", "three classes", "linear", "precomputed", "one class", "regression", "nu"],
)
@given(changes=damages(900))
def test_damaged_models_end_in_one_error(folder, models, kind, changes):
    _read_model(folder, damaged(models[kind], changes))


@FEW_SECONDS
@given(changes=damages(900), packing=st.sampled_from(("gz", "bz2", "xz")))
def test_damaged_packed_models_end_in_one_error(folder, models, changes, packing):
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[packing]
    _read_model(folder, damaged(pack(models["two classes"]), changes))


def _read_model(folder: Path, content: bytes) -> None:
    path = folder / "damaged.model"
    path.write_bytes(content)
    with suppress(InputError):
        model = qpsvm.load_libsvm_model(path)
        if model.n_features_in_ <= 1000:
            found = model.predict(np.ones((2, model.n_features_in_)))
            assert found.shape == (2,)


@FEW_SECONDS
@given(changes=damages(200))
@example(changes=[("line", 5, 0, b"1000000000000 0 1")])
@example(changes=[("line", 5, 0, b"1e300 0 1")])
def test_damaged_ranges_end_in_one_error(folder, changes):
    X, _ = points_and_classes()
    path = folder / "ranges"
    write_scaling(path, Scaling(-1.0, 1.0, X.min(axis=0), X.max(axis=0), (0.0, 1.0, -1.0, 1.0)))
    path.write_bytes(damaged(path.read_bytes(), changes))
    with suppress(InputError):
        found = read_scaling(path)
        assert np.isfinite([*found.low, *found.high, found.lower, found.upper]).all()
