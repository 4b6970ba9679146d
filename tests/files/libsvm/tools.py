"""What the tests of LIBSVM's files share: Debian's tools, data files, and values of every machine."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm.files.libsvm.text import LibsvmModel, write_libsvm_text


def tool(name):
    """Return the path of one of LIBSVM's commands, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing (Debian's package libsvm-tools has it)")
    return found


def run(name, *arguments):
    """Run one of LIBSVM's commands; return what it printed."""
    command = [tool(name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_data(path, X, y, first_index=1):
    """Write points as LIBSVM reads them, every digit kept."""
    lines = []
    for row, label in zip(np.asarray(X, dtype=float), y, strict=True):
        pairs = (f"{j}:{value!r}" for j, value in enumerate(row.tolist(), first_index) if value)
        lines.append(f"{label} {' '.join(pairs)}\n")
    path.write_text("".join(lines))
    return path


def write_kernel(path, K, y):
    """Write a kernel matrix, each row after its serial number."""
    numbers = np.arange(1, len(K) + 1)
    return write_data(path, np.column_stack([numbers, K]), y, first_index=0)


def values_by_libsvm(model: LibsvmModel, data, folder):
    """Return the values of all machines at the points of a file, computed by svm-predict.

    It prints labels alone of a classifier, so that each machine is written as a regression.
    """
    ends = np.append(0, np.cumsum(model.n_support))
    k = max(2, len(model.label))
    columns = []
    for number, (i, j) in enumerate(combinations(range(k), 2)):
        if model.is_classifier:
            own = [np.arange(ends[c], ends[c + 1]) for c in (i, j)]
            rows = np.concatenate(own)
            coef = np.concatenate([model.coef[j - 1, own[0]], model.coef[i, own[1]]])
        else:
            rows, coef = np.arange(model.coef.shape[1]), model.coef[0]
        machine = replace(
            model, svm_type="epsilon_svr", label=model.label[:0], n_support=model.n_support[:0],
            prob_a=np.zeros(0), prob_b=np.zeros(0), density_marks=np.zeros(0),
            rho=model.rho[[number]], coef=coef[None, :],
            points=sp.csr_matrix(model.points[rows]),
            serial=model.serial[rows] if len(model.serial) else model.serial,
        )  # fmt: skip
        write_libsvm_text(folder / "machine", machine)
        run("svm-predict", data, folder / "machine", folder / "values")
        columns.append(np.loadtxt(folder / "values"))
    return np.column_stack(columns)
