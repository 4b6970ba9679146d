"""Passes over all points shared by threads, inside of compiled steps.

Beyond some 200,000 points the vectors of a step do not lie in a core's cache: two cores read them
faster than one. One thread makes the steps; the others are in compiled code too, and take pieces of
each pass as they come, so that a pass is handed over in less than a microsecond. Each begins where it
began the last time, where its cache may help, and goes on until all pieces are taken. Pieces are fixed
and write to places of their own: the numbers depend neither on who takes which nor on how many there are.
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

TILE = 1024
"""Points that are updated and then searched: between the two they stay in the nearest cache."""

SHARED = 200_000
"""Points from which passes are shared."""

PIECE = 16
"""Tiles of a piece."""

MOST = 4
"""Threads at most: few cores read as fast as the memory gives."""

JOINED, OFFERED, DONE, CLOSED = 0, 8, 16, 24  # 64 bytes apart: each in a line of the cache


class WorkSharing(NamedTuple):
    """Where passes are offered, one after the other."""

    state: NDArray[np.int64]  # (32,), who assists, passes offered, pieces done, whether it is over
    taken: NDArray[np.int64]  # (n_pieces,), the last pass in which somebody took the piece
    place: NDArray[np.int64]  # (4,), what the present pass needs to know, ...
    number: NDArray[np.float64]  # (4,)
    n_tiles: int
    shared: bool


def team(m: int, alone: bool = False) -> WorkSharing:
    """Return the team for passes over m points."""
    n_tiles = -(-m // TILE)
    shared = not alone and m >= SHARED and HAS_INTRINSICS  # which the atomic operations are
    taken = np.zeros(-(-n_tiles // PIECE), np.int64)
    return WorkSharing(
        np.zeros(32, np.int64), taken, np.zeros(4, np.int64), np.zeros(4), n_tiles, shared
    )


def together(who: WorkSharing, steps: Callable[[], Any], assist: Callable[[], Any]) -> Any:
    """Return what `steps` returns, while other threads `assist`, if there are any.

    `steps` must `offer` each pass, take pieces itself, and `wait`; `assist` must `join`, and take pieces
    until it is `over`.
    """
    if not who.shared:
        return steps()
    who.state[:] = 0
    who.taken[:] = 0
    found = []

    def task(leads: bool) -> None:
        if not leads:
            assist()
            return
        try:
            found.append(steps())
        finally:
            _close(who)

    parallel_for(task, [True] + [False] * (MOST - 1))
    return found[0]


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of an entry of an array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.gep_inbounds(builder, array.data, arguments[1])


def _load_entry(context, array, at):  # type: ignore[no-untyped-def]
    """Read an entry, and see all that was written before it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        word = context.get_value_type(types.int64)
        return builder.load_atomic(place, "seq_cst", 8, typ=word)

    return types.int64(array, types.intp), emit


def _store_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Write an entry, after all that was written before."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), emit


def _add_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Add to an entry; return what it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), emit


def _swap_entry(context, array, at, old, new):  # type: ignore[no-untyped-def]
    """Write `new` where the entry is `old`; return whether it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        found = builder.cmpxchg(place, arguments[2], arguments[3], "seq_cst", "seq_cst")
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


# The plain twins are not atomic: one thread makes all passes then.
_load: Any = with_plain_twin(_load_entry, _plain_load)
_store: Any = with_plain_twin(_store_entry, _plain_store)
_add: Any = with_plain_twin(_add_entry, _plain_add)
_swap: Any = with_plain_twin(_swap_entry, _plain_swap)


@compiled
def _close(who: WorkSharing) -> None:
    _store(who.state, CLOSED, 1)


@inlined
def join(who: WorkSharing) -> Any:
    """Return the number of the one who assists: 1, 2, ..."""
    return _add(who.state, JOINED, 1) + 1


@inlined
def offer(who: WorkSharing) -> Any:
    """Offer the next pass, once all that it needs to know is written; return its number."""
    return _add(who.state, OFFERED, 1) + 1


@inlined
def offered(who: WorkSharing) -> Any:
    """Return the number of the present pass, 1 for the first one."""
    return _load(who.state, OFFERED)


@inlined
def take(who: WorkSharing, number: int, mine: int, k: int) -> Any:
    """Try to take the k-th piece in one's own order; return its tiles, from and up to, or 0, 0.

    Who comes late to a pass finds every piece taken: the next one begins once all of them are done.
    """
    n = len(who.taken)
    half = n // 2 if mine > 1 else 0
    piece = (half + k) % n if mine % 2 == 0 else (half + n - 1 - k) % n
    before = _load(who.taken, piece)
    if before >= number or not _swap(who.taken, piece, before, number):
        return 0, 0
    return piece * PIECE, min(piece * PIECE + PIECE, who.n_tiles)


@inlined
def done(who: WorkSharing) -> None:
    """Say that a piece is done."""
    _add(who.state, DONE, 1)


@inlined
def wait(who: WorkSharing, number: int) -> None:
    """Wait until all pieces of a pass are done."""
    while _load(who.state, DONE) < number * len(who.taken):
        pass


@inlined
def over(who: WorkSharing) -> Any:
    """Return whether no further pass will be offered."""
    return _load(who.state, CLOSED) != 0
