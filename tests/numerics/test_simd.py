"""SIMD code for the processor that numba is configured for."""

from __future__ import annotations

import pytest

SOLVE_SCRIPT = """
import numpy as np, qpsvm
rng = np.random.default_rng(0)
for X in (rng.standard_normal((2200, 6)), rng.integers(0, 200, (2200, 16)) / 255):
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(len(X)) > np.median(X[:, 0]), 1.0, -1.0)
    result = qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X, 0.2), y, 3.0), "decomposition")
    assert result.certificate.passed, result
print("solved")
"""


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "+avx,+avx2,+fma"])
def test_a_processor_with_fewer_features(features, fresh_process, tmp_path):
    numba = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    assert fresh_process(SOLVE_SCRIPT, cache=tmp_path, **numba).strip() == "solved"
