"""Work sharing between threads for passes over all points, inside compiled steps.

Beyond some 200,000 points the vectors of a step do not fit the cache of one core, and two cores read
them faster. One thread makes the steps. The others wait in compiled code and claim chunks of each
pass, so that publishing a pass takes less than a microsecond. A worker starts each pass at the same
chunk, which may still be in its cache, and claims chunks until none is left. Chunks are fixed and write
to disjoint memory: results depend neither on the assignment of chunks nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from qpsvm.numerics.intrinsics import HAS_INTRINSICS, cgutils, with_plain_twin
from qpsvm.numerics.jit import compiled, inlined
from qpsvm.numerics.parallel import parallel_for

TILE_POINTS = 1024
"""Number of points of a tile: it is updated and then searched while it is in the first-level cache."""

MIN_POINTS_FOR_SHARING = 200_000
"""Minimum number of points at which passes are shared."""

CHUNK_TILES = 16
"""Number of tiles of a chunk, the unit that a worker claims."""

MAX_THREADS = 4
"""Maximum number of threads: a few cores saturate the memory bandwidth."""

REGISTERED_AT = 0
"""Index in `WorkSharing.state` of the number of registered workers. Indices are 8 entries, 64 bytes,
apart: each counter has a cache line of its own."""

PUBLISHED_AT = 8
"""Index of the number of published passes."""

FINISHED_AT = 16
"""Index of the number of finished chunks."""

CLOSED_AT = 24
"""Index of the flag that no further pass follows."""


class WorkSharing(NamedTuple):
    """Shared state through which passes are published, one after the other."""

    state: NDArray[np.int64]  # (32,), workers, published passes, finished chunks, closed flag
    claimed: NDArray[np.int64]  # (n_chunks,), the last pass in which the chunk was claimed
    int_arguments: NDArray[np.int64]  # (4,), arguments of the current pass
    float_arguments: NDArray[np.float64]  # (4,), likewise
    n_tiles: int
    shared: bool


def work_sharing_for(m: int, alone: bool = False) -> WorkSharing:
    """Return the shared state for passes over m points; `alone` switches sharing off."""
    n_tiles = -(-m // TILE_POINTS)
    shared = not alone and m >= MIN_POINTS_FOR_SHARING and HAS_INTRINSICS  # for atomic operations
    claimed = np.zeros(-(-n_tiles // CHUNK_TILES), np.int64)
    return WorkSharing(
        np.zeros(32, np.int64), claimed, np.zeros(4, np.int64), np.zeros(4), n_tiles, shared
    )


def run_shared(sharing: WorkSharing, steps: Callable[[], Any], assist: Callable[[], Any]) -> Any:
    """Return what `steps` returns, while other threads, if any, run `assist`.

    `steps` must `publish` each pass, `claim` chunks itself, and `join`; `assist` must `register` and
    claim chunks until the work is `closed`.
    """
    if not sharing.shared:
        return steps()
    sharing.state[:] = 0
    sharing.claimed[:] = 0
    results = []

    def task(leads: bool) -> None:
        if not leads:
            assist()
            return
        try:
            results.append(steps())
        finally:
            _close(sharing)

    parallel_for(task, [True] + [False] * (MAX_THREADS - 1))
    return results[0]


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of an entry of an array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.gep_inbounds(builder, array.data, arguments[1])


def _load_entry(context, array, at):  # type: ignore[no-untyped-def]
    """Load an entry atomically, sequentially consistent."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments)
        word = context.get_value_type(types.int64)
        return builder.load_atomic(address, "seq_cst", 8, typ=word)

    return types.int64(array, types.intp), emit


def _store_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Store an entry atomically, sequentially consistent."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], address, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), emit


def _add_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Add to an entry atomically; return its previous value."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("add", address, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), emit


def _swap_entry(context, array, at, old, new):  # type: ignore[no-untyped-def]
    """Compare and swap: write `new` if the entry is `old`; return whether it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments)
        found = builder.cmpxchg(address, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), emit


def _plain_load(array: Any, at: Any) -> Any:
    return array[at]


def _plain_store(array: Any, at: Any, value: Any) -> None:
    array[at] = value


def _plain_add(array: Any, at: Any, value: Any) -> Any:
    array[at] += value
    return array[at] - value


def _plain_swap(array: Any, at: Any, old: Any, new: Any) -> Any:
    is_old = array[at] == old
    if is_old:
        array[at] = new
    return is_old


# The plain twins are not atomic: they are used where one thread makes all passes.
_load: Any = with_plain_twin(_load_entry, _plain_load)
_store: Any = with_plain_twin(_store_entry, _plain_store)
_add: Any = with_plain_twin(_add_entry, _plain_add)
_swap: Any = with_plain_twin(_swap_entry, _plain_swap)


@compiled
def _close(sharing: WorkSharing) -> None:
    _store(sharing.state, CLOSED_AT, 1)


@inlined
def register(sharing: WorkSharing) -> Any:
    """Register a worker; return its number: 1, 2, ..."""
    return _add(sharing.state, REGISTERED_AT, 1) + 1


@inlined
def publish(sharing: WorkSharing) -> Any:
    """Publish the next pass, whose arguments must be written; return its number."""
    return _add(sharing.state, PUBLISHED_AT, 1) + 1


@inlined
def published(sharing: WorkSharing) -> Any:
    """Return the number of the last published pass; the first is 1."""
    return _load(sharing.state, PUBLISHED_AT)


@inlined
def claim(sharing: WorkSharing, pass_number: int, worker: int, k: int) -> Any:
    """Try to claim the k-th chunk in the order of this worker; return its tiles [first, last), or 0, 0.

    A late worker finds no chunk left: the next pass is published once all chunks are finished.
    """
    n = len(sharing.claimed)
    half = n // 2 if worker > 1 else 0
    chunk = (half + k) % n if worker % 2 == 0 else (half + n - 1 - k) % n
    before = _load(sharing.claimed, chunk)
    if before >= pass_number or not _swap(sharing.claimed, chunk, before, pass_number):
        return 0, 0
    return chunk * CHUNK_TILES, min(chunk * CHUNK_TILES + CHUNK_TILES, sharing.n_tiles)


@inlined
def finish(sharing: WorkSharing) -> None:
    """Report a chunk as finished."""
    _add(sharing.state, FINISHED_AT, 1)


@inlined
def join(sharing: WorkSharing, pass_number: int) -> None:
    """Wait until all chunks of a pass are finished."""
    while _load(sharing.state, FINISHED_AT) < pass_number * len(sharing.claimed):
        pass


@inlined
def closed(sharing: WorkSharing) -> Any:
    """Return whether no further pass follows."""
    return _load(sharing.state, CLOSED_AT) != 0
