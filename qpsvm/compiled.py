"""numba, awake: with all that it loads before its first compiled function runs; and bits of numbers.

It makes some 300,000 objects then, all of which stay. Looking through them again and again for garbage
would take a fifth of the time to the first solve, so that the collector rests meanwhile.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np


def _awake() -> Any:
    """Return numba's decorator, once its registries are filled."""
    collects = gc.isenabled()
    gc.disable()
    try:
        import numba
        from numba.core.registry import cpu_target

        if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            cpu_target.target_context.refresh()
    finally:
        if collects:
            gc.enable()
    return numba.njit


njit = _awake()

from numba.core import cgutils, config, types  # noqa: E402
from numba.extending import intrinsic  # noqa: E402


def _reader(source: Any, target: Any) -> Any:
    """Return a function that reads the bits of a number as those of another type."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        kinds = {t: getattr(np, t.name) for t in (source, target)}
        return lambda x: kinds[source](x).view(kinds[target])

    @intrinsic
    def read(context, x):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), emit

    return read


bits32, from32 = _reader(types.float32, types.int32), _reader(types.int32, types.float32)
bits64, from64 = _reader(types.float64, types.int64), _reader(types.int64, types.float64)


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds = kind.types  # type: ignore[attr-defined]
        parts = zip(kinds, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(
            builder, kind, [_uncounted(context, builder, *part) for part in parts]
        )
    return value


@intrinsic
def _bare(context, arrays):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _uncounted(context, builder, arrays, arguments[0])

    return arrays(arrays), emit


bare: Any = (lambda arrays: arrays) if config.DISABLE_JIT else _bare  # type: ignore[attr-defined]
"""``bare(arrays)`` returns an array, or a tuple of arrays and other things, whose slices are not counted.

Compiled code counts references to an array, two locked instructions for each slice, which is a sixth
of a step over a thousand coordinates. The arrays must be arguments: the caller holds them meanwhile."""
