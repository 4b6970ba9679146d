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


def apply_map(kernel_map: Any, T: Any) -> None:
    """Replace t by phi(t) in a block T, shape (n, width), which fits the first-level cache."""
    _APPLIED[type(kernel_map)](kernel_map, T)


def _exponentials(kernel_map: Any, T: Any) -> None:
    for u in range(T.shape[0]):
        for j in range(T.shape[1]):
            T[u, j] = exp2_64(T[u, j])


def _exponentials32(kernel_map: Any, T: Any) -> None:
    for u in range(T.shape[0]):
        for j in range(T.shape[1]):
            T[u, j] = exp2_32(T[u, j])


def _powers(kernel_map: Any, T: Any) -> None:
    width = T.shape[1]
    base = np.empty(width, T.dtype)
    for u in range(T.shape[0]):
        for j in range(width):
            base[j] = T[u, j]
        for _ in range(1, kernel_map.degree):
            for j in range(width):
                T[u, j] *= base[j]


def _tangents(kernel_map: Any, T: Any) -> None:
    for u in range(T.shape[0]):
        for j in range(T.shape[1]):
            e = exp2_64(-2.0 * LOG2E * abs(T[u, j]))
            T[u, j] = np.copysign((1.0 - e) / (1.0 + e), T[u, j])


def _tangents32(kernel_map: Any, T: Any) -> None:
    one, rate = np.float32(1.0), np.float32(-2.0 * LOG2E)
    for u in range(T.shape[0]):
        for j in range(T.shape[1]):
            e = exp2_32(rate * abs(T[u, j]))
            T[u, j] = np.copysign((one - e) / (one + e), T[u, j])


def _identities(kernel_map: Any, T: Any) -> None:
    pass


_APPLIED: dict[type, Callable[[Any, Any], None]] = {
    Exponential: _exponentials,
    L1Exponential: _exponentials,
    Power: _powers,
    Tangent: _tangents,
    Identity: _identities,
}
_APPLIED_IN_FLOAT32: dict[Any, Any] = {_exponentials: _exponentials32, _tangents: _tangents32}


def finish_map(kernel_map: Any, T: Any) -> None:
    """Apply the map unless `kernel_rows` has done so, as for the exponential maps."""
    if type(kernel_map) not in (Exponential, L1Exponential):
        apply_map(kernel_map, T)


MAP_FLAGS: Any = {"nogil": True, "fastmath": {"contract", "nnan", "nsz"}}
"""Compiler flags of all sweeps that apply a map: sums keep their order."""


@overload(apply_map, jit_options=MAP_FLAGS, strict=False)
def _apply_map_of_type(kernel_map, T):  # type: ignore[no-untyped-def]
    applied = _APPLIED[kernel_map.instance_class]
    return applied if T.dtype.bitwidth == 64 else _APPLIED_IN_FLOAT32.get(applied, applied)


@overload(finish_map, jit_options=MAP_FLAGS, strict=False)
def _finish_map_of_type(kernel_map, T):  # type: ignore[no-untyped-def]
    if kernel_map.instance_class in (Exponential, L1Exponential):
        return _identities
    return _apply_map_of_type(kernel_map, T)
