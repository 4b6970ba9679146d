"""The micro-kernel of CSR points: a row times a panel, sums in registers, then t or the kernel value.

An entry of the row costs a look-up of its place in the panel and a multiply-add for each vector of
points, whatever the number of features. See `qpsvm.gram.storage.sparse_panels`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import overload

from qpsvm.gram.engine.formula import Exponential, L1Exponential
from qpsvm.numerics import simd
from qpsvm.numerics.intrinsics import cgutils, with_plain_twin
from qpsvm.numerics.vector_shape import TILE_POINTS, VECTOR_LANES

MAX_SUM_VECTORS = 8
"""Maximum number of vectors of sums: as many fit the registers of AVX2 and of AVX-512."""


def points_at_once(itemsize: int) -> int:
    """Return the number of points of a tile that the micro-kernel multiplies at once, a part of it."""
    lanes = VECTOR_LANES * 4 // itemsize
    n_vectors = TILE_POINTS // lanes
    return lanes * max(n for n in range(1, MAX_SUM_VECTORS + 1) if n_vectors % n == 0)


POINTS_AT_ONCE_32, POINTS_AT_ONCE_64 = points_at_once(4), points_at_once(8)
"""The same for coordinates in float32 and in float64."""


def _sparse_row(  # type: ignore[no-untyped-def]
    context, data, numbers, start, stop, places, values, first, own, norm, factor, kernel_map, row
):
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data, numbers, places, values, norm, row = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 1, 4, 5, 8, 11)
        )
        start, stop, first, own, factor = (arguments[n] for n in (2, 3, 6, 7, 9))
        index, number = start.type, context.get_data_type(kind)
        vector = ir.VectorType(number, lanes)
        result = ir.VectorType(factor.type, lanes)
        nothing = ir.Constant(vector, [number(0)] * lanes)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(n_vectors)]
        for total in sums:
            builder.store(nothing, total)
        with cgutils.for_range_slice(builder, start, stop, index(1), intp=index) as (p, _):
            feature = builder.zext(builder.load(builder.gep(numbers.data, [p])), index)
            place = builder.zext(builder.load(builder.gep(places.data, [feature])), index)
            entry = simd.splat(builder, builder.load(builder.gep(data.data, [p])), lanes)
            at = builder.add(builder.mul(place, index(TILE_POINTS)), first)
            for k, total in enumerate(sums):
                there = builder.gep(values.data, [builder.add(at, index(k * lanes))])
                points = builder.load(builder.bitcast(there, vector.as_pointer()), align=4)
                before = builder.load(total)
                if of_distances:
                    summand = _common_part(builder, entry, points, nothing)
                    builder.store(builder.fadd(before, summand), total)
                else:
                    summand = builder.fmul(entry, points, flags=("contract",))
                    builder.store(builder.fadd(before, summand, flags=("contract",)), total)
        own, factor = (simd.splat(builder, number, lanes) for number in (own, factor))
        for k, total in enumerate(sums):
            at = builder.add(first, index(k * lanes))
            there = builder.gep(norm.data, [at])
            others = builder.load(builder.bitcast(there, result.as_pointer()), align=4)
            t = builder.fadd(own, others, flags=("contract",))
            summand = simd.to_float(builder, builder.load(total), result)
            summand = builder.fmul(factor, summand, flags=("contract",))
            t = builder.fadd(t, summand, flags=("contract",))
            if is_exponential:
                t = simd.exp2(builder, t, True)
            to = builder.gep(row.data, [at])
            builder.store(t, builder.bitcast(to, result.as_pointer()), align=4)
        return context.get_dummy_value()

    kind, lanes = data.dtype, simd.lanes_of(data.dtype)
    n_vectors = points_at_once(data.dtype.bitwidth // 8) // lanes
    of_distances = kernel_map.instance_class is L1Exponential
    is_exponential = kernel_map.instance_class in (Exponential, L1Exponential)
    whole = types.intp
    arguments = (data, numbers, whole, whole, places, values, whole, own, norm, factor)
    return types.void(*arguments, kernel_map, row), emit


def _common_part(builder: Any, a: Any, b: Any, zero: Any) -> Any:
    """Return |a - b| - |a| - |b|: twice the smaller absolute value of equal signs, negative; else 0."""

    def select(relation: str, x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered(relation, x, y), x, y)

    low = select(">", select("<", a, b), zero)  # both positive
    high = select("<", select(">", a, b), zero)  # both negative
    half = builder.fsub(high, low)
    return builder.fadd(half, half)


def _plain_sparse_row(
    data: Any,
    numbers: Any,
    start: int,
    stop: int,
    places: Any,
    values: Any,
    first: int,
    own: Any,
    norm: Any,
    factor: Any,
    kernel_map: Any,
    row: Any,
) -> None:
    n_points = POINTS_AT_ONCE_32 if data.itemsize == 4 else POINTS_AT_ONCE_64
    for j in range(first, first + n_points):
        total = data.dtype.type(0.0)
        for p in range(start, stop):
            total += _summand(data[p], values[places[numbers[p]], j], kernel_map)
        row[j] = _result((own + norm[j]) + factor * total, kernel_map)


def _summand(a: Any, b: Any, kernel_map: Any) -> Any:
    """Return the part of an inner product, or of an l1 distance beyond both norms."""
    return _SUMMAND_BY_DISTANCE[type(kernel_map) is L1Exponential](a, b, kernel_map)


def _result(t: Any, kernel_map: Any) -> Any:
    """Return what the micro-kernel writes: t or 2^t."""
    return _RESULT_BY_EXPONENTIAL[type(kernel_map) in (Exponential, L1Exponential)](t, kernel_map)


@overload(_summand, inline="always", strict=False)
def _summand_of_type(a, b, kernel_map):  # type: ignore[no-untyped-def]
    return _SUMMAND_BY_DISTANCE[kernel_map.instance_class is L1Exponential]


@overload(_result, inline="always", strict=False)
def _result_of_type(t, kernel_map):  # type: ignore[no-untyped-def]
    return _RESULT_BY_EXPONENTIAL[kernel_map.instance_class in (Exponential, L1Exponential)]


def _of_products(a, b, kernel_map):  # type: ignore[no-untyped-def]
    return a * b


def _of_distances(a, b, kernel_map):  # type: ignore[no-untyped-def]
    return abs(a - b) - abs(a) - abs(b)


def _exponent(t, kernel_map):  # type: ignore[no-untyped-def]
    return t


def _exponential(t, kernel_map):  # type: ignore[no-untyped-def]
    return 2.0 ** min(t, 0.0)


_SUMMAND_BY_DISTANCE = {False: _of_products, True: _of_distances}
_RESULT_BY_EXPONENTIAL = {False: _exponent, True: _exponential}

sparse_row: Any = with_plain_twin(_sparse_row, _plain_sparse_row)
"""``sparse_row(data, numbers, start, stop, places, values, first, own, norm, factor, kernel_map, row)``
writes entries of a row of kernel values.

It multiplies the entries from start to stop with the panel, for as many points from `first` on as
`points_at_once` says. An entry is t = (own + norm_j) + factor p, where the terms of p are added one
after the other, or 2^t for the exponential maps. p is the inner product, or the l1 distance minus both
norms."""
