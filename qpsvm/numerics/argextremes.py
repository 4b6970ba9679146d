"""Least and greatest values by their bits.

The bits of a float, as an integer, are ordered as the float is, once those of negative numbers are
turned around: its key. Extremes of integers become vector code; those of floats do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import bits32, bits64, vectorized

GREATEST = np.int64(np.iinfo(np.int64).max)
GLANCE = 64  # values that are looked at before it is asked whether one of them was it


@vectorized
def greatest_key(values: Any) -> Any:
    """Return the key of the greatest value."""
    high = -GREATEST
    for k in range(len(values)):
        bits = bits64(values[k])
        key = bits ^ ((bits >> 63) & GREATEST)
        high = key if key > high else high
    return high


@vectorized
def extreme_key_of(values: Any, mark: Any, wanted: int, turned: int) -> Any:
    """Return the key of the least value that is marked as wanted, or with `turned` = -1 of the greatest.

    It is GREATEST ^ turned if none is. With the bits of a key turned around the greatest is the least.
    """
    low = GREATEST
    for k in range(len(values)):
        bits = bits64(values[k])
        out = -np.int64(mark[k] != wanted)  # all bits, or none: a branch is slower
        key = bits ^ ((bits >> 63) & GREATEST) ^ turned
        key = (key & ~out) | (GREATEST & out)
        low = key if key < low else low
    return low ^ turned


@vectorized
def first_of(values: Any, key: int, mark: Any, wanted: int, bits_of: int) -> Any:
    """Return the first position of a key, among the values that are marked as wanted; else -1."""
    for start in range(0, len(values), GLANCE):
        part, kinds = values[start : start + GLANCE], mark[start : start + GLANCE]
        found = np.int64(0)
        for k in range(len(part)):  # all of them: vector code
            bits = bits64(part[k])
            away = (bits ^ ((bits >> 63) & GREATEST)) ^ key
            found += np.int64((away | np.int64((kinds[k] & bits_of) ^ wanted)) == 0)
        if found:
            for k in range(len(part)):
                bits = bits64(part[k])
                if (bits ^ ((bits >> 63) & GREATEST)) == key and (kinds[k] & bits_of) == wanted:
                    return start + k
    return -1


@vectorized
def greatest32(values: Any) -> Any:
    """Return the bits of the greatest of nonnegative values in float32, and its first position."""
    high = np.int32(0)
    for k in range(len(values)):
        bits = bits32(values[k])
        high = bits if bits > high else high
    for start in range(0, len(values), GLANCE):
        part, found = values[start : start + GLANCE], np.int32(0)
        for k in range(len(part)):
            found += np.int32(bits32(part[k]) == high)
        if found:
            for k in range(len(part)):
                if bits32(part[k]) == high:
                    return high, start + k
    return high, -1
