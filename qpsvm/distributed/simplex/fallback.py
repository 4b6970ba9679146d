"""Fallback of ``method="auto"`` over shards: where decomposition stalls, `mnp` is warm-started.

It is that of one process (`qpsvm.driver.fallback`), on simplices without upper bounds, whose weights fit
the block of `mnp` at the client. The points stay where they are, and those that were sent are known.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from qpsvm.distributed.decomposition import ShardedDecomposition
from qpsvm.distributed.sharded_qp import ShardedQP
from qpsvm.distributed.simplex.min_norm_point import ShardedMinNormPoint
from qpsvm.domains import SimplexProduct
from qpsvm.driver.fallback import DENSE_BYTES_PER_ENTRY, Stage
from qpsvm.driver.loop import Outcome, run
from qpsvm.driver.trace import Limits
from qpsvm.errors import ClusterError
from qpsvm.result import Status

FALLBACK_NAME = "mnp"
"""Name of the method that continues where decomposition stalls."""


def run_with_fallback(
    qp: ShardedQP, stage: Stage, x0: Any, limits: Limits, memory_limit: int, seed: int
) -> tuple[Outcome, Stage]:
    """Run decomposition and, where it stalls or is slow, `mnp`; the stage returned names both.

    Of both answers the one of the smaller certified gap is returned.

    Raises
    ------
    ClusterError
        If the cluster is lost before a point was certified.
    """
    first_limits = limits
    if isinstance(qp.domain, SimplexProduct) and DENSE_BYTES_PER_ENTRY * qp.m**2 <= memory_limit:
        first_limits = replace(limits, is_slow=partial(stage.solver.is_slow, qp))
    outcome = run(qp, stage.solver, x0, first_limits, seed)
    solver = _fallback(qp, stage.solver, memory_limit)
    if solver is None or outcome.status not in (Status.STALLED, Status.MAX_ITER):
        return outcome, stage
    gap = outcome.certified.certificate.relative_gap
    reason = f"{stage.reason}; warm start of {FALLBACK_NAME} at a relative gap of {gap:.1g}"
    stage = Stage(f"{stage.name} + {FALLBACK_NAME}", solver, reason)
    # The counters of the shards count on: those of the first method are within those of the second.
    of_method = {k: n for k, n in outcome.counters.items() if k not in qp.counters}
    before = replace(outcome, counters=of_method)
    limits = replace(limits, max_iter=outcome.n_iter + solver.default_max_iter(qp))
    try:
        after = run(qp, solver, outcome.certified.x, limits, seed, before)
    except ClusterError:  # the answer of the first method is certified
        counters = of_method | qp.counters
        return replace(outcome, status=Status.CLUSTER_LOST, counters=counters), stage
    if after.status is Status.NUMERICAL_ERROR:  # the numbers of the first method were finite
        after = replace(after, status=Status.STALLED)
    return after, stage


def _fallback(qp: ShardedQP, solver: Any, memory_limit: int) -> ShardedMinNormPoint | None:
    """Return the solver of the fallback, or None where there is none."""
    if not isinstance(solver, ShardedDecomposition) or not isinstance(qp.domain, SimplexProduct):
        return None
    return ShardedMinNormPoint().within(qp, memory_limit)[0]
