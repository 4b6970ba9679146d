"""SIMD kernels that the auto-vectorizer misses: transpose, masked expand, a vector exponential.

The compiler vectorizes an inner loop, but it moves the elements of a transpose or of a masked expand one
by one. These kernels, and those of `gram/engine/kernel_rows.py`, are emitted in vectors of
VECTOR_LANES elements of 32 bits, or half as many of 64; where registers are shorter, LLVM
splits the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from qpsvm.numerics import simd_plain
from qpsvm.numerics.exp2 import (
    COEFFICIENTS_32,
    COEFFICIENTS_64,
    MIN_EXPONENT_32,
    MIN_EXPONENT_64,
    ROUNDING_SHIFT_32,
    ROUNDING_SHIFT_64,
)
from qpsvm.numerics.intrinsics import cgutils, with_plain_twin
from qpsvm.numerics.jit import njit
from qpsvm.numerics.vector_shape import (
    HAS_AVX512,
    PANEL_VECTORS,
    TILE_POINTS,
    VECTOR_LANES,
)


def lanes_of(kind: Any) -> int:
    """Return how many elements of a type a vector has."""
    return VECTOR_LANES * 32 // int(kind.bitwidth)


def matrix_pointer(builder: Any, array: Any, row: Any, column: Any, vector: Any) -> Any:
    """Return the pointer to the vector of a C-ordered matrix that starts at an entry."""
    width = cgutils.unpack_tuple(builder, array.shape)[1]
    entry = builder.gep(array.data, [builder.add(builder.mul(row, width), column)])
    return builder.bitcast(entry, vector.as_pointer())


def vector_pointer(builder: Any, array: Any, start: Any, lanes: int) -> tuple[Any, Any]:
    """Return the pointer to the vector of an array that starts at an entry, and its type."""
    entry = builder.gep(array.data, [start])
    vector = ir.VectorType(entry.type.pointee, lanes)
    return builder.bitcast(entry, vector.as_pointer()), vector


def splat(builder: Any, number: Any, lanes: int) -> Any:
    """Return a vector whose elements all equal a number."""
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    none = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    one = builder.insert_element(none, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, none, zeros)


def to_float(builder: Any, value: Any, kind: Any) -> Any:
    """Convert counts or floats to `kind`, whose precision is no less."""
    if isinstance(value.type.element, ir.IntType):
        return builder.uitofp(value, kind)
    return value if value.type == kind else builder.fpext(value, kind)


def call_intrinsic(builder: Any, name: str, value: Any) -> Any:
    """Call LLVM's unary intrinsic for a vector; the result has the same type."""
    function = ir.FunctionType(value.type, [value.type])
    name = _intrinsic_name(name, value.type)
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), [value])


def _intrinsic_name(name: str, vector: Any) -> str:
    """Return the name of LLVM's intrinsic for a vector type."""
    element = vector.element
    kind = f"i{element.width}" if isinstance(element, ir.IntType) else _FLOAT_SUFFIXES[str(element)]
    return f"{name}.v{vector.count}{kind}"


_FLOAT_SUFFIXES = {"float": "f32", "double": "f64"}
"""Suffixes of LLVM's intrinsics by type of float."""


def exp2(builder: Any, t: Any, bounded: bool) -> Any:
    """Return 2^t of a vector as `exp2_32` and `exp2_64` do, but with instructions that round and scale.

    Where t is known to be finite and at most 0, these instructions need no clamping: they underflow to 0.
    """
    kind, lanes = t.type, t.type.count
    single = str(kind.element) == "float"
    least = MIN_EXPONENT_32 if single else MIN_EXPONENT_64
    series = COEFFICIENTS_32 if single else COEFFICIENTS_64

    def constant(c: Any) -> Any:
        return ir.Constant(kind, [kind.element(float(c))] * lanes)

    if bounded or not HAS_AVX512:
        for bound, right in ((constant(0.0), "<"), (constant(least), ">")):
            t = builder.select(builder.fcmp_ordered(right, t, bound), t, bound)
    if HAS_AVX512:
        n = call_intrinsic(builder, "llvm.rint", t)
        return _scale_by_power(builder, _polynomial(builder, builder.fsub(t, n), series), n)
    bits, up = (32, 23) if single else (64, 52)
    integers = ir.VectorType(ir.IntType(bits), lanes)
    rounding_shift = constant(ROUNDING_SHIFT_32 if single else ROUNDING_SHIFT_64)
    n = builder.fadd(t, rounding_shift)  # the integer is in its lowest bits
    p = _polynomial(builder, builder.fsub(t, builder.fsub(n, rounding_shift)), series)
    power = builder.shl(builder.bitcast(n, integers), ir.Constant(integers, [up] * lanes))
    return builder.bitcast(builder.add(builder.bitcast(p, integers), power), kind)


def _polynomial(builder: Any, f: Any, coefficients: Any) -> Any:
    """Return 1 + c_0 f + c_1 f^2 + ..."""
    p: Any = None
    for c in (*coefficients[::-1], 1.0):
        c = ir.Constant(f.type, [f.type.element(float(c))] * f.type.count)
        more = p and builder.fmul(p, f, flags=("contract",))
        p = builder.fadd(more, c, flags=("contract",)) if p else c
    return p


def _scale_by_power(builder: Any, p: Any, n: Any) -> Any:
    """Return p 2^n by the AVX-512 scale instruction."""
    single = str(p.type.element) == "float"
    lanes, name = (16, "ps") if single else (8, "pd")
    kind, mask, mode = ir.VectorType(p.type.element, lanes), ir.IntType(lanes), ir.IntType(32)
    function = ir.FunctionType(kind, [kind, kind, kind, mask, mode])
    name = f"llvm.x86.avx512.mask.scalef.{name}.512"
    scalef = cgutils.get_or_insert_function(builder.module, function, name)
    parts = []
    for start in range(0, p.type.count, lanes):
        indices = ir.Constant(ir.VectorType(mode, lanes), list(range(start, start + lanes)))
        a, b = (builder.shuffle_vector(v, v, indices) for v in (p, n))
        parts.append(builder.call(scalef, [a, b, a, mask(-1), mode(4)]))
    if len(parts) == 1:
        return parts[0]
    both = ir.Constant(ir.VectorType(mode, 2 * lanes), list(range(2 * lanes)))
    return builder.shuffle_vector(*parts, both)


def _transpose_square(context, points, rows, k, tile, j):  # type: ignore[no-untyped-def]
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
            square.append(builder.load(matrix_pointer(builder, points, row, k, vector), align=4))
        mixed = [
            ir.Constant(places, [start + n // 2 + lanes * (n % 2) for n in range(lanes)])
            for start in (0, half)
        ]
        for _ in range(half.bit_length()):  # interleave the first half of the rows with the second
            pairs = zip(square[:half], square[half:], strict=True)
            square = [builder.shuffle_vector(*pair, by) for pair in pairs for by in mixed]
        for u, column in enumerate(square):
            at = matrix_pointer(builder, tile, builder.add(k, index(u)), j, vector)
            builder.store(column, at, align=4)
        return context.get_dummy_value()

    kind = points.dtype
    return types.void(points, rows, types.intp, tile, types.intp), emit


def _masked_expand(context, row, gaps, j, spare, k, out):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        row, gaps, spare, out = (
            context.make_array(signature.args[n])(context, builder, arguments[n])
            for n in (0, 1, 3, 5)
        )
        j, k, align = arguments[2], arguments[4], kind.bitwidth // 8
        own, vector = vector_pointer(builder, row, j, lanes)
        marks, flags = vector_pointer(builder, gaps, j, lanes)
        own, marks = builder.load(own, align=align), builder.load(marks, align=1)
        marks = builder.icmp_unsigned("!=", marks, ir.Constant(flags, [0] * lanes))
        first = builder.gep(spare.data, [k])
        function = ir.FunctionType(vector, [first.type, marks.type, vector])
        name = _intrinsic_name("llvm.masked.expandload", vector)
        load = cgutils.get_or_insert_function(builder.module, function, name)
        filled = builder.call(load, [first, marks, own])
        builder.store(filled, vector_pointer(builder, out, j, lanes)[0], align=align)
        taken = builder.ctpop(builder.bitcast(marks, ir.IntType(lanes)))
        return builder.add(k, builder.zext(taken, k.type))

    kind, lanes = row.dtype, lanes_of(row.dtype)
    return types.intp(row, gaps, types.intp, spare, types.intp, out), emit


def _prefetch(context, block, i, j):  # type: ignore[no-untyped-def]
    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        block = context.make_array(signature.args[0])(context, builder, arguments[0])
        word = ir.IntType(32)
        at = matrix_pointer(builder, block, arguments[1], arguments[2], ir.IntType(8))
        function = ir.FunctionType(ir.VoidType(), [at.type, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [at.type], function)
        to_read, second_level, of_data = word(0), word(2), word(1)
        builder.call(prefetch, [at, to_read, second_level, of_data])
        return context.get_dummy_value()

    return types.void(block, types.intp, types.intp), emit


transpose_square: Any = with_plain_twin(_transpose_square, simd_plain.transpose_square)
"""``transpose_square(points, rows, k, tile, j)`` transposes a square of one vector width.

It reads features k, k + 1, ... of the points rows_j, rows_(j + 1), ..., one vector per point, and writes
them to the tile from (k, j) on."""

masked_expand: Any = with_plain_twin(_masked_expand, simd_plain.masked_expand)
"""``masked_expand(row, gaps, j, spare, k, out)`` copies a vector from `row` to `out`, from entry j on.

Gaps are filled by consecutive entries of `spare` from k on; the next k is returned."""

prefetch: Any = with_plain_twin(_prefetch, simd_plain.prefetch)
"""``prefetch(block, i, j)`` prefetches the cache line of entry (i, j): hardware prefetchers follow a row,
but do not predict the next one."""

CACHE_LINE_BYTES = 64
"""Bytes of a cache line, which no vector should cross."""


@njit(inline="always")  # compiled once, in the loop that calls it
def aligned(n: int, like: Any) -> Any:
    """Return an empty (n, TILE_POINTS) array typed like another, its rows aligned to cache lines."""
    memory = np.empty(n * TILE_POINTS + CACHE_LINE_BYTES, like.dtype)
    start = (-memory.ctypes.data % CACHE_LINE_BYTES) // like.itemsize
    return memory[start : start + n * TILE_POINTS].reshape(n, TILE_POINTS)


@njit(inline="always")  # compiled once, in the loop that calls it
def aligned_tile(d: int, like: Any) -> Any:
    """Return an empty tile for points of d features: panels, features, points of a panel.

    The points of a panel are adjacent, so that a kernel reads memory in order; its rows are aligned to
    vectors. There are spare rows for whole squares of a transpose.
    """
    width = PANEL_VECTORS * VECTOR_LANES * 4 // like.itemsize
    depth = d + VECTOR_LANES
    return aligned(depth, like).reshape(TILE_POINTS // width, depth, width)


@njit(inline="always")  # compiled once, in the loop that calls it
def transpose_tile(points: Any, by_features: bool, rows: Any, n_panels: int, tile: Any) -> None:
    """Write the first of the TILE_POINTS points `rows` to as many panels of a tile, transposed.

    `by_features` says that the points are stored feature by feature. Features beyond d are undefined.
    """
    (m, d), width = points.shape, tile.shape[2]
    lanes, last = VECTOR_LANES * 4 // points.itemsize, 0
    for j in range(TILE_POINTS):
        last = max(last, rows[j])
    for p in range(n_panels):
        panel, own = tile[p], rows[p * width : (p + 1) * width]
        if by_features:
            for k in range(len(points)):
                for j in range(width):
                    panel[k, j] = points[k, own[j]]
            continue
        for k in range(0, d, lanes):
            if last * d + k + lanes <= m * d:  # reading past a point's end stays in the matrix
                for j in range(0, width, lanes):
                    transpose_square(points, own, k, panel, j)
            else:
                for j in range(width):
                    for n in range(k, min(k + lanes, d)):
                        panel[n, j] = points[own[j], n]
