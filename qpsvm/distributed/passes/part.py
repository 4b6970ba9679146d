"""Solves of a part of the rows in this process: a sample, or a core."""

from __future__ import annotations

from typing import Any

from qpsvm.clock import Clock
from qpsvm.driver.fallback import Stage, run_with_fallbacks
from qpsvm.driver.selection import find
from qpsvm.driver.trace import Limits
from qpsvm.formulations import Formulation
from qpsvm.formulations.base import Recovery
from qpsvm.resources import memory_bytes


def solve_part(problem: Formulation, tol: float, clock: Clock | None = None) -> Recovery:
    """Return the answer to a problem by the method that fits it, at a relative gap or at a limit."""
    clock = clock or Clock()
    memory = memory_bytes() // 4
    declared, name, reason, solver, _ = find(problem, "auto", {}, False, memory, clock)
    limits = Limits(tol, solver.default_max_iter(declared), None, clock)
    stage: Any = Stage(name, solver, reason)
    outcome, _ = run_with_fallbacks(declared, stage, None, limits, memory, 0)
    return problem.recover(declared, outcome.certified)
