"""Smoothings that are divided again and again."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import LPSVMPrimal, solve


@pytest.mark.parametrize("m", [3, 9, 52])
def test_stages_that_end_at_once_do_not_divide_by_zero(m):
    """On the identity with C = 1 every stage is solved when it begins."""
    y = np.where(np.arange(m) % 2, 1.0, -1.0)
    result = solve(LPSVMPrimal(np.eye(m), y, C=1.0, bias=False), "nesvm", tol=1e-9, max_iter=20_000)
    c = result.certificate
    assert c.lower <= m * (1 + 1e-12) and c.upper >= m * (1 - 1e-12)
