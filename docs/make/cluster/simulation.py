"""Shards that work one after the other, timed as if each had a processor of its own.

A call takes as long as its slowest shard, a round trip, and its bytes at a bandwidth. What remains of the
seconds of a solve is the client's work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from docs.make.cluster.model import (
    Rates,
    Size,
    certificate_seconds,
    check_seconds,
    step_seconds,
)
from qpsvm import threads
from qpsvm.distributed import solve as sharded
from qpsvm.distributed.group import Layout, ProcessShards, consecutive, n_bytes


class Call(NamedTuple):
    """A call of all shards."""

    method: str
    slowest: float  # seconds of the slowest shard
    total: float  # seconds of all shards
    n_moved: int  # weights that moved, in a step
    n_bytes: int


@dataclass
class TimedShards(ProcessShards):
    """Shards in this process, whose calls are recorded."""

    made: list[Call] = field(default_factory=list)

    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        seconds, answers = [], []
        for k, own in enumerate(arguments):
            begun = time.perf_counter()
            answers.append(self._call_one(k, method, own))
            seconds.append(time.perf_counter() - begun)
        moved = len(arguments[0][2]) if method == "step" else 0
        sent = n_bytes(tuple(arguments)) + n_bytes(answers)
        self.made.append(Call(method, max(seconds), sum(seconds), moved, sent))
        return answers


def simulated(
    call: Callable[[], Any], n_shards: int, rates: Rates
) -> tuple[float, float, list[Call]]:
    """Return the seconds that a solve would take with a processor for each shard, and the client's part.

    The third is the record of its calls.
    """
    groups: list[TimedShards] = []

    def make_group(kernel: Any, clock: Any, in_passes: bool = False) -> TimedShards:
        points = kernel.X
        template = kernel._over(np.zeros((1, points.n_features), points.dtype))
        layout = Layout(points, consecutive(points.sizes, n_shards))
        groups.append(TimedShards(template, layout, in_passes))
        return groups[-1]

    with threads.limit(1), mock.patch.object(sharded, "make_group", make_group):
        begun = time.perf_counter()
        call()
        wall = time.perf_counter() - begun
    made = groups[0].made
    client = wall - sum(one.total for one in made)
    network = sum(rates.latency + one.n_bytes / rates.bandwidth for one in made)
    return client + sum(one.slowest for one in made) + network, client, made


def fitted(made: list[Call], size: Size, n_support: int, network: Rates) -> Rates:
    """Return the network's rates, and those of a worker that fit the calls of a run best."""
    rows, seconds = size.m / size.n_shards, {}
    for name in ("along", "recompute"):
        own = [one.total / size.n_shards for one in made if one.method == name]
        seconds[name] = float(np.mean(own[1:] or own))  # the first recomputation is of few points
    steps = [one for one in made if one.method == "step" and one.n_moved]
    work = np.array([[rows * one.n_moved, rows] for one in steps])
    of_step = np.array([one.total / size.n_shards for one in steps])
    of_values, of_rows = np.linalg.lstsq(work, of_step, rcond=None)[0]
    return network._replace(
        values=1.0 / of_values,
        rows=1.0 / max(of_rows, 1e-12),
        checked_rows=rows / seconds["along"],
        exact_values=n_support * n_support / size.n_shards / seconds["recompute"],
    )


def predicted(made: list[Call], size: Size, n_support: int, rates: Rates) -> float:
    """Return the seconds of the calls of a run by the model.

    A call that the model leaves out counts as a round trip and its bytes.
    """
    total, first = 0.0, next(one for one in made if one.method == "recompute")  # of the start
    for one in made:
        if one.method == "step":
            total += step_seconds(size, rates, one.n_moved, one.n_bytes)
        elif one.method == "along":
            total += check_seconds(size, rates, one.n_bytes)
        elif one.method == "recompute" and one is not first:
            total += certificate_seconds(size, rates, n_support, one.n_bytes)
        else:
            total += rates.latency + one.n_bytes / rates.bandwidth
    return total
