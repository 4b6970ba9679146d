"""The maps of `formula`, compiled: t is replaced by phi(t) in small blocks in the first-level cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from qpsvm.gram.engine.formula import (
    LOG2E,
    Exponential,
    Identity,
    L1Exponential,
    Power,
    Tangent,
)
from qpsvm.numerics.exp2 import exp2_32, exp2_64


def apply_map(kernel_map: Any, t: Any) -> None:
    """Replace t by phi(t) in a contiguous vector that fits the first-level cache.

    The type of the vector must say that it is contiguous, as that of a row's part does and that of a part
    of several rows does not: with other strides loops are not vectorized, and take four times as long.
    """
    _loop(type(kernel_map), 8 * t.itemsize)(kernel_map, t)


def _exponentials(kernel_map: Any, t: Any) -> None:
    for j in range(len(t)):
        t[j] = exp2_64(t[j])


def _exponentials32(kernel_map: Any, t: Any) -> None:
    for j in range(len(t)):
        t[j] = exp2_32(t[j])


def _powers(kernel_map: Any, t: Any) -> None:
    base = np.empty(len(t), t.dtype)
    for j in range(len(t)):
        base[j] = t[j]
    for _ in range(1, kernel_map.degree):
        for j in range(len(t)):
            t[j] *= base[j]


def _tangents(kernel_map: Any, t: Any) -> None:
    for j in range(len(t)):
        e = exp2_64(-2.0 * LOG2E * abs(t[j]))
        t[j] = np.copysign((1.0 - e) / (1.0 + e), t[j])


def _tangents32(kernel_map: Any, t: Any) -> None:
    one, rate = np.float32(1.0), np.float32(-2.0 * LOG2E)
    for j in range(len(t)):
        e = exp2_32(rate * abs(t[j]))
        t[j] = np.copysign((one - e) / (one + e), t[j])


def _identities(kernel_map: Any, t: Any) -> None:
    pass


_LOOP_BY_MAP: dict[type, Callable[[Any, Any], None]] = {
    Exponential: _exponentials,
    L1Exponential: _exponentials,
    Power: _powers,
    Tangent: _tangents,
    Identity: _identities,
}
_LOOP_IN_FLOAT32: dict[Any, Any] = {_exponentials: _exponentials32, _tangents: _tangents32}


def _loop(kind: type, n_bits: int) -> Callable[[Any, Any], None]:
    applied = _LOOP_BY_MAP[kind]
    return applied if n_bits == 64 else _LOOP_IN_FLOAT32.get(applied, applied)


def finish_map(kernel_map: Any, K: Any) -> None:
    """Apply the map to the rows of K unless `kernel_rows` has done so, as for the exponential maps."""
    if type(kernel_map) not in (Exponential, L1Exponential):
        _map_rows(kernel_map, K)


def _map_rows(kernel_map: Any, K: Any) -> None:
    for u in range(K.shape[0]):
        apply_map(kernel_map, K[u])


def _keep_rows(kernel_map: Any, K: Any) -> None:
    pass


MAP_FLAGS: Any = {"nogil": True, "fastmath": {"contract", "nnan", "nsz"}}
"""Compiler flags of all sweeps that apply a map: sums keep their order."""


@overload(apply_map, jit_options=MAP_FLAGS, strict=False)
def _apply_map_of_type(kernel_map, t):  # type: ignore[no-untyped-def]
    return _loop(kernel_map.instance_class, t.dtype.bitwidth)


@overload(finish_map, jit_options=MAP_FLAGS, strict=False)
def _finish_map_of_type(kernel_map, K):  # type: ignore[no-untyped-def]
    is_mapped = kernel_map.instance_class in (Exponential, L1Exponential)
    return _keep_rows if is_mapped else _map_rows
