"""What numba's loops do not become, written in vectors: values in registers, turned squares, filled gaps.

The compiler turns an inner loop into vector code, but it keeps no block of sums in registers over the
loop around it, and moves the numbers of a transpose, or those into the gaps of a row, one by one. Here
these are written out in vectors of LANES numbers of 32 bits, or half as many of 64; where registers are
shorter the compiler splits them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from qpsvm.numerics import simd_plain as plain_lanes
from qpsvm.numerics.exp2 import (
    C32,
    C64,
    LEAST32,
    LEAST64,
    ROUND32,
    ROUND64,
)
from qpsvm.numerics.intrinsics import cgutils, with_plain_twin
from qpsvm.numerics.jit import njit
from qpsvm.numerics.vector_shape import LANES, TILE, WIDE


def lanes_of(kind: Any) -> int:
    """Return how many numbers of a type a vector has."""
    return LANES * 32 // int(kind.bitwidth)


def place(builder: Any, array: Any, row: Any, column: Any, vector: Any) -> Any:
    """Return the address of a vector in a C-ordered matrix, from an entry on."""
    width = cgutils.unpack_tuple(builder, array.shape)[1]
    entry = builder.gep(array.data, [builder.add(builder.mul(row, width), column)])
    return builder.bitcast(entry, vector.as_pointer())


def place_lanes(builder: Any, array: Any, start: Any, lanes: int) -> tuple[Any, Any]:
    """Return the address of a vector of an array, from an entry on, and its type."""
    entry = builder.gep(array.data, [start])
    vector = ir.VectorType(entry.type.pointee, lanes)
    return builder.bitcast(entry, vector.as_pointer()), vector


def spread_lanes(builder: Any, number: Any, lanes: int) -> Any:
    """Return a vector of one number."""
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    none = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    one = builder.insert_element(none, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, none, zeros)


def number(builder: Any, value: Any, kind: Any) -> Any:
    """Return counts or numbers in the precision of `kind`, which is no less."""
    if isinstance(value.type.element, ir.IntType):
        return builder.uitofp(value, kind)
    return value if value.type == kind else builder.fpext(value, kind)


def call(builder: Any, name: str, value: Any) -> Any:
    """Return what LLVM's function of a vector gives, which is of the same type."""
    function = ir.FunctionType(value.type, [value.type])
    name = _name(name, value.type)
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), [value])


def _name(name: str, vector: Any) -> str:
    """Return the name of LLVM's function for a type of vectors."""
    element = vector.element
    kind = f"i{element.width}" if isinstance(element, ir.IntType) else _FLOATS[str(element)]
    return f"{name}.v{vector.count}{kind}"


_FLOATS = {"float": "f32", "double": "f64"}


def exp2(builder: Any, t: Any, bounded: bool) -> Any:
    """Return 2^t of a vector as `exponential` does, but with instructions that round and scale.

    Where t is known to be finite and at most 0 these need no bounds: scaled too far, values become 0.
    """
    kind, lanes = t.type, t.type.count
    single = str(kind.element) == "float"
    least, series = (LEAST32, C32) if single else (LEAST64, C64)

    def constant(c: Any) -> Any:
        return ir.Constant(kind, [kind.element(float(c))] * lanes)

    if bounded or not WIDE:
        for bound, right in ((constant(0.0), "<"), (constant(least), ">")):
            t = builder.select(builder.fcmp_ordered(right, t, bound), t, bound)
    if WIDE:
        n = call(builder, "llvm.rint", t)
        return _scaled(builder, _series(builder, builder.fsub(t, n), series), n)
    bits, up = (32, 23) if single else (64, 52)
    whole, far = ir.VectorType(ir.IntType(bits), lanes), constant(ROUND32 if single else ROUND64)
    n = builder.fadd(t, far)  # its lowest bits are the integer's
    p = _series(builder, builder.fsub(t, builder.fsub(n, far)), series)
    power = builder.shl(builder.bitcast(n, whole), ir.Constant(whole, [up] * lanes))
    return builder.bitcast(builder.add(builder.bitcast(p, whole), power), kind)


def _series(builder: Any, f: Any, coefficients: Any) -> Any:
    """Return 1 + c_0 f + c_1 f^2 + ..."""
    p: Any = None
    for c in (*coefficients[::-1], 1.0):
        c = ir.Constant(f.type, [f.type.element(float(c))] * f.type.count)
        more = p and builder.fmul(p, f, flags=("contract",))
        p = builder.fadd(more, c, flags=("contract",)) if p else c
    return p


def _scaled(builder: Any, p: Any, n: Any) -> Any:
    """Return p 2^n by the instruction for it, of vectors of 512 bits."""
    single = str(p.type.element) == "float"
    lanes, name = (16, "ps") if single else (8, "pd")
    kind, mask, way = ir.VectorType(p.type.element, lanes), ir.IntType(lanes), ir.IntType(32)
    function = ir.FunctionType(kind, [kind, kind, kind, mask, way])
    name = f"llvm.x86.avx512.mask.scalef.{name}.512"
    scalef = cgutils.get_or_insert_function(builder.module, function, name)
    parts = []
    for start in range(0, p.type.count, lanes):
        some = ir.Constant(ir.VectorType(way, lanes), list(range(start, start + lanes)))
        a, b = (builder.shuffle_vector(v, v, some) for v in (p, n))
        parts.append(builder.call(scalef, [a, b, a, mask(-1), way(4)]))
    if len(parts) == 1:
        return parts[0]
    both = ir.Constant(ir.VectorType(way, 2 * lanes), list(range(2 * lanes)))
    return builder.shuffle_vector(*parts, both)


def _turn_square(context, points, rows, k, tile, j):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        points, rows, tile = (
            context.make_array(signature.args[n])(context, builder, arguments[n]) for n in (0, 1, 3)
        )
        k, j, index, lanes = arguments[2], arguments[4], arguments[2].type, lanes_of(kind)
        vector, places = (
            ir.VectorType(ir.IntType(bits), lanes) for bits in (int(kind.bitwidth), 32)
        )
        half, square = lanes // 2, []
        for u in range(lanes):
            row = builder.load(builder.gep(rows.data, [builder.add(j, index(u))]))
            square.append(builder.load(place(builder, points, row, k, vector), align=4))
        mixed = [
            ir.Constant(places, [start + n // 2 + lanes * (n % 2) for n in range(lanes)])
            for start in (0, half)
        ]
        for _ in range(half.bit_length()):  # the first half of the rows between those of the second
            pairs = zip(square[:half], square[half:], strict=True)
            square = [builder.shuffle_vector(*pair, by) for pair in pairs for by in mixed]
        for u, column in enumerate(square):
            at = place(builder, tile, builder.add(k, index(u)), j, vector)
            builder.store(column, at, align=4)
        return context.get_dummy_value()

    kind = points.dtype
    return types.void(points, rows, types.intp, tile, types.intp), emit


def _expand(context, row, gaps, j, spare, k, out):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, gaps, spare, out = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 1, 3, 5)
        )
        j, k, align = arguments[2], arguments[4], kind.bitwidth // 8
        own, vector = place_lanes(builder, row, j, lanes)
        marks, flags = place_lanes(builder, gaps, j, lanes)
        own, marks = builder.load(own, align=align), builder.load(marks, align=1)
        marks = builder.icmp_unsigned("!=", marks, ir.Constant(flags, [0] * lanes))
        first = builder.gep(spare.data, [k])
        function = ir.FunctionType(vector, [first.type, marks.type, vector])
        name = _name("llvm.masked.expandload", vector)
        load = cgutils.get_or_insert_function(builder.module, function, name)
        filled = builder.call(load, [first, marks, own])
        builder.store(filled, place_lanes(builder, out, j, lanes)[0], align=align)
        taken = builder.ctpop(builder.bitcast(marks, ir.IntType(lanes)))
        return builder.add(k, builder.zext(taken, k.type))

    kind, lanes = row.dtype, lanes_of(row.dtype)
    return types.intp(row, gaps, types.intp, spare, types.intp, out), emit


def _fetch(context, block, i, j):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        block = context.make_array(signature.args[0])(context, builder, arguments[0])
        at, word = place(builder, block, arguments[1], arguments[2], ir.IntType(8)), ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [at.type, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [at.type], function)
        to_read, second_level, of_data = word(0), word(2), word(1)
        builder.call(prefetch, [at, to_read, second_level, of_data])
        return context.get_dummy_value()

    return types.void(block, types.intp, types.intp), emit


turn_square: Any = with_plain_twin(_turn_square, plain_lanes.turn_square)
"""``turn_square(points, rows, k, tile, j)`` writes as many numbers of as many points as a vector has,
from number k and the point rows_j on, to the tile from (k, j) on. They are read as one vector a row."""

expand: Any = with_plain_twin(_expand, plain_lanes.expand)
"""``expand(row, gaps, j, spare, k, out)`` copies a vector of numbers, from number j on, from `row` to
`out`, with those of `spare` from k on in place of gaps; it returns the k that follows."""

fetch: Any = with_plain_twin(_fetch, plain_lanes.fetch)
"""``fetch(block, i, j)`` asks for the line of the cache with entry (i, j): processors foresee what is
read along a row, but not the row after it."""

LINE = 64
"""Bytes of a line of the cache, that no vector should cross."""


@njit(inline="always")  # compiled once, in the loop that calls it
def aligned(n: int, like: Any) -> Any:
    """Return an empty array of shape (n, TILE) of the type of another, its rows in lines of the cache."""
    room = np.empty(n * TILE + LINE, like.dtype)
    start = (-room.ctypes.data % LINE) // like.itemsize
    return room[start : start + n * TILE].reshape(n, TILE)


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
