"""Violators of the optimality conditions by group: the simplices of a product, or all points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.solvers.working_set.decomposition import smallest

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


def members_of(group: NDArray[np.integer], n_groups: int) -> list[Any]:
    """Return the points of each group as an index; all of one group without a copy."""
    if n_groups == 1:
        return [slice(None)]
    return [np.flatnonzero(group == g) for g in range(n_groups)]


def movable(x: Vector, z: Vector, upper: Vector) -> tuple[Mask, Mask]:
    """Return which coordinates are in I_up, where z x can grow, and which in I_low."""
    free_above, free_below, rises = x < upper, x > 0, z > 0
    falls = ~rises
    up, down = (
        (rises & free_above) | (falls & free_below),
        (rises & free_below) | (falls & free_above),
    )
    return up, down


def extremes_of(s: Vector, up: Mask, down: Mask, members: list[Any]) -> tuple[Vector, Vector]:
    """Return the minimum of s over I_up and its maximum over I_low, of each group.

    They are NaN where an entry is.
    """
    if np.isnan(np.min(s, initial=np.inf)):
        unknown = np.full(len(members), np.nan)
        return unknown, unknown
    low = [np.min(s[of][np.flatnonzero(up[of])], initial=np.inf) for of in members]
    high = [np.max(s[of][np.flatnonzero(down[of])], initial=-np.inf) for of in members]
    return np.array(low), np.array(high)


def joined(found: list[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    """Return the extremes of all shards, NaN where one of them is."""
    low, high = zip(*found, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def least_of_each(s: Vector, among: Mask, members: list[Any], count: int) -> Indices:
    """Return the `count` points of least s of each group; groups take turns, each from its least."""
    found = []
    for of in members:
        own, allowed = s[of], among[of]
        least = smallest(own, allowed, int(np.count_nonzero(allowed)), count)
        least = least[np.argsort(own[least], kind="stable")]
        found.append(least if isinstance(of, slice) else of[least])
    ranks = np.concatenate([np.arange(len(own)) for own in found])
    return np.concatenate(found)[np.argsort(ranks, kind="stable")]


def by_turns(s: Vector, group: NDArray[np.integer]) -> Indices:
    """Return the order in which groups take turns, each from its least s."""
    order = np.lexsort((s, group))
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    ranks = np.arange(len(order)) - starts[group[order]]
    return order[np.argsort(ranks, kind="stable")]
