"""Where the shards of a solve are: at the workers of a Dask client, or in this process.

A Dask client is looked up only where the program has imported `distributed`.
"""

from __future__ import annotations

import sys

import numpy as np

from qpsvm.clock import Clock
from qpsvm.distributed.group import Layout, ProcessShards, ShardGroup, consecutive
from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.chunked import ChunkedPoints

MAX_SHARDS_IN_PROCESS = 4
"""Maximum number of shards without a cluster: four workers that hold as many consecutive chunks add sums
in the same order."""


def make_group(kernel: PointGram, clock: Clock, in_passes: bool = False) -> ShardGroup:
    """Return the shards of a chunked kernel, at the workers of the current client if there is one.

    Workers must answer within `group.ANSWER_SECONDS` after a limit of the clock. With `in_passes` the
    shards read their rows again in every pass, and evaluate no kernel.
    """
    points = kernel.X
    assert isinstance(points, ChunkedPoints)
    template = kernel._over(np.zeros((1, points.n_features), points.dtype))
    if "distributed" in sys.modules:
        from qpsvm.distributed.cluster.shards import ClusterShards, current_client

        client = current_client()
        if client is not None:
            return ClusterShards.of(client, template, points, clock, in_passes)
    chunks = consecutive(points.sizes, MAX_SHARDS_IN_PROCESS)
    return ProcessShards(template, Layout(points, chunks), in_passes, clock=clock)
