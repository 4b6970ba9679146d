"""Data files, in the current folder of a test."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

from qpsvm import cli
from tests.files.libsvm.tools import write_data, write_kernel


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Return a folder with two classes, three, values, and a kernel matrix."""
    folder = tmp_path_factory.mktemp("data")
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X).round(3), 2 * y - 1
    write_data(folder / "train.txt", X[:200], y[:200])
    write_data(folder / "test.txt", X[200:300], y[200:300])
    K = np.exp(-0.02 * ((X[:100, None] - X[None, :80]) ** 2).sum(axis=2))
    write_kernel(folder / "kernel.txt", K[:80], y[:80])
    write_kernel(folder / "kernel-test.txt", K[80:], y[80:100])
    X, y = load_iris(return_X_y=True)
    write_data(folder / "iris.txt", X, y)
    write_data(folder / "values.txt", X[:, 1:], X[:, 0])
    return folder


@pytest.fixture
def within(files, tmp_path, monkeypatch):
    """Work in a folder of its own that has the data files."""
    for path in files.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.fixture
def call(within, capsys):
    """Run a command in that folder; return its exit code, what it printed, and its errors."""

    def run(line):
        code = cli.main(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def press_at_first_check(monkeypatch):
    """Press Ctrl-C when a fit first reports its gap, and once only."""
    from qpsvm.cli.progress import GapBar

    pressed = []

    def press(self, progress):
        if not pressed:
            pressed.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(GapBar, "__call__", press)
    return pressed
