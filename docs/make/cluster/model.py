"""A model of the bytes of steps over shards, and of the seconds of a decomposition and of passes.

The bytes are those that `ShardGroup` counts: what an iteration, a check and a certificate send and
receive. `decomposition` and `cvm` make steps; `fw`, `mfw`, `pfw`, `bpfw` and `mnp` scaled steps. The
seconds are those of an iteration whose shards work at the same time: round trip, sum of kernel values,
scan of the gradient, and the client's own work.
"""

from __future__ import annotations

from typing import NamedTuple

NUMBER_BYTES = 8
"""Bytes of an index, a weight or a number that is sent alone."""

NUMBERS_OF_STEP, NUMBERS_OF_SCALED_STEP, NUMBERS_OF_SAMPLE = 3, 4, 4
"""Numbers that a step, a scaled step and a sample send to a shard beside arrays."""

NUMBERS_OF_CERTIFICATE = 4
"""Numbers that a certificate sends to a shard beside arrays and multipliers."""

EXTREMES_OF_GRADIENT, SUMS_OF_CHECK, SUMS_OF_SECTION = 2, 8, 3
"""Numbers in an answer: the extremes of a simplex, the sums over the weights, and those for each
multiplier."""

NUMBERS_OF_VERTEX = 2
"""Numbers in an answer with the farthest or the nearest vertex: a value and an index."""


class Size(NamedTuple):
    """The size of a problem and of its cluster."""

    m: int  # rows
    d: int  # features
    n_shards: int
    bytes_of_feature: int = 8
    n_groups: int = 1  # simplices

    @property
    def point(self) -> int:
        """Bytes of a point."""
        return self.d * self.bytes_of_feature

    @property
    def extremes(self) -> int:
        """Bytes of the extremes of the gradient from all shards."""
        return self.n_shards * self.n_groups * NUMBER_BYTES * EXTREMES_OF_GRADIENT


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
    out = sent_bytes(size, NUMBERS_OF_STEP, n_new, n_moved)
    back = size.extremes + violator_bytes(size, n_violators, n_offered)
    return out + back + 3 * NUMBER_BYTES * n_members


def sent_bytes(size: Size, n_numbers: int, n_new: int, n_weights: int) -> int:
    """Return the bytes to all shards of numbers, new points, and weights, each with its place."""
    return size.n_shards * (
        NUMBER_BYTES * n_numbers + n_new * size.point + 2 * NUMBER_BYTES * n_weights
    )


def violator_bytes(size: Size, n_violators: int, n_offered: int) -> int:
    """Return the bytes of violators, some of which come with their points."""
    return 2 * NUMBER_BYTES * n_violators + n_offered * (size.point + NUMBER_BYTES)


def scaled_step_bytes(
    size: Size, n_new: int, n_moved: int, n_violators: int, n_offered: int
) -> int:
    """Return the bytes of a scaled step: a factor of all weights, and moves of some.

    Parameters
    ----------
    size : Size
    n_new, n_moved : int
        Points that are sent to every shard, and weights that moved beside the factor: every shard gets
        the place and the move of each, and its own shard the index and the weight.
    n_violators, n_offered : int
        Violators of all shards, and those that come with their points.
    """
    out = sent_bytes(size, NUMBERS_OF_SCALED_STEP, n_new, n_moved)
    back = size.extremes + violator_bytes(size, n_violators, n_offered)
    return out + back + 2 * NUMBER_BYTES * n_moved


def sample_bytes(size: Size, n_new: int, n_support: int, n_offered: int) -> int:
    """Return the bytes of a sample that the shards draw: all weights go out, the best rows come back.

    Parameters
    ----------
    size : Size
    n_new, n_support : int
        Points that are sent to every shard, and points with weight.
    n_offered : int
        Rows that all shards return, each with its point.
    """
    out = sent_bytes(size, NUMBERS_OF_SAMPLE, n_new, n_support)
    return out + size.extremes + violator_bytes(size, n_offered, n_offered)


def vertex_bytes(size: Size, by_group: bool) -> int:
    """Return the bytes of a search for the farthest vertex, or for the nearest one of a simplex."""
    return size.n_shards * NUMBER_BYTES * (NUMBERS_OF_VERTEX + by_group)


def fetch_bytes(size: Size, n_points: int) -> int:
    """Return the bytes of points that the client asks for: an index, a point and k(x, x) each."""
    return n_points * (size.point + 2 * NUMBER_BYTES)


def check_bytes(size: Size, n_multipliers: int) -> int:
    """Return the bytes of a check at a number of multipliers."""
    numbers = n_multipliers + SUMS_OF_CHECK + SUMS_OF_SECTION * n_multipliers
    return size.n_shards * NUMBER_BYTES * numbers


def certificate_bytes(size: Size, n_new: int, n_support: int, by_level: bool) -> int:
    """Return the bytes of a recomputed product; `by_level` where a multiplier selects the entries."""
    numbers = NUMBERS_OF_CERTIFICATE + size.n_groups * by_level
    out = sent_bytes(size, numbers, n_new, n_support)
    return out + size.extremes + 2 * NUMBER_BYTES * n_support


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
