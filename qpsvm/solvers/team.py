"""Passes over all points shared by threads, inside of compiled steps.

Beyond some 200,000 points the vectors of a step do not lie in a core's cache: two cores read them
faster than one. One thread makes the steps; the others are in compiled code too, and take pieces of
each pass as they come, so that a pass is handed over in less than a microsecond. Pieces are fixed and
write to places of their own: the numbers do not depend on who takes which, nor on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from qpsvm.solvers.steps import TILE, compiled
from qpsvm.threads import spread

SHARED = 200_000
"""Points from which passes are shared."""

PIECE = 16
"""Tiles of a piece."""

MOST = 4
"""Threads at most: few cores read as fast as the memory gives."""

TAKEN, OFFERED, DONE, CLOSED = 0, 8, 16, 24  # 64 bytes apart: each in a line of the cache


class Team(NamedTuple):
    """Where a pass is offered: pieces are numbered on and on, from the first pass to the last."""

    tickets: NDArray[np.int64]  # (32,), pieces taken, offered and done so far; whether it is over
    place: NDArray[np.int64]  # (4,), what the present pass needs to know, ...
    number: NDArray[np.float64]  # (4,)
    n_tiles: int
    n_pieces: int
    shared: bool


def team(m: int) -> Team:
    """Return the team for passes over m points."""
    n_tiles = -(-m // TILE)
    shared = m >= SHARED and not config.DISABLE_JIT  # type: ignore[attr-defined]
    places = np.zeros(32, np.int64), np.zeros(4, np.int64), np.zeros(4)
    return Team(*places, n_tiles, -(-n_tiles // PIECE), shared)


@compiled
def no_team() -> Team:
    """Return the team of one."""
    return Team(np.zeros(32, np.int64), np.zeros(4, np.int64), np.zeros(4), 0, 0, False)


def together(who: Team, steps: Callable[[], Any], assist: Callable[[], Any]) -> Any:
    """Return what `steps` returns, while other threads `assist`, if there are any.

    `steps` must call `offer`, take pieces itself, and `wait`; `assist` must take pieces until `over`.
    """
    if not who.shared:
        return steps()
    who.tickets[:] = 0
    found = []

    def task(leads: bool) -> None:
        if not leads:
            assist()
            return
        try:
            found.append(steps())
        finally:
            _close(who)

    spread(task, [True] + [False] * (MOST - 1))
    return found[0]


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of an entry of an array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.gep_inbounds(builder, array.data, arguments[1])


@intrinsic
def _load_entry(context, array, at):  # type: ignore[no-untyped-def]
    """Read an entry, and see all that was written before it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        word = context.get_value_type(types.int64)
        return builder.load_atomic(place, "seq_cst", 8, typ=word)

    return types.int64(array, types.intp), emit


@intrinsic
def _store_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Write an entry, after all that was written before."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), emit


@intrinsic
def _add_entry(context, array, at, value):  # type: ignore[no-untyped-def]
    """Add to an entry; return what it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), emit


@intrinsic
def _swap_entry(context, array, at, old, new):  # type: ignore[no-untyped-def]
    """Write `new` where the entry is `old`; return whether it was."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        found = builder.cmpxchg(place, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), emit


_load: Any = _load_entry
_store: Any = _store_entry
_add: Any = _add_entry
_swap: Any = _swap_entry


@compiled
def _close(who: Team) -> None:
    _store(who.tickets, CLOSED, 1)


@compiled
def offer(who: Team) -> None:
    """Offer the pieces of a pass, once all that it needs to know is written."""
    _add(who.tickets, OFFERED, who.n_pieces)


@compiled
def take(who: Team) -> Any:
    """Return the first tile of a piece that nobody has taken and the one after its last; or 0, 0."""
    while True:
        # none is offered before all earlier ones are done: what was read first cannot be too large
        offered = _load(who.tickets, OFFERED)
        taken = _load(who.tickets, TAKEN)
        if taken >= offered:
            return 0, 0
        if _swap(who.tickets, TAKEN, taken, taken + 1):
            first = (taken % who.n_pieces) * PIECE
            return first, min(first + PIECE, who.n_tiles)


@compiled
def done(who: Team) -> None:
    """Say that a piece is done."""
    _add(who.tickets, DONE, 1)


@compiled
def wait(who: Team) -> None:
    """Wait until all pieces that were offered are done."""
    while _load(who.tickets, DONE) < _load(who.tickets, OFFERED):
        pass


@compiled
def over(who: Team) -> Any:
    """Return whether no further pass will be offered."""
    return _load(who.tickets, CLOSED) != 0
