"""SIMD kernels of the inner SMO: second index, gradient update, argextremes.

Each lane keeps its maximum so far in two registers, the value and the start of its vector, so that a pass
reads and writes each entry once. The auto-vectorizer needs integers that hold a value and its index
instead, with twice as many instructions. Arrays have at least VECTOR_LANES entries; the last vector of a
pass ends at the last entry, and overlaps the one before.
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

INT_32, FLOAT_32 = ir.IntType(32), ir.FloatType()
FLOAT_VECTOR, INT_VECTOR = (
    ir.VectorType(FLOAT_32, VECTOR_LANES),
    ir.VectorType(INT_32, VECTOR_LANES),
)

MAY_CONTRACT = ("contract",)
"""Products and sums may be contracted to multiply-adds."""


class _LaneMax:
    """The maximum so far of each lane, and the start of its vector."""

    def __init__(self, builder: Any, least: float) -> None:
        self.builder = builder
        self.least = ir.Constant(FLOAT_VECTOR, [FLOAT_32(least)] * VECTOR_LANES)
        self.value = cgutils.alloca_once_value(builder, self.least)
        self.start = cgutils.alloca_once_value(builder, ir.Constant(INT_VECTOR, [0] * VECTOR_LANES))

    def update_max(self, value: Any, allowed: Any, start: Any) -> None:
        """Update the maxima by a vector, where it is allowed."""
        builder, before = self.builder, self.builder.load(self.value)
        better = builder.and_(builder.fcmp_ordered(">", value, before), allowed)
        start = splat(builder, builder.trunc(start, INT_32), VECTOR_LANES)
        builder.store(builder.select(better, value, before), self.value)
        builder.store(builder.select(better, start, builder.load(self.start)), self.start)

    def argmax(self, index: Any) -> Any:
        """Return the index of the maximum over lanes, or -1 if no value exceeded the initial one."""
        builder, half = self.builder, VECTOR_LANES // 2
        values = top = builder.load(self.value)
        while half:
            rotation = ir.Constant(
                INT_VECTOR, [(lane + half) % VECTOR_LANES for lane in range(VECTOR_LANES)]
            )
            other, half = builder.shuffle_vector(top, top, rotation), half // 2
            top = builder.select(builder.fcmp_ordered(">", other, top), other, top)
        hits = builder.bitcast(builder.fcmp_ordered("==", values, top), ir.IntType(VECTOR_LANES))
        lane = builder.zext(builder.cttz(hits, ir.IntType(1)(1)), INT_32)
        index_32 = builder.add(builder.extract_element(builder.load(self.start), lane), lane)
        one, least = (builder.extract_element(v, INT_32(0)) for v in (top, self.least))
        found = builder.fcmp_ordered(">", one, least)
        return builder.select(found, builder.sext(index_32, index), index(-1))


def _for_each_vector(builder: Any, length: Any, body: Callable[[Any, Any], None]) -> None:
    """Emit `body(start, is_new)` for all vectors of a length; `is_new` masks lanes not visited before."""
    size = length.type(VECTOR_LANES)
    left = builder.urem(length, size)
    all_lanes = ir.Constant(ir.VectorType(ir.IntType(1), VECTOR_LANES), [1] * VECTOR_LANES)
    with cgutils.for_range_slice(builder, size.type(0), builder.sub(length, left), size) as (k, _):
        body(k, all_lanes)
    with builder.if_then(builder.icmp_signed("!=", left, left.type(0))):
        lanes = ir.Constant(INT_VECTOR, list(range(VECTOR_LANES)))
        old = splat(builder, builder.trunc(builder.sub(size, left), INT_32), VECTOR_LANES)
        body(builder.sub(length, size), builder.icmp_signed(">=", lanes, old))


def _load(builder: Any, array: Any, start: Any, kind: Any) -> Any:
    """Load a vector and convert it to floats of a kind."""
    at, vector = vector_pointer(builder, array, start, VECTOR_LANES)
    value, wanted = builder.load(at, align=1), ir.VectorType(kind, VECTOR_LANES)
    if isinstance(vector.element, ir.IntType):  # unsigned 16 bits
        return builder.sitofp(builder.zext(value, INT_VECTOR), wanted)
    return _cast(builder, value, wanted)


def _cast(builder: Any, value: Any, wanted: Any) -> Any:
    """Convert a vector of floats to another precision."""
    if value.type == wanted:
        return value
    wider = str(wanted.element) == "double"
    return (builder.fpext if wider else builder.fptrunc)(value, wanted)


def _is_zero(builder: Any, array: Any, start: Any) -> Any:
    """Return the mask of zero bytes of a vector."""
    at, vector = vector_pointer(builder, array, start, VECTOR_LANES)
    return builder.icmp_signed(
        "==", builder.load(at, align=1), ir.Constant(vector, [0] * VECTOR_LANES)
    )


def _quotient(builder: Any, a: Any, b: Any) -> Any:
    """Return a / b, to 14 bits where there is a faster instruction for it."""
    if not HAS_AVX512:
        return builder.fdiv(a, b)
    mask = ir.IntType(VECTOR_LANES)
    kind = ir.FunctionType(FLOAT_VECTOR, [FLOAT_VECTOR, FLOAT_VECTOR, mask])
    name = "llvm.x86.avx512.rcp14.ps.512"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.fmul(a, builder.call(function, [b, b, mask(-1)]))


def _second_index(context, row, side, diagonal, low_blocked, e, low, terms):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, side, diagonal, low_blocked, e = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in range(5)
        )
        kind = context.get_data_type(side_type.dtype)
        numbers = cgutils.unpack_tuple(builder, arguments[6])
        diagonal_i, factor, shift, tiny = (splat(builder, x, VECTOR_LANES) for x in numbers)
        low = splat(builder, arguments[5], VECTOR_LANES)
        best = _LaneMax(builder, 0.0)
        zero = ir.Constant(FLOAT_VECTOR, [FLOAT_32(0.0)] * VECTOR_LANES)
        tiny = _cast(builder, tiny, FLOAT_VECTOR)

        def update(start: Any, is_new: Any) -> None:
            difference = builder.fsub(_load(builder, e, start, FLOAT_32), low)
            is_positive = builder.fcmp_ordered(">", difference, zero)
            positive = builder.select(is_positive, difference, zero)
            entry = builder.fadd(_load(builder, row, start, kind), shift, flags=MAY_CONTRACT)
            weight = builder.fmul(factor, _load(builder, side, start, kind))
            entry = builder.fmul(weight, entry, flags=MAY_CONTRACT)
            diagonal_k = _load(builder, diagonal, start, kind)
            curvature = builder.fadd(diagonal_i, diagonal_k, flags=MAY_CONTRACT)
            curvature = builder.fsub(curvature, entry, flags=MAY_CONTRACT)
            curvature = _cast(builder, curvature, FLOAT_VECTOR)
            curvature = builder.select(builder.fcmp_ordered(">", curvature, tiny), curvature, tiny)
            gain = _quotient(builder, builder.fmul(difference, positive), curvature)
            best.update_max(gain, _is_zero(builder, low_blocked, start), start)

        length = cgutils.unpack_tuple(builder, e.shape)[0]
        _for_each_vector(builder, length, update)
        return best.argmax(length.type)

    side_type = side
    return types.intp(row, side, diagonal, low_blocked, e, low, terms), emit


def _emit_argextremes(context: Any, builder: Any, e: Any, flags: Any, value_at: Any) -> Any:
    """Emit a pass over the vectors of e, given by `value_at`, that returns the argextremes.

    `flags` are those blocked from I_up and from I_low, in turns where there are several groups.
    """
    best = [_LaneMax(builder, -np.inf) for _ in flags]

    def update(start: Any, is_new: Any) -> None:
        value = value_at(start, is_new)
        signed = builder.fneg(value), value
        for k, blocked in enumerate(flags):
            best[k].update_max(signed[k % 2], _is_zero(builder, blocked, start), start)

    length = cgutils.unpack_tuple(builder, e.shape)[0]
    _for_each_vector(builder, length, update)
    indices = [one.argmax(length.type) for one in best]
    return context.make_tuple(builder, types.UniTuple(types.intp, len(flags)), indices)


def _argextremes(context, e, up_blocked, low_blocked):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        e, up_blocked, low_blocked = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in range(3)
        )
        return _emit_argextremes(
            context,
            builder,
            e,
            (up_blocked, low_blocked),
            lambda start, is_new: _load(builder, e, start, FLOAT_32),
        )

    return types.UniTuple(types.intp, 2)(e, up_blocked, low_blocked), emit


def _update_gradient(context, row_i, row_j, side, coefficients, e, up_blocked, low_blocked):  # type: ignore[no-untyped-def]
    return _update(row_i, row_j, side, coefficients, e, up_blocked, low_blocked)


def _update_gradient_of_two(context, row_i, row_j, side, coefficients, e, up_0, low_0, up_1, low_1):  # type: ignore[no-untyped-def]
    return _update(row_i, row_j, side, coefficients, e, up_0, low_0, up_1, low_1)


def _update(row_i: Any, row_j: Any, side: Any, coefficients: Any, e: Any, *flags: Any) -> Any:
    """Return the signature and the code of an update, with the argextremes by all flags."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row_i, row_j, side, e, *flags = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in range(len(arguments))
            if n != 3
        )
        kind = context.get_data_type(signature.args[2].dtype)
        numbers = cgutils.unpack_tuple(builder, arguments[3])
        weight, factor, shift = (splat(builder, x, VECTOR_LANES) for x in numbers)

        def updated(start: Any, is_new: Any) -> Any:
            more = builder.fmul(factor, _load(builder, row_j, start, kind), flags=MAY_CONTRACT)
            more = builder.fadd(_load(builder, row_i, start, kind), more, flags=MAY_CONTRACT)
            more = builder.fmul(weight, builder.fadd(more, shift, flags=MAY_CONTRACT))
            more = builder.fmul(_load(builder, side, start, kind), more, flags=MAY_CONTRACT)
            before = _load(builder, e, start, FLOAT_32)
            value = builder.fadd(before, _cast(builder, more, FLOAT_VECTOR), flags=MAY_CONTRACT)
            value = builder.select(is_new, value, before)
            builder.store(value, vector_pointer(builder, e, start, VECTOR_LANES)[0], align=1)
            return value

        return _emit_argextremes(context, builder, e, flags, updated)

    arrays = row_i, row_j, side, coefficients, e, *flags
    return types.UniTuple(types.intp, len(flags))(*arrays), emit


def _plain_second_index(
    row: Any, side: Any, diagonal: Any, low_blocked: Any, e: Any, low: Any, terms: Any
) -> Any:
    diagonal_i, factor, shift, least = terms
    best, most = -1, 0.0
    for k in range(len(e)):
        difference = e[k] - low
        if low_blocked[k] == 0 and difference > 0.0:
            curvature = max(diagonal_i + diagonal[k] - factor * side[k] * (row[k] + shift), least)
            gain = float(difference) ** 2 / float(curvature)
            if gain > most:
                best, most = k, gain
    return best


def _plain_argextremes(e: Any, up_blocked: Any, low_blocked: Any) -> Any:
    low, high, least, greatest = -1, -1, np.inf, -np.inf
    for k in range(len(e)):
        if up_blocked[k] == 0 and e[k] < least:
            low, least = k, e[k]
        if low_blocked[k] == 0 and e[k] > greatest:
            high, greatest = k, e[k]
    return low, high


def _plain_update_gradient(
    row_i: Any, row_j: Any, side: Any, coefficients: Any, e: Any, up_blocked: Any, low_blocked: Any
) -> Any:
    weight, factor, shift = coefficients
    low, high, least, greatest = -1, -1, np.inf, -np.inf
    for k in range(len(e)):
        e[k] += side[k] * (weight * (row_i[k] + factor * side.dtype.type(row_j[k]) + shift))
        if up_blocked[k] == 0 and e[k] < least:
            low, least = k, e[k]
        if low_blocked[k] == 0 and e[k] > greatest:
            high, greatest = k, e[k]
    return low, high


def _plain_update_gradient_of_two(
    row_i: Any,
    row_j: Any,
    side: Any,
    coefficients: Any,
    e: Any,
    up_0: Any,
    low_0: Any,
    up_1: Any,
    low_1: Any,
) -> Any:
    weight, factor, shift = coefficients
    least, greatest = np.full(2, np.inf), np.full(2, -np.inf)
    low, high = np.full(2, -1), np.full(2, -1)
    for k in range(len(e)):
        e[k] += side[k] * (weight * (row_i[k] + factor * side.dtype.type(row_j[k]) + shift))
        for g in range(2):
            if (up_0[k] if g == 0 else up_1[k]) == 0 and e[k] < least[g]:
                low[g], least[g] = k, e[k]
            if (low_0[k] if g == 0 else low_1[k]) == 0 and e[k] > greatest[g]:
                high[g], greatest[g] = k, e[k]
    return low[0], high[0], low[1], high[1]


second_index: Any = with_plain_twin(_second_index, _plain_second_index)
"""``second_index(row, side, diagonal, low_blocked, e, low, terms)`` returns the second coordinate or -1.

It is in I_low and maximizes (e_k - low)^2 / curvature, the decrease of the value up to a factor, to 14
bits. `terms` holds diagonal_i, a factor, the shift and the least curvature; the curvature is
diagonal_i + diagonal_k - factor side_k (row_k + shift)."""

argextremes: Any = with_plain_twin(_argextremes, _plain_argextremes)
"""``argextremes(e, up_blocked, low_blocked)`` returns the index of the minimum of e over I_up and that of
the maximum over I_low; -1 where the set is empty."""

update_gradient: Any = with_plain_twin(_update_gradient, _plain_update_gradient)
"""``update_gradient(row_i, row_j, side, coefficients, e, up_blocked, low_blocked)`` adds a pair step.

It adds side (weight (row_i + factor row_j + shift)), where `coefficients` are weight, factor and shift,
and returns the `argextremes`. For a factor of -1 the difference of the rows is taken first."""

update_gradient_of_two: Any = with_plain_twin(
    _update_gradient_of_two, _plain_update_gradient_of_two
)
"""``update_gradient_of_two(row_i, row_j, side, coefficients, e, up_0, low_0, up_1, low_1)`` does the
same and returns the `argextremes` of two groups, by the flags of each."""
