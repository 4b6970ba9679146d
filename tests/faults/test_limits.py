"""Limits of memory against the resident memory of the process, and limits of time from none on."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from qpsvm import Status, solve
from tests.faults.interrupts import PROBLEMS_OF_METHODS

PEAK_OF_PROCESS = Path("/proc/self/clear_refs")
"""Where Linux lets a process forget its peak of resident memory."""

MIB = 1 << 20

RESIDENT_SCRIPT = """
import sys
import numpy as np, qpsvm

def resident(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) * 1024

def problem(m):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 8))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return qpsvm.{formulation}(qpsvm.RBF(X, 0.1), y, C=10.0)

options = dict(tol=1e-3, memory_limit={limit}, max_iter={steps})
small, large = problem(2500), problem({m})
qpsvm.solve(small, "{method}", **options)
before = resident("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
result = qpsvm.solve(large, "{method}", **options)
print(resident("VmHWM") - before, result.certificate.lower <= result.certificate.upper)
"""

SLACK_BYTES = 40 * MIB
"""What a solve may take beside its limit: 16 MB of matrices, a block of kernel values, vectors of m."""


@pytest.mark.skipif(not PEAK_OF_PROCESS.exists(), reason="no peak of resident memory to be reset")
@pytest.mark.parametrize("limit", [MIB, pytest.param(64 * MIB, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("method", "formulation", "steps"),
    [("smo", "HingeDual", 4000), ("mfw", "L2SVMDual", 2000), ("decomposition", "HingeDual", 8),
     ("mnp", "L2SVMDual", 300)],
)  # fmt: skip
def test_the_resident_memory_keeps_to_the_limit(method, formulation, steps, limit, fresh_process):
    m = 6000
    code = RESIDENT_SCRIPT.format(
        method=method, formulation=formulation, steps=steps, limit=limit, m=m
    )
    grown, holds = fresh_process(code).split()
    assert holds == "True"
    assert int(grown) <= limit + SLACK_BYTES


@pytest.mark.parametrize("method", PROBLEMS_OF_METHODS)
def test_an_answer_after_any_time_has_bounds_that_hold(method):
    problem = PROBLEMS_OF_METHODS[method]()
    best = solve(problem, tol=1e-9)
    slack = 2.0 * best.certificate.gap
    solve(problem, method, max_iter=2)  # compile
    for limit in (0.0, 1e-9, 1e-4, 1e-3, 1e-2, 0.05):
        begun = time.perf_counter()
        result = solve(problem, method, tol=1e-10, time_limit=limit)
        assert time.perf_counter() - begun < limit + 10.0
        c = result.certificate
        assert c.lower - slack <= best.value <= c.upper + slack
        assert np.isfinite(result.x).all() and c.violation <= 1e-9
        assert result.status in (Status.TIME_LIMIT, Status.OPTIMAL, Status.STALLED)
