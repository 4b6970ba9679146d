"""What all tests share: data, and fresh processes."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import reference
from problems import Instance

PROJECT_ROOT = Path(__file__).resolve().parents[1]

MAX_WORKERS = 8
"""Processes that share the tests; each one loads numba and, at first, compiles."""


def pytest_xdist_auto_num_workers(config):
    """Return the number of processes for -n auto; 0, none beside this one, for tests that are named.

    The processes share the threads, unless the environment says how many each of them has: two
    BLAS libraries that keep all processors waiting cost a third more processor time.
    """
    from qpsvm.resources import processors

    if any("::" in argument for argument in config.args):
        return 0
    n_workers = min(processors(), MAX_WORKERS)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, processors() // n_workers)))
    return n_workers


def pytest_configure_node(node):
    """Give each process of pytest-xdist the folder in which they share the reference's answers."""
    if not hasattr(node.config, "answers"):
        node.config.answers = tempfile.TemporaryDirectory(prefix="qpsvm-answers-")
        node.config.add_cleanup(node.config.answers.cleanup)
    node.workerinput["answers"] = node.config.answers.name


def pytest_configure(config):
    """Let the processes of pytest-xdist ask the reference once for each instance.

    Where a long double is a double (Windows, ARM of Apple), what the reference cannot verify is skipped.
    A shell that starts the tests in the background lets them ignore SIGINT, which some of them send.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        reference.answer = shared(reference.answer, Path(config.workerinput["answers"]))
    if np.finfo(np.longdouble).eps == np.finfo(float).eps:
        reference.answer = skipping(reference.answer)


def skipping(answer):
    """Return the function of an instance that skips the test where the answer is not verified."""

    @functools.wraps(answer)
    def ask(instance):
        try:
            return answer(instance)
        except reference.UnverifiedError:
            name = getattr(instance, "name", "a declared problem")
            pytest.skip(f"{name}: a long double has no more digits than a double here")

    ask.__wrapped__ = answer.__wrapped__
    return ask


def shared(answer, folder):
    """Return the function of an instance that keeps what it returns in a folder, for all processes.

    A problem that is no instance of the catalogue is answered anew.
    """

    @functools.cache
    def look_up(instance):
        path = folder / hashlib.sha256(instance.name.encode()).hexdigest()
        if path.exists():
            return pickle.loads(path.read_bytes())
        found = answer(instance)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(found))
        part.replace(path)  # others see all of it or nothing
        return found

    @functools.wraps(answer)
    def ask(problem):
        return look_up(problem) if isinstance(problem, Instance) else answer(problem)

    ask.__wrapped__ = answer.__wrapped__
    return ask


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
            cwd=PROJECT_ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
