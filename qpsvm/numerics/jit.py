"""Decorators for compiled code with a cache of our own, interruptible compilation, bits of floats.

=================  ======================================================================================
`compiled`         contraction (fused multiply-add), numpy's division rules
`inlined`          the same, inlined at the call
`vectorized`       also assumes that no NaN occurs, and ignores the sign of zero
`reassociating`    contraction, reordered sums, and ignores the sign of zero; NaNs are respected
=================  ======================================================================================

numba creates some 300,000 objects while it is loaded and many more for each function that it compiles.
The garbage collector would scan them repeatedly, for a fifth of the time to the first solve: it is off
during both.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

log = logging.getLogger("qpsvm")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch the garbage collector off inside a ``with`` block."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


with _no_collection():
    import numba
    from numba import types

    from qpsvm.numerics.intrinsics import IS_COMPILED, cgutils, with_plain_twin

    if IS_COMPILED:
        with suppress(ImportError, AttributeError):  # a private name, to load all of numba here
            from numba.core.registry import cpu_target

            cpu_target.target_context.refresh()

event: Any
Listener: Any
CompileResult: Any
try:
    from numba.core import event
    from numba.core.compiler import CompileResult

    Listener = event.Listener
except (ImportError, AttributeError):  # private names
    event = CompileResult = None
    Listener = object

from qpsvm.clock import poll_compilation  # noqa: E402
from qpsvm.numerics.code_cache import CodeCache  # noqa: E402
from qpsvm.numerics.forks import hold_during_forks  # noqa: E402

with suppress(ImportError, AttributeError):  # a private name
    from numba.core.compiler_lock import global_compiler_lock

    hold_during_forks(global_compiler_lock)


def njit(*, cache: bool = False, **flags: Any) -> Callable[[Any], Any]:
    """Return numba's decorator; with `cache` the machine code is kept (`code_cache`)."""

    def decorate(function: Any) -> Any:
        dispatcher = numba.njit(**flags)(function)
        if cache and IS_COMPILED:
            if hasattr(dispatcher, "_cache") and hasattr(CompileResult, "_rebuild"):
                dispatcher._cache = CodeCache(function)
            else:
                log.info("numba %s has no place for a cache of code", numba.__version__)
        return dispatcher

    return decorate


def compiled(function: Any) -> Any:
    """Compile for the disk cache, without the interpreter lock, with numpy's division rules."""
    return njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function)


def inlined(function: Any) -> Any:
    """Inline a short function at its calls: its separate compilation would take 0.1 s."""
    return njit(nogil=True, error_model="numpy", fastmath={"contract"}, inline="always")(function)


VECTORIZED_FLAGS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nnan", "nsz"},
}
"""Compiler flags of `vectorized`."""


def vectorized(function: Any) -> Any:
    """Compile for the disk cache, without the interpreter lock; results must not depend on NaNs."""
    return njit(cache=True, **VECTORIZED_FLAGS)(function)


def reassociating(function: Any) -> Any:
    """Compile for the disk cache, without the interpreter lock; sums may be reordered."""
    flags = {"contract", "reassoc", "nsz"}
    return njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function)


class _Poll(Listener):
    """Polls the clock of a call between the passes of numba's compiler."""

    def on_start(self, event: Any) -> None:
        poll_compilation()

    def on_end(self, event: Any) -> None:
        pass


class _Collection(Listener):
    """Keeps the garbage collector off during compilation."""

    def __init__(self) -> None:
        self.depth, self.collects = 0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()


if event is not None:
    event.register("numba:run_pass", _Poll())
    event.register("numba:compile", _Collection())


@numba.njit
def bits32(x: Any) -> Any:
    """Return the bits of a float32 as an integer."""
    return np.float32(x).view(np.int32)


@numba.njit
def from32(bits: Any) -> Any:
    """Return the float32 with these bits."""
    return np.int32(bits).view(np.float32)


@numba.njit
def bits64(x: Any) -> Any:
    """Return the bits of a float64 as an integer."""
    return np.float64(x).view(np.int64)


@numba.njit
def from64(bits: Any) -> Any:
    """Return the float64 with these bits."""
    return np.int64(bits).view(np.float64)


def _ctpop(context, word):  # type: ignore[no-untyped-def]
    """Count the bits of a 32-bit word: one instruction, or a few of them."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.int32(types.uint32), emit


def _plain_count(word: Any) -> Any:
    count = 0
    while word:
        word &= word - np.uint32(1)
        count += 1
    return count


count_bits: Any = with_plain_twin(_ctpop, _plain_count)
"""``count_bits(word)`` returns the number of set bits of a 32-bit word."""


def _drop_meminfo(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds = kind.types  # type: ignore[attr-defined]
        parts = zip(kinds, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(
            builder, kind, [_drop_meminfo(context, builder, *part) for part in parts]
        )
    return value


def _without_refcounts(context, arrays):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _drop_meminfo(context, builder, arrays, arguments[0])

    return arrays(arrays), emit


def _plain_identity(arrays: Any) -> Any:
    return arrays


without_refcounts: Any = with_plain_twin(_without_refcounts, _plain_identity)
"""``without_refcounts(arrays)`` returns an array, or a tuple with arrays, without reference counting.

Compiled code counts references to an array: two locked instructions for each slice, a sixth of the time
of a step over a thousand coordinates. The arrays must be arguments: the caller keeps them alive."""
