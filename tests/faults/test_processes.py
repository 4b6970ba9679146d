"""Processes: forked and spawned ones, and several that compile into one empty cache."""

from __future__ import annotations

import hashlib
import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

import qpsvm
from tests.numerics.test_code_cache import RUN_SCRIPT, Installation

SECONDS_OF_HANG = 120.0
"""Seconds after which a child counts as one that hangs."""


def digest() -> str:
    """Return the bits of two solves."""
    X = np.random.default_rng(0).standard_normal((1600, 5))
    y = np.where(X[:, 0] > 0.1 * X[:, 1], 1.0, -1.0)
    K = qpsvm.RBF(X, 0.2)
    results = qpsvm.solve(qpsvm.HingeDual(K, y), tol=1e-4), qpsvm.solve(qpsvm.MEBDual(K), tol=1e-4)
    return hashlib.sha256(b"".join(result.x.tobytes() for result in results)).hexdigest()


def _send_digest(connection) -> None:
    connection.send(digest())


def _digest_of_child(method: str) -> str:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=_send_digest, args=(theirs,))
    child.start()
    try:
        assert ours.poll(SECONDS_OF_HANG), f"a child by {method} hangs"
        return ours.recv()
    finally:
        child.kill()
        child.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads, from Python 3.12
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_child_solves_as_its_parent_after_the_parent_has_solved(method):
    """The parent has threads of BLAS and helpers, which a fork does not have."""
    here = digest()
    assert _digest_of_child(method) == here
    assert digest() == here


def test_processes_that_compile_into_one_empty_cache(tmp_path):
    """All of them finish, what they leave is whole, and the next one compiles nothing."""
    installation = Installation(tmp_path)
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", RUN_SCRIPT],
            env=installation.environment(),
            cwd=installation.package.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in begun:
        said, logged = process.communicate(timeout=300)
        assert process.returncode == 0 and said.startswith("3.0 ") and not logged
    assert installation.run() == ("3.0 []", "")
