"""Two things that numba's loops do not become, written in vectors: products in registers, turned squares.

The compiler turns an inner loop into vector code, but it keeps no block of sums in registers over the
loop around it, and moves the numbers of a transpose one by one. Here both are written out in vectors of
LANES numbers of 32 bits, or half as many of 64; where registers are shorter the compiler splits them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from qpsvm.compiled import njit

LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8
"""Numbers of 32 bits in a vector."""

TILE = 64
"""Points of a tile, whose shape is (d, TILE)."""

GROUP = 8
"""Rows that are multiplied at a time."""


def _lanes(kind: Any) -> int:
    return LANES * 32 // int(kind.bitwidth)


def _place(builder: Any, array: Any, row: Any, column: Any, vector: Any) -> Any:
    """Return the address of a vector in a C-ordered matrix, from an entry on."""
    width = cgutils.unpack_tuple(builder, array.shape)[1]
    entry = builder.gep(array.data, [builder.add(builder.mul(row, width), column)])
    return builder.bitcast(entry, vector.as_pointer())


@intrinsic
def _multiply(context, few, i, tile, first, K):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        few, tile, K = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in (0, 2, 4)
        )
        i, first, index = arguments[1], arguments[3], arguments[1].type
        number, lanes = context.get_data_type(kind), _lanes(kind)
        vector, words = ir.VectorType(number, lanes), kind == types.uint32
        d = cgutils.unpack_tuple(builder, few.shape)[1]
        if words:
            kind_of_count = ir.FunctionType(vector, [vector])
            name = f"llvm.ctpop.v{lanes}i32"
            count = cgutils.get_or_insert_function(builder.module, kind_of_count, name)
        rows = [
            builder.gep(few.data, [builder.mul(builder.add(i, index(u)), d)]) for u in range(GROUP)
        ]
        none = ir.Constant(vector, ir.Undefined)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        nothing = ir.Constant(vector, [number(0)] * lanes)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(GROUP)]
        with cgutils.for_range(builder, d, intp=index) as loop:
            points = builder.load(_place(builder, tile, loop.index, first, vector), align=4)
            for row, total in zip(rows, sums, strict=True):
                own = builder.load(builder.gep(row, [loop.index]))
                own = builder.insert_element(none, own, ir.IntType(32)(0))
                own, before = builder.shuffle_vector(own, none, zeros), builder.load(total)
                if words:
                    more = builder.call(count, [builder.and_(own, points)])
                    builder.store(builder.add(before, more), total)
                else:
                    more = builder.fmul(own, points, flags=("contract",))
                    builder.store(builder.fadd(before, more, flags=("contract",)), total)
        result = ir.VectorType(context.get_data_type(K_type.dtype), lanes)
        for u, total in enumerate(sums):
            value = builder.load(total)
            if words:
                value = builder.uitofp(value, result)
            elif result != vector:
                value = builder.fpext(value, result)
            builder.store(value, _place(builder, K, index(u), first, result), align=4)
        return context.get_dummy_value()

    kind, K_type = few.dtype, K
    return types.void(few, types.intp, tile, types.intp, K), emit


def _plain_multiply(few: Any, i: int, tile: Any, first: int, K: Any) -> None:
    at = slice(first, first + LANES * 4 // few.itemsize)
    own, points = few[i : i + GROUP], tile[: few.shape[1], at]
    if few.dtype == np.uint32:
        common = (own[:, :, None] & points).astype(object)
        K[:, at] = np.vectorize(int.bit_count)(common).sum(axis=1)
    else:
        K[:, at] = own @ points


@intrinsic
def _turn_square(context, points, rows, k, tile, j):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        points, rows, tile = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in (0, 1, 3)
        )
        k, j, index, lanes = arguments[2], arguments[4], arguments[2].type, _lanes(kind)
        vector, places = (
            ir.VectorType(ir.IntType(bits), lanes) for bits in (int(kind.bitwidth), 32)
        )
        half, square = lanes // 2, []
        for u in range(lanes):
            row = builder.load(builder.gep(rows.data, [builder.add(j, index(u))]))
            square.append(builder.load(_place(builder, points, row, k, vector), align=4))
        mixed = [
            ir.Constant(places, [start + n // 2 + lanes * (n % 2) for n in range(lanes)])
            for start in (0, half)
        ]
        for _ in range(half.bit_length()):  # the first half of the rows between those of the second
            pairs = zip(square[:half], square[half:], strict=True)
            square = [builder.shuffle_vector(*pair, by) for pair in pairs for by in mixed]
        for u, column in enumerate(square):
            at = _place(builder, tile, builder.add(k, index(u)), j, vector)
            builder.store(column, at, align=4)
        return context.get_dummy_value()

    kind = points.dtype
    return types.void(points, rows, types.intp, tile, types.intp), emit


def _plain_turn_square(points: Any, rows: Any, k: int, tile: Any, j: int) -> None:
    lanes = LANES * 4 // points.itemsize
    part = points[rows[j : j + lanes], k : k + lanes]
    tile[k : k + part.shape[1], j : j + lanes] = part.T


@intrinsic
def _is_double(context, array):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return context.get_constant(types.boolean, double)

    double = array.dtype == types.float64
    return types.boolean(array), emit


def _plain_is_double(array: Any) -> bool:
    return bool(array.dtype == np.float64)


multiply: Any = _multiply
"""``multiply(few, i, tile, first, K)`` writes the inner products of GROUP rows of `few`, from row i on,
with a vector of points of the tile, from `first` on, to the same places of K, shape (GROUP, TILE). The
d terms are added one after the other; of words of 32 bits the bits in common are counted."""

turn_square: Any = _turn_square
"""``turn_square(points, rows, k, tile, j)`` writes as many numbers of as many points as a vector has,
from number k and the point rows_j on, to the tile from (k, j) on. They are read as one vector a row."""

is_double: Any = _is_double
"""Whether an array is of float64, known when a loop is compiled."""

if config.DISABLE_JIT:  # type: ignore[attr-defined]
    multiply, turn_square, is_double = _plain_multiply, _plain_turn_square, _plain_is_double


@njit(inline="always")  # compiled once, in the loop that calls it
def turn(points: Any, turned: bool, rows: Any, width: int, tile: Any) -> None:
    """Write the first `width` of the points `rows`, of which there are TILE, to a tile.

    `turned` says that the points lie feature by feature. The tile has room for d rounded up to whole
    vectors; beyond d there may be anything.
    """
    if turned:
        for k in range(len(points)):
            for j in range(width):
                tile[k, j] = points[k, rows[j]]
        return
    m, d = points.shape
    lanes, last = LANES * 4 // points.itemsize, 0
    for j in range(TILE):
        last = max(last, rows[j])
    for k in range(0, d, lanes):
        if last * d + k + lanes <= m * d:  # beyond its end a point is read on into the next
            for j in range(0, TILE, lanes):
                turn_square(points, rows, k, tile, j)
        else:
            for j in range(width):
                for n in range(k, min(k + lanes, d)):
                    tile[n, j] = points[rows[j], n]
