"""A model of the bytes and seconds of a decomposition over shards, and of passes over rows.

The bytes are those that `ShardGroup` counts: what an iteration, a check and a certificate send and
receive. The seconds are those of an iteration whose shards work at the same time: round trip, sum of
kernel values, scan of the gradient, and the client's own work.
"""

from __future__ import annotations

from typing import NamedTuple

NUMBER_BYTES = 8
"""Bytes of an index, a weight or a number that is sent alone."""

NUMBERS_OF_STEP, NUMBERS_OF_CERTIFICATE = 3, 4
"""Numbers that a step sends to a shard beside arrays, and numbers of `AtWeights` in a certificate."""

EXTREMES_OF_GRADIENT, SUMS_OF_CHECK, SUMS_OF_SECTION = 2, 8, 3
"""Numbers in an answer: the extremes, the sums over the weights, and the sums for each multiplier."""


class Size(NamedTuple):
    """The size of a problem and of its cluster."""

    m: int  # rows
    d: int  # features
    n_shards: int
    bytes_of_feature: int = 8

    @property
    def point(self) -> int:
        """Bytes of a point."""
        return self.d * self.bytes_of_feature


class Rates(NamedTuple):
    """Rates of a worker and of the network, by the second unless stated otherwise."""

    values: float  # kernel values summed by a worker in float32
    exact_values: float  # the same in float64
    rows: float  # rows whose gradient a worker scans after a step
    checked_rows: float  # rows that a worker scans for a check
    latency: float  # seconds of an empty round trip to all workers
    bandwidth: float  # bytes a second at the client


def step_bytes(
    size: Size, n_new: int, n_moved: int, n_members: int, n_violators: int, n_offered: int
) -> int:
    """Return the bytes of a step.

    Parameters
    ----------
    size : Size
    n_new, n_moved : int
        Points that are sent to every shard, and weights that moved.
    n_members : int
        Size of the working set: index, weight and gradient of each go to and from its shard.
    n_violators, n_offered : int
        Violators of all shards, and those that come with their points.
    """
    out = size.n_shards * (
        NUMBER_BYTES * NUMBERS_OF_STEP + n_new * size.point + 2 * NUMBER_BYTES * n_moved
    )
    back = size.n_shards * NUMBER_BYTES * EXTREMES_OF_GRADIENT
    back += 2 * NUMBER_BYTES * n_violators + n_offered * (size.point + NUMBER_BYTES)
    return out + back + 3 * NUMBER_BYTES * n_members


def check_bytes(size: Size, n_multipliers: int) -> int:
    """Return the bytes of a check at a number of multipliers."""
    numbers = n_multipliers + SUMS_OF_CHECK + SUMS_OF_SECTION * n_multipliers
    return size.n_shards * NUMBER_BYTES * numbers


def certificate_bytes(size: Size, n_new: int, n_support: int, by_level: bool) -> int:
    """Return the bytes of a recomputed product; `by_level` where a multiplier selects the entries."""
    numbers = 1 + NUMBERS_OF_CERTIFICATE - (not by_level)
    out = size.n_shards * (
        NUMBER_BYTES * numbers + n_new * size.point + 2 * NUMBER_BYTES * n_support
    )
    back = size.n_shards * NUMBER_BYTES * EXTREMES_OF_GRADIENT
    return out + back + 2 * NUMBER_BYTES * n_support


def step_seconds(size: Size, rates: Rates, n_moved: int, n_bytes: int) -> float:
    """Return the seconds of a step, without the client's work."""
    rows = size.m / size.n_shards
    return (
        rates.latency
        + rows * n_moved / rates.values
        + rows / rates.rows
        + n_bytes / rates.bandwidth
    )


def check_seconds(size: Size, rates: Rates, n_bytes: int) -> float:
    """Return the seconds of a check."""
    rows = size.m / size.n_shards
    return rates.latency + rows / rates.checked_rows + n_bytes / rates.bandwidth


def certificate_seconds(size: Size, rates: Rates, n_support: int, n_bytes: int) -> float:
    """Return the seconds of a recomputed product, which is evaluated at the support."""
    values = n_support * n_support / size.n_shards
    return rates.latency + values / rates.exact_values + n_bytes / rates.bandwidth


def kernel_seconds(
    size: Size, rates: Rates, n_support: int, moves_of_support: float, n_added: int, client: float
) -> dict[str, float]:
    """Return the seconds of the parts of a kernel machine's solve.

    Parameters
    ----------
    size : Size
    rates : Rates
    n_support : int
    moves_of_support : float
        Moves of weights in the whole solve, as a multiple of the support.
    n_added : int
        Points that an iteration adds to the working set; as many weights move.
    client : float
        Seconds of the client's work in an iteration.
    """
    n = max(1.0, moves_of_support * n_support / n_added)
    rows = size.m / size.n_shards
    sent = size.n_shards * (n_added * size.point + 2 * NUMBER_BYTES * n_added)
    return {
        "kernel values": n * rows * n_added / rates.values,
        "scans": n * rows / rates.rows,
        "round trips": 2.0 * n * rates.latency,
        "points sent to all workers": n * sent / rates.bandwidth,
        "client": n * client,
        "certificate": certificate_seconds(size, rates, n_support, 0),
    }


def pass_seconds(size: Size, rates: Rates, n_passes: int, row_seconds: float) -> dict[str, float]:
    """Return the seconds of the parts of a linear machine's solve in passes.

    A worker takes `row_seconds` for a row in a pass. The client sums the Hessians.
    """
    hessian = size.n_shards * NUMBER_BYTES * (size.d + 1) ** 2
    return {
        "passes": n_passes * size.m / size.n_shards * row_seconds,
        "round trips": 2.0 * n_passes * rates.latency,
        "Hessians to the client": n_passes * hessian / rates.bandwidth,
        "labels and weights of the rows": size.m * (1 + NUMBER_BYTES) / rates.bandwidth,
    }
