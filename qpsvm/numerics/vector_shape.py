"""Shapes of vectors and tiles, and the instruction sets that the SIMD code targets."""

from __future__ import annotations

from qpsvm.numerics.code_cache import selected

TARGET_FEATURES = selected().features
"""Instruction sets of the target processor."""

HAS_AVX512 = "avx512f" in TARGET_FEATURES
"""Whether vectors have 512 bits, with an instruction that scales by powers of two."""

HAS_BYTE_DOT = HAS_AVX512 and "avx512vnni" in TARGET_FEATURES
"""Whether there is an instruction for dot products of bytes."""

HAS_MASKED_EXPAND = HAS_AVX512 and "avx512vbmi2" in TARGET_FEATURES
"""Whether there are masked expand loads, down to elements of 16 bits."""

VECTOR_LANES = 16 if HAS_AVX512 else 8
"""Number of 32-bit elements of a vector."""

TILE_POINTS = 64
"""Number of points of a tile, whose shape is (d, TILE_POINTS)."""

GROUP_ROWS = 8
"""Number of rows that one kernel multiplies with a vector of points."""
