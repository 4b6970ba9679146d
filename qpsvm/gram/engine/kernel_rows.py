"""The micro-kernel of all columns: inner products of a group of rows with a panel of points, and t.

Sums stay in registers over the features. For the exponential maps the kernel value follows at once; for
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
from qpsvm.numerics.vector_shape import (
    GROUP_ROWS,
    HAS_BYTE_DOT,
    PANEL_VECTORS,
    TILE_POINTS,
)


def _kernel_rows(context, row_points, i, tile, panel, a, norm, factor, kernel_map, K):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row_points, tile, a, norm, K = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 2, 4, 5, 8)
        )
        i, panel, index = arguments[1], arguments[3], arguments[1].type
        sums = _products(context, builder, row_points, i, tile, panel, kind, of_distances)
        result = ir.VectorType(arguments[6].type, lanes)
        terms = ir.VectorType(context.get_data_type(norm_type.dtype), lanes)
        factor = simd.splat(builder, arguments[6], lanes)
        start = builder.mul(panel, index(PANEL_VECTORS * lanes))
        with cgutils.for_range(builder, index(GROUP_ROWS), intp=index) as loop:
            own = builder.load(builder.gep(a.data, [builder.add(i, loop.index)]))
            own = simd.splat(builder, own, lanes)
            for v in range(PANEL_VECTORS):
                first = builder.add(start, index(v * lanes))
                at = builder.bitcast(builder.gep(norm.data, [first]), terms.as_pointer())
                others = builder.load(at, align=4)
                place = builder.add(builder.mul(loop.index, index(PANEL_VECTORS)), index(v))
                total = builder.load(builder.gep(sums, [place]))
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
                at = simd.matrix_pointer(builder, K, loop.index, first, result)
                builder.store(t, at, align=4)
        return context.get_dummy_value()

    kind, lanes, norm_type = row_points.dtype, simd.lanes_of(row_points.dtype), norm
    of_distances = kernel_map.instance_class is L1Exponential
    is_exponential = kernel_map.instance_class in (Exponential, L1Exponential)
    signature = types.void(row_points, types.intp, tile, types.intp, a, norm, factor, kernel_map, K)
    return signature, emit


def _products(
    context: Any, builder: Any, row_points: Any, i: Any, tile: Any, panel: Any, kind: Any, l1: bool
) -> Any:
    """Return a pointer to the products of GROUP_ROWS rows with the vectors of a panel, row by row."""
    number, lanes, index = context.get_data_type(kind), simd.lanes_of(kind), i.type
    vector = ir.VectorType(number, lanes)
    d = cgutils.unpack_tuple(builder, row_points.shape)[1]
    depth = cgutils.unpack_tuple(builder, tile.shape)[1]
    rows = [
        builder.gep(row_points.data, [builder.mul(builder.add(i, index(u)), d)])
        for u in range(GROUP_ROWS)
    ]
    first = builder.mul(builder.mul(panel, depth), index(PANEL_VECTORS * lanes))
    first = builder.bitcast(builder.gep(tile.data, [first]), vector.as_pointer())
    found = cgutils.alloca_once(builder, vector, size=GROUP_ROWS * PANEL_VECTORS)
    at_once = _vectors_at_once(kind, l1)
    for start in range(0, PANEL_VECTORS, at_once):
        sums = _sums_in_registers(
            builder, rows, builder.gep(first, [index(start)]), d, at_once, kind, l1
        )
        for u, row_sums in enumerate(sums):
            for v, total in enumerate(row_sums):
                place = index(u * PANEL_VECTORS + start + v)
                builder.store(builder.load(total), builder.gep(found, [place]))
    return found


def _sums_in_registers(
    builder: Any, rows: list[Any], panel: Any, d: Any, n_vectors: int, kind: Any, l1: bool
) -> list[list[Any]]:
    """Return the variables of the sums over the features, of each row with the first vectors."""
    vector, index = panel.type.pointee, d.type
    nothing = ir.Constant(vector, [vector.element(0)] * vector.count)
    sums = [
        [cgutils.alloca_once(builder, vector) for _ in range(n_vectors)] for _ in range(len(rows))
    ]
    for total in [total for row_sums in sums for total in row_sums]:
        builder.store(nothing, total)  # in each pass: numba initializes a variable only once
    with cgutils.for_range(builder, d, intp=index) as loop:
        at = builder.mul(loop.index, index(PANEL_VECTORS))
        points = [
            builder.load(builder.gep(panel, [builder.add(at, index(v))]), align=4)
            for v in range(n_vectors)
        ]
        for row, row_sums in zip(rows, sums, strict=True):
            own = builder.load(builder.gep(row, [loop.index]))
            own = simd.splat(builder, own, vector.count)
            for those, total in zip(points, row_sums, strict=True):
                builder.store(_sum_of(builder, kind, l1, builder.load(total), own, those), total)
    return sums


def _vectors_at_once(kind: Any, l1: bool) -> int:
    """Return the number of vectors whose sums one pass over the features has in registers.

    Counts of bits, products of bytes and distances need further registers for masks and parts.
    """
    return PANEL_VECTORS if isinstance(kind, types.Float) and not l1 else 1


def _sum_of(builder: Any, kind: Any, l1: bool, before: Any, own: Any, points: Any) -> Any:
    """Return the sum with the product, or distance, of one feature."""
    if kind == types.uint32:
        common = simd.call_intrinsic(builder, "llvm.ctpop", builder.and_(own, points))
        return builder.add(before, common)
    if kind == types.int32:
        return _dot_of_bytes(builder, before, points, own)
    if l1:
        distance = simd.call_intrinsic(builder, "llvm.fabs", builder.fsub(own, points))
        return builder.fadd(before, distance)
    product = builder.fmul(own, points, flags=("contract",))
    return builder.fadd(before, product, flags=("contract",))


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
    panel: int,
    a: Any,
    norm: Any,
    factor: Any,
    kernel_map: Any,
    K: Any,
) -> None:
    width = tile.shape[2]
    for u in range(GROUP_ROWS):
        for j in range(width):
            own, at = row_points[i + u], panel * width + j
            K[u, at] = _value(own, tile[panel], j, a[i + u], norm[at], factor, kernel_map)


def _weighted_sum(context, K, x, n, i, total):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        K, x, total = (
            context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 1, 4)
        )
        n, i = arguments[2], arguments[3]
        index = i.type
        vector = ir.VectorType(context.get_data_type(kind), lanes)
        wide = ir.VectorType(context.get_data_type(total_type.dtype), lanes)
        m = cgutils.unpack_tuple(builder, x.shape)[1]
        at = builder.add(builder.mul(n, m), i)
        weights = [
            simd.splat(
                builder, builder.load(builder.gep(x.data, [builder.add(at, index(u))])), lanes
            )
            for u in range(GROUP_ROWS)
        ]
        with cgutils.for_range(builder, index(TILE_POINTS // lanes), intp=index) as loop:
            j = builder.mul(loop.index, index(lanes))
            partial = None
            for u, weight in enumerate(weights):
                row = builder.load(simd.matrix_pointer(builder, K, index(u), j, vector), align=4)
                product = builder.fmul(weight, row, flags=("contract",))
                partial = (
                    product
                    if partial is None
                    else builder.fadd(partial, product, flags=("contract",))
                )
            place = simd.matrix_pointer(builder, total, n, j, wide)
            partial = simd.to_float(builder, partial, wide)
            builder.store(builder.fadd(builder.load(place, align=4), partial), place, align=4)
        return context.get_dummy_value()

    kind, lanes, total_type = K.dtype, simd.lanes_of(K.dtype), total
    return types.void(K, x, types.intp, types.intp, total), emit


def _plain_weighted_sum(K: Any, x: Any, n: int, i: int, total: Any) -> None:
    for j in range(TILE_POINTS):
        partial = x[n, i] * K[0, j]
        for u in range(1, GROUP_ROWS):
            partial += x[n, i + u] * K[u, j]
        total[n, j] += partial


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
    table = _VALUE_BY_KIND if map_type is Exponential else _EXPONENT_BY_KIND
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


_EXPONENT_BY_KIND = {"f": _exponent_of_numbers, "u": _exponent_of_words}
_VALUE_BY_KIND = {"f": _value_of_numbers, "u": _value_of_words, "i": _value_of_bytes}

kernel_rows: Any = with_plain_twin(_kernel_rows, _plain_kernel_rows)
"""``kernel_rows(row_points, i, tile, panel, a, norm, factor, kernel_map, K)`` writes entries of K.

It evaluates GROUP_ROWS rows of `row_points`, from i on, with a panel of the tile, and writes them to
the panel's columns of K, shape (GROUP_ROWS, TILE_POINTS). An entry is
t = (a_i + norm_j) + factor p, where the d terms of p are added one after the other, or 2^t for the
exponential maps. p is the inner product, or the l1 distance for L1Exponential; for unsigned words it is
their number of common bits. Signed words are four bytes each, signed ones in `row_points` and unsigned
ones in the tile; t is then factor (a_i + norm_j - 2 p)."""

weighted_sum: Any = with_plain_twin(_weighted_sum, _plain_weighted_sum)
"""``weighted_sum(K, x, n, i, total)`` adds the sum of K's rows by the weights x_n from i on to total_n.

The GROUP_ROWS terms are added one after the other in the precision of K, and their sum to `total`."""
