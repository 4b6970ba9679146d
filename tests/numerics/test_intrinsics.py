"""Plain loops give the same results where numba lacks the private names that SIMD code needs."""

from __future__ import annotations

import json

import pytest

import qpsvm

WITHOUT_PRIVATE_NAMES = """
import sys
import numba.core

hidden = {name: getattr(numba.core, name) for name in ("cgutils", "event")}
for name in hidden:
    delattr(numba.core, name)
    sys.modules["numba.core." + name] = None
import qpsvm.numerics.jit

for name, module in hidden.items():  # numba itself needs them
    setattr(numba.core, name, module)
    sys.modules["numba.core." + name] = module
"""
"""Code that imports what compiles as if numba lacked these modules."""


def answers():
    """Return status and bounds of problems whose solves run SIMD code: dense, packed and byte points."""
    import numpy as np

    rng = np.random.default_rng(0)
    binary = (rng.random((300, 40)) < 0.3).astype(float)
    points = {"numbers": rng.standard_normal((300, 3)), "bits": binary}
    points["bytes"] = rng.integers(0, 200, (300, 20)).astype(float)
    found = {}
    for name, X in points.items():
        y = np.where(X[:, 0] + X[:, 1] > np.median(X[:, 0] + X[:, 1]), 1.0, -1.0)
        gram = qpsvm.RBF(X, "scale")
        hinge, squared = qpsvm.HingeDual(gram, y, 1.0), qpsvm.L2SVMDual(gram, y, 1.0)
        for problem, method in ((hinge, "decomposition"), (hinge, "smo"), (squared, "mfw")):
            r = qpsvm.solve(problem, method, tol=1e-5, max_iter=10**6)
            found[f"{name} {method}"] = r.status.name, r.certificate.lower, r.certificate.upper
    return found


@pytest.fixture(scope="module")
def plain(fresh_process, tmp_path_factory):
    """Results of a process without the private names, and whether it used intrinsics."""
    code = WITHOUT_PRIVATE_NAMES + (
        "import json; from tests.numerics.test_intrinsics import answers\n"
        "from qpsvm.numerics import intrinsics\n"
        "print(json.dumps([intrinsics.HAS_INTRINSICS, answers()]))"
    )
    return json.loads(fresh_process(code, cache=tmp_path_factory.mktemp("plain")))


@pytest.mark.slow
def test_plain_loops_serve_without_private_names(plain):
    has_intrinsics, found = plain
    assert not has_intrinsics
    for case, (status, lower, upper) in answers().items():
        plain_status, plain_lower, plain_upper = found[case]
        assert status == plain_status == "OPTIMAL", case
        assert max(lower, plain_lower) <= min(upper, plain_upper) + 1e-12, case
