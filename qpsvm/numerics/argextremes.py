"""Minima and maxima of floats by integer keys.

The key of a float is its bits as an integer, with those of negative numbers inverted below the sign: keys
are ordered as the floats. The compiler vectorizes minima and maxima of integers, but not of floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import bits32, bits64, inlined, vectorized

MAX_KEY = np.int64(np.iinfo(np.int64).max)
"""Greatest key, the neutral element of minima; -MAX_KEY is that of maxima."""

SEARCH_CHUNK_VALUES = 64
"""Number of values compared before the result is tested: their comparison is vector code."""


@inlined
def ordered_key(value: Any) -> Any:
    """Return the key of a float64."""
    bits = bits64(value)
    return bits ^ ((bits >> 63) & MAX_KEY)


@vectorized
def greatest_key(values: Any) -> Any:
    """Return the key of the maximum."""
    high = -MAX_KEY
    for k in range(len(values)):
        key = ordered_key(values[k])
        high = key if key > high else high
    return high


@vectorized
def extreme_key_of(values: Any, mark: Any, wanted: int, inverted: int) -> Any:
    """Return the key of the minimum over the marked values, or with `inverted` = -1 of the maximum.

    Without a marked value the result is MAX_KEY ^ inverted. Inverting the bits of keys reverses their
    order.
    """
    low = MAX_KEY
    for k in range(len(values)):
        excluded = -np.int64(mark[k] != wanted)  # all bits or none: faster than a branch
        key = ordered_key(values[k]) ^ inverted
        key = (key & ~excluded) | (MAX_KEY & excluded)
        low = key if key < low else low
    return low ^ inverted


@vectorized
def first_of(values: Any, key: int, mark: Any, wanted: int, flag_mask: int) -> Any:
    """Return the first index of a key among the marked values, or -1."""
    for start in range(0, len(values), SEARCH_CHUNK_VALUES):
        chunk, kinds = (
            values[start : start + SEARCH_CHUNK_VALUES],
            mark[start : start + SEARCH_CHUNK_VALUES],
        )
        found = np.int64(0)
        for k in range(len(chunk)):  # without early exit: vector code
            difference = ordered_key(chunk[k]) ^ key
            found += np.int64((difference | np.int64((kinds[k] & flag_mask) ^ wanted)) == 0)
        if found:
            for k in range(len(chunk)):
                if ordered_key(chunk[k]) == key and (kinds[k] & flag_mask) == wanted:
                    return start + k
    return -1


@vectorized
def greatest32(values: Any) -> Any:
    """Return the bits of the maximum of nonnegative float32 values, and its first index."""
    high = np.int32(0)
    for k in range(len(values)):
        bits = bits32(values[k])
        high = bits if bits > high else high
    for start in range(0, len(values), SEARCH_CHUNK_VALUES):
        chunk, found = values[start : start + SEARCH_CHUNK_VALUES], np.int32(0)
        for k in range(len(chunk)):
            found += np.int32(bits32(chunk[k]) == high)
        if found:
            for k in range(len(chunk)):
                if bits32(chunk[k]) == high:
                    return high, start + k
    return high, -1
