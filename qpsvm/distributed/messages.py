"""What the client and shards of points under a kernel send each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.distributed.kernel_sums import Limits

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Setup(NamedTuple):
    """Coefficients of the points of a shard in the QP, each a number or of shape (n,)."""

    kind: str  # "hyperplane", "simplex" or "capped"
    sign: Any
    ridge: Any
    upper: Any
    linear: Any
    group: Any  # which simplex a point belongs to
    n_groups: int
    shift: float
    scale: float
    m: int  # number of points of all shards
    limits: Limits  # of the kernel values of all shards
    largest: Vector  # largest |G_ij|, |c_i| and D_ii


class PointCopies(NamedTuple):
    """Copies of points, shape (n, d), and k(x, x) of each."""

    points: Any
    diagonal: Vector


class Violators(NamedTuple):
    """The violators of a shard after a step, with the extremes of its gradient."""

    low: Vector  # minimum of the signed gradient over I_up, of each group
    high: Vector  # maximum over I_low
    up: Indices  # indices in the shard of the least values in I_up outside the working set: groups
    # take turns, each from its least value
    s_up: Vector
    down: Indices  # of the greatest in I_low, each group from its greatest
    s_down: Vector
    s: Vector  # at the working set
    first_up: PointCopies  # the first points of `up`, which are the likeliest to be added
    first_down: PointCopies


class AtWeights(NamedTuple):
    """Where a product is to be recomputed, and what is known of the running one."""

    total: float  # sum of the weights of all shards
    entry: float  # bound on the rounding of a recomputed entry
    level: Vector | None  # multipliers of the latest bounds; None to recompute all entries
    moved: float  # bound on the change of an entry from the weights of the running product


class Sums(NamedTuple):
    """Sums over the weights of a group in a shard, the range of its breakpoints: see `Shard.along`."""

    quadratic: float
    ridge: float
    linear: float
    signed: float  # sum of the weights, times their signs with a hyperplane
    positive: float  # with a hyperplane, sum of upper times breakpoint over the positive signs
    least_flat: float  # on a simplex, the least breakpoint without ridge
    first: float
    last: float
