"""What a step over a core does in vectors: find the partner, follow the pair, find the extremes.

The best so far of each lane is kept in two registers, its value and where its vector began, so that a
pass reads and writes each entry once. numba's loops do not become that: it takes integers that hold a
value and its place, with twice as many instructions. Arrays have LANES entries at least; the last vector
of a pass begins where a whole one is left, over entries that were looked at before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from qpsvm.numerics.intrinsics import cgutils, with_plain_twin
from qpsvm.numerics.simd import splat, vector_pointer
from qpsvm.numerics.vector_shape import HAS_AVX512, VECTOR_LANES

INT, SINGLE = ir.IntType(32), ir.FloatType()
VALUES, PLACES = ir.VectorType(SINGLE, VECTOR_LANES), ir.VectorType(INT, VECTOR_LANES)

MAY = ("contract",)
"""Products and sums may become one instruction."""


class _Best:
    """The greatest value so far of each lane, and where its vector began."""

    def __init__(self, builder: Any, least: float) -> None:
        self.builder, self.least = builder, ir.Constant(VALUES, [SINGLE(least)] * VECTOR_LANES)
        self.value = cgutils.alloca_once_value(builder, self.least)
        self.start = cgutils.alloca_once_value(builder, ir.Constant(PLACES, [0] * VECTOR_LANES))

    def look(self, value: Any, allowed: Any, start: Any) -> None:
        """Let a vector compete where it is allowed to."""
        builder, before = self.builder, self.builder.load(self.value)
        better = builder.and_(builder.fcmp_ordered(">", value, before), allowed)
        start = splat(builder, builder.trunc(start, INT), VECTOR_LANES)
        builder.store(builder.select(better, value, before), self.value)
        builder.store(builder.select(better, start, builder.load(self.start)), self.start)

    def where(self, index: Any) -> Any:
        """Return the place of the greatest, or -1 if nothing was greater than the least."""
        builder, half = self.builder, VECTOR_LANES // 2
        values = top = builder.load(self.value)
        while half:
            turned = ir.Constant(
                PLACES, [(lane + half) % VECTOR_LANES for lane in range(VECTOR_LANES)]
            )
            other, half = builder.shuffle_vector(top, top, turned), half // 2
            top = builder.select(builder.fcmp_ordered(">", other, top), other, top)
        hits = builder.bitcast(builder.fcmp_ordered("==", values, top), ir.IntType(VECTOR_LANES))
        lane = builder.zext(builder.cttz(hits, ir.IntType(1)(1)), INT)
        place = builder.add(builder.extract_element(builder.load(self.start), lane), lane)
        one, least = (builder.extract_element(v, INT(0)) for v in (top, self.least))
        found = builder.fcmp_ordered(">", one, least)
        return builder.select(found, builder.sext(place, index), index(-1))


def _vectors(builder: Any, length: Any, body: Callable[[Any, Any], None]) -> None:
    """Emit `body(start, fresh)` for all vectors of a length: `fresh` tells lanes not looked at yet."""
    size = length.type(VECTOR_LANES)
    left = builder.urem(length, size)
    every = ir.Constant(ir.VectorType(ir.IntType(1), VECTOR_LANES), [1] * VECTOR_LANES)
    with cgutils.for_range_slice(builder, size.type(0), builder.sub(length, left), size) as (k, _):
        body(k, every)
    with builder.if_then(builder.icmp_signed("!=", left, left.type(0))):
        lanes = ir.Constant(PLACES, list(range(VECTOR_LANES)))
        old = splat(builder, builder.trunc(builder.sub(size, left), INT), VECTOR_LANES)
        body(builder.sub(length, size), builder.icmp_signed(">=", lanes, old))


def _load(builder: Any, array: Any, start: Any, kind: Any) -> Any:
    """Return a vector as numbers of a kind."""
    at, vector = vector_pointer(builder, array, start, VECTOR_LANES)
    value, wanted = builder.load(at, align=1), ir.VectorType(kind, VECTOR_LANES)
    if isinstance(vector.element, ir.IntType):  # 16 bits without a sign
        return builder.sitofp(builder.zext(value, PLACES), wanted)
    return _cast(builder, value, wanted)


def _cast(builder: Any, value: Any, wanted: Any) -> Any:
    """Return a vector of one precision in another."""
    if value.type == wanted:
        return value
    wider = str(wanted.element) == "double"
    return (builder.fpext if wider else builder.fptrunc)(value, wanted)


def _free(builder: Any, array: Any, start: Any) -> Any:
    """Return where the bytes of a vector are 0."""
    at, vector = vector_pointer(builder, array, start, VECTOR_LANES)
    return builder.icmp_signed(
        "==", builder.load(at, align=1), ir.Constant(vector, [0] * VECTOR_LANES)
    )


def _quotient(builder: Any, a: Any, b: Any) -> Any:
    """Return a / b, to 14 bits where there is an instruction that is faster."""
    if not HAS_AVX512:
        return builder.fdiv(a, b)
    mask = ir.IntType(VECTOR_LANES)
    kind = ir.FunctionType(VALUES, [VALUES, VALUES, mask])
    name = "llvm.x86.avx512.rcp14.ps.512"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.fmul(a, builder.call(function, [b, b, mask(-1)]))


def _partner(context, row, side, own, rest, e, low, about):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, side, own, rest, e = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in range(5)
        )
        kind = context.get_data_type(side_type.dtype)
        numbers = cgutils.unpack_tuple(builder, arguments[6])
        own_i, factor, shift, tiny = (splat(builder, x, VECTOR_LANES) for x in numbers)
        low = splat(builder, arguments[5], VECTOR_LANES)
        best, nothing = _Best(builder, 0.0), ir.Constant(VALUES, [SINGLE(0.0)] * VECTOR_LANES)
        tiny = _cast(builder, tiny, VALUES)

        def look(start: Any, fresh: Any) -> None:
            apart = builder.fsub(_load(builder, e, start, SINGLE), low)
            more = builder.select(builder.fcmp_ordered(">", apart, nothing), apart, nothing)
            near = builder.fadd(_load(builder, row, start, kind), shift, flags=MAY)
            near = builder.fmul(
                builder.fmul(factor, _load(builder, side, start, kind)), near, flags=MAY
            )
            bend = builder.fadd(own_i, _load(builder, own, start, kind), flags=MAY)
            bend = _cast(builder, builder.fsub(bend, near, flags=MAY), VALUES)
            bend = builder.select(builder.fcmp_ordered(">", bend, tiny), bend, tiny)
            gain = _quotient(builder, builder.fmul(apart, more), bend)
            best.look(gain, _free(builder, rest, start), start)

        length = cgutils.unpack_tuple(builder, e.shape)[0]
        _vectors(builder, length, look)
        return best.where(length.type)

    side_type = side
    return types.intp(row, side, own, rest, e, low, about), emit


def _noting(context: Any, builder: Any, arrays: Any, follow: Any) -> Any:
    """Return where e is least among what can grow, and greatest among what can shrink."""
    e, stay, rest = arrays
    low, high = _Best(builder, -np.inf), _Best(builder, -np.inf)

    def look(start: Any, fresh: Any) -> None:
        value = follow(start, fresh)
        low.look(builder.fneg(value), _free(builder, stay, start), start)
        high.look(value, _free(builder, rest, start), start)

    length = cgutils.unpack_tuple(builder, e.shape)[0]
    _vectors(builder, length, look)
    places = [best.where(length.type) for best in (low, high)]
    return context.make_tuple(builder, types.UniTuple(types.intp, 2), places)


def _note(context, e, stay, rest):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        e, stay, rest = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in range(3)
        )
        return _noting(
            context, builder, (e, stay, rest), lambda start, fresh: _load(builder, e, start, SINGLE)
        )

    return types.UniTuple(types.intp, 2)(e, stay, rest), emit


def _follow(context, near, far, side, by, e, stay, rest):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        near, far, side, e, stay, rest = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 1, 2, 4, 5, 6)
        )
        kind = context.get_data_type(side_type.dtype)
        numbers = cgutils.unpack_tuple(builder, arguments[3])
        weight, turn, shift = (splat(builder, x, VECTOR_LANES) for x in numbers)

        def follow(start: Any, fresh: Any) -> Any:
            more = builder.fmul(turn, _load(builder, far, start, kind), flags=MAY)
            more = builder.fadd(_load(builder, near, start, kind), more, flags=MAY)
            more = builder.fmul(weight, builder.fadd(more, shift, flags=MAY))
            more = builder.fmul(_load(builder, side, start, kind), more, flags=MAY)
            before = _load(builder, e, start, SINGLE)
            value = builder.fadd(before, _cast(builder, more, VALUES), flags=MAY)
            value = builder.select(fresh, value, before)
            builder.store(value, vector_pointer(builder, e, start, VECTOR_LANES)[0], align=1)
            return value

        return _noting(context, builder, (e, stay, rest), follow)

    side_type = side
    return types.UniTuple(types.intp, 2)(near, far, side, by, e, stay, rest), emit


def _plain_partner(row: Any, side: Any, own: Any, rest: Any, e: Any, low: Any, about: Any) -> Any:
    own_i, factor, shift, least = about
    best, most = -1, 0.0
    for k in range(len(e)):
        apart = e[k] - low
        if rest[k] == 0 and apart > 0.0:
            bend = max(own_i + own[k] - factor * side[k] * (row[k] + shift), least)
            gain = float(apart) ** 2 / float(bend)
            if gain > most:
                best, most = k, gain
    return best


def _plain_note(e: Any, stay: Any, rest: Any) -> Any:
    low, high, least, greatest = -1, -1, np.inf, -np.inf
    for k in range(len(e)):
        if stay[k] == 0 and e[k] < least:
            low, least = k, e[k]
        if rest[k] == 0 and e[k] > greatest:
            high, greatest = k, e[k]
    return low, high


def _plain_follow(near: Any, far: Any, side: Any, by: Any, e: Any, stay: Any, rest: Any) -> Any:
    weight, turn, shift = by
    low, high, least, greatest = -1, -1, np.inf, -np.inf
    for k in range(len(e)):
        e[k] += side[k] * (weight * (near[k] + turn * side.dtype.type(far[k]) + shift))
        if stay[k] == 0 and e[k] < least:
            low, least = k, e[k]
        if rest[k] == 0 and e[k] > greatest:
            high, greatest = k, e[k]
    return low, high


partner: Any = with_plain_twin(_partner, _plain_partner)
"""``partner(row, side, own, rest, e, low, about)`` returns the coordinate with which a pair decreases the
value most, where `rest` is 0, or -1: by (e_k - low)^2 / curvature, but for a factor, to 14 bits. `about`
has own_i, a factor, the shift and the least curvature: own_i + own_k - factor side_k (row_k + shift)."""

note: Any = with_plain_twin(_note, _plain_note)
"""``note(e, stay, rest)`` returns where e is least among what does not stay, and greatest among what does
not rest; -1 for none."""

follow: Any = with_plain_twin(_follow, _plain_follow)
"""``follow(near, far, side, by, e, stay, rest)`` adds side (weight (near + turn far + shift)) to e, where
`by` is weight, turn and shift, and returns what `note` does then. Of entries with one sign the difference
is taken first."""
