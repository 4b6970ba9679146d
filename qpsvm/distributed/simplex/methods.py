"""The methods on simplices over shards, by their names in one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from qpsvm.distributed.simplex.core_set import ShardedCoreSet
from qpsvm.distributed.simplex.frank_wolfe import ShardedFrankWolfe
from qpsvm.distributed.simplex.min_norm_point import ShardedMinNormPoint
from qpsvm.formulations import L2SVMDual, MEBDual, PolytopeDistanceDual

SIMPLEX_METHODS: dict[str, Callable[..., Any]] = {
    "fw": partial(ShardedFrankWolfe, rule="toward"),
    "mfw": partial(ShardedFrankWolfe, rule="away"),
    "pfw": partial(ShardedFrankWolfe, rule="pairwise"),
    "bpfw": partial(ShardedFrankWolfe, rule="blended"),
    "cvm": ShardedCoreSet,
    "mnp": ShardedMinNormPoint,
}
"""Functions that make the solver of each method from its options."""

SIMPLEX_PROBLEMS = (L2SVMDual, MEBDual, PolytopeDistanceDual)
"""Formulations on simplices."""
