"""What all tests share: data, and fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

MAX_WORKERS = 8
"""Processes that share the tests; each one loads numba and, at first, compiles."""


def pytest_xdist_auto_num_workers(config):
    """Return the number of processes for -n auto; 0, none beside this one, for tests that are named."""
    from qpsvm.resources import processors

    if any("::" in argument for argument in config.args):
        return 0
    return min(processors(), MAX_WORKERS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def clouds():
    """Two overlapping clouds: points (120, 4) and labels, read-only."""
    from problems.clouds import two_clouds

    X, y = two_clouds(120, 4, seed=1)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="session")
def hard(clouds):
    """A problem that no method finishes in seconds: linear, overlapping, C = 1e6."""
    from qpsvm import L2SVMDual, Linear

    return L2SVMDual(Linear(clouds[0]), clouds[1], C=1e6)


@pytest.fixture(scope="session")
def fresh_process():
    """Run code in a new interpreter at the root of the project; return what it printed.

    With `cache`, a folder, compiled code is read from there and kept there alone.
    """

    def run(code: str, cache: Path | None = None, **environment: str) -> str:
        if cache is not None:
            environment |= {"NUMBA_CACHE_DIR": str(cache), "QPSVM_MACHINE_CODE": str(cache)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
