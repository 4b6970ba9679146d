"""The micro-kernel of all columns: inner products of a group of rows with a vector of points, and t.

Sums stay in registers over the features. For the exponential maps the kernel value is computed there; for
other maps t is stored, and `maps.apply_map` replaces it while it is in the first-level cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import overload

from qpsvm.gram.engine.formula import Exponential, L1Exponential
from qpsvm.numerics import simd
from qpsvm.numerics.intrinsics import cgutils, with_plain_twin
from qpsvm.numerics.jit import count_bits
from qpsvm.numerics.vector_shape import GROUP_ROWS, HAS_BYTE_DOT, VECTOR_LANES


def _kernel_rows(context, row_points, i, tile, first, a, norm, factor, kernel_map, K):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row_points, tile, a, norm, K = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 2, 4, 5, 8)
        )
        i, first, index = arguments[1], arguments[3], arguments[1].type
        result = ir.VectorType(arguments[6].type, lanes)
        sums = _products(context, builder, row_points, i, tile, first, kind, of_distances)
        factor = simd.splat(builder, arguments[6], lanes)
        terms = ir.VectorType(context.get_data_type(norm_type.dtype), lanes)
        at = builder.bitcast(builder.gep(norm.data, [first]), terms.as_pointer())
        others = builder.load(at, align=4)
        for u, total in enumerate(sums):
            own = builder.load(builder.gep(a.data, [builder.add(i, index(u))]))
            own = simd.splat(builder, own, lanes)
            if kind == types.int32:
                gap = builder.sub(builder.add(own, others), builder.add(total, total))
                t = builder.fmul(factor, builder.sitofp(gap, result))
            else:
                t = builder.fadd(own, others, flags=("contract",))
                summand = simd.to_float(builder, total, result)
                summand = builder.fmul(factor, summand, flags=("contract",))
                t = builder.fadd(t, summand, flags=("contract",))
            if is_exponential:
                t = simd.exp2(builder, t, kind != types.int32)
            builder.store(t, simd.matrix_pointer(builder, K, index(u), first, result), align=4)
        return context.get_dummy_value()

    kind, lanes, norm_type = row_points.dtype, simd.lanes_of(row_points.dtype), norm
    of_distances = kernel_map.instance_class is L1Exponential
    is_exponential = kernel_map.instance_class in (Exponential, L1Exponential)
    signature = types.void(row_points, types.intp, tile, types.intp, a, norm, factor, kernel_map, K)
    return signature, emit


def _products(
    context: Any, builder: Any, row_points: Any, i: Any, tile: Any, first: Any, kind: Any, l1: bool
) -> list[Any]:
    """Return the products of GROUP_ROWS rows with a vector of points, summed in registers."""
    number, lanes, index = context.get_data_type(kind), simd.lanes_of(kind), i.type
    vector = ir.VectorType(number, lanes)
    d = cgutils.unpack_tuple(builder, row_points.shape)[1]
    rows = [
        builder.gep(row_points.data, [builder.mul(builder.add(i, index(u)), d)])
        for u in range(GROUP_ROWS)
    ]
    nothing = ir.Constant(vector, [number(0)] * lanes)
    sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(GROUP_ROWS)]
    with cgutils.for_range(builder, d, intp=index) as loop:
        points = builder.load(
            simd.matrix_pointer(builder, tile, loop.index, first, vector), align=4
        )
        for row, total in zip(rows, sums, strict=True):
            own = builder.load(builder.gep(row, [loop.index]))
            own = simd.splat(builder, own, lanes)
            before = builder.load(total)
            if kind == types.uint32:
                summand = simd.call_intrinsic(builder, "llvm.ctpop", builder.and_(own, points))
                builder.store(builder.add(before, summand), total)
            elif kind == types.int32:
                builder.store(_dot_of_bytes(builder, before, points, own), total)
            elif l1:
                summand = simd.call_intrinsic(builder, "llvm.fabs", builder.fsub(own, points))
                builder.store(builder.fadd(before, summand), total)
            else:
                summand = builder.fmul(own, points, flags=("contract",))
                builder.store(builder.fadd(before, summand, flags=("contract",)), total)
    return [builder.load(total) for total in sums]


def _dot_of_bytes(builder: Any, before: Any, points: Any, own: Any) -> Any:
    """Add, for each word, the products of four unsigned bytes with four signed ones."""
    kind = before.type
    if HAS_BYTE_DOT and kind.count == 16:
        function = ir.FunctionType(kind, [kind] * 3)
        name = "llvm.x86.avx512.vpdpbusd.512"
        call = cgutils.get_or_insert_function(builder.module, function, name)
        return builder.call(call, [before, points, own])
    halves = ir.VectorType(ir.IntType(16), 2 * kind.count)
    eight = ir.Constant(halves, [8] * halves.count)
    low = ir.Constant(halves, [255] * halves.count)
    points, own = builder.bitcast(points, halves), builder.bitcast(own, halves)
    even = builder.and_(points, low), builder.ashr(builder.shl(own, eight), eight)
    odd = builder.lshr(points, eight), builder.ashr(own, eight)
    products_type = ir.VectorType(ir.IntType(32), halves.count)
    for a, b in (even, odd):  # compilers combine these into one instruction
        product = builder.mul(builder.sext(a, products_type), builder.sext(b, products_type))
        for start in (0, 1):
            lane_indices = ir.Constant(kind, list(range(start, halves.count, 2)))
            before = builder.add(before, builder.shuffle_vector(product, product, lane_indices))
    return before


def _plain_kernel_rows(
    row_points: Any,
    i: int,
    tile: Any,
    first: int,
    a: Any,
    norm: Any,
    factor: Any,
    kernel_map: Any,
    K: Any,
) -> None:
    for u in range(GROUP_ROWS):
        for j in range(first, first + VECTOR_LANES * 4 // row_points.itemsize):
            K[u, j] = _value(row_points[i + u], tile, j, a[i + u], norm[j], factor, kernel_map)


def _value(own: Any, tile: Any, j: int, a: Any, norm: Any, factor: Any, kernel_map: Any) -> Any:
    """Return one entry, as `kernel_rows` does."""
    return _evaluation(own.dtype.kind, type(kernel_map))(own, tile, j, a, norm, factor, kernel_map)


@overload(_value, inline="always", strict=False)
def _value_of_type(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    """Choose by the types of points and map: a branch in compiled code would have to type both sides."""
    kind = "f" if isinstance(own.dtype, types.Float) else "i" if own.dtype.signed else "u"
    return _evaluation(kind, kernel_map.instance_class)


def _evaluation(kind: str, map_type: type) -> Any:
    if map_type is L1Exponential:
        return _l1_exponential
    table = _EXPONENTIALS if map_type is Exponential else _EXPONENTS
    return table[kind]


def _exponent_of_numbers(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    product = own.dtype.type(0.0)
    for k in range(len(own)):
        product += own[k] * tile[k, j]
    return (a + norm) + factor * product


def _exponent_of_words(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    n_common = 0
    for k in range(len(own)):
        n_common += count_bits(own[k] & tile[k, j])
    return (a + norm) + factor * n_common


def _value_of_numbers(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    product = own.dtype.type(0.0)
    for k in range(len(own)):
        product += own[k] * tile[k, j]
    return 2.0 ** min((a + norm) + factor * product, 0.0)


def _value_of_words(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    n_common = 0
    for k in range(len(own)):
        n_common += count_bits(own[k] & tile[k, j])
    return 2.0 ** min((a + norm) + factor * n_common, 0.0)


def _value_of_bytes(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    product = np.int64(0)
    for k in range(len(own)):
        for shift in (0, 8, 16, 24):
            byte = (np.int64(own[k]) >> shift) & 255
            product += (byte - 256 * (byte >> 7)) * ((np.int64(tile[k, j]) >> shift) & 255)
    return 2.0 ** (factor * (a + norm - 2 * product))


def _l1_exponential(own, tile, j, a, norm, factor, kernel_map):  # type: ignore[no-untyped-def]
    distance = own.dtype.type(0.0)
    for k in range(len(own)):
        distance += abs(own[k] - tile[k, j])
    return 2.0 ** ((a + norm) + factor * distance)


_EXPONENTS = {"f": _exponent_of_numbers, "u": _exponent_of_words}
_EXPONENTIALS = {"f": _value_of_numbers, "u": _value_of_words, "i": _value_of_bytes}

kernel_rows: Any = with_plain_twin(_kernel_rows, _plain_kernel_rows)
"""``kernel_rows(row_points, i, tile, first, a, norm, factor, kernel_map, K)`` writes entries of K.

It evaluates GROUP_ROWS rows of `row_points`, from i on, with a vector of points of the tile, from `first`
on, and writes them from column `first` of K on, shape (GROUP_ROWS, TILE_POINTS). An entry is
t = (a_i + norm_j) + factor p, where the d terms of p are added one after the other, or 2^t for the
exponential maps. p is the inner product, or the l1 distance for L1Exponential; for unsigned words it is
their number of common bits. Signed words are four bytes each, signed ones in `row_points` and unsigned
ones in the tile; t is then factor (a_i + norm_j - 2 p)."""
