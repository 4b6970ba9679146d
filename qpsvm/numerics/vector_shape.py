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

TILE_POINTS = 96
"""Number of points of a tile: whole panels of each shape below, in single and double precision."""

HAS_AVX2 = "avx2" in TARGET_FEATURES
"""Whether there are 16 registers of 256 bits; AVX-512 has 32 of 512."""

GROUP_ROWS, PANEL_VECTORS = (8, 2) if HAS_AVX512 else (4, 3) if HAS_AVX2 else (4, 1)
"""Numbers of rows and of vectors of points that one kernel multiplies, with all sums in registers.

Two multiply-adds a cycle, of a latency of four cycles, need eight sums or more. More rows and vectors
need fewer loads for each product, but the sums, the vectors of a feature and one number of a row must
fit into the registers: 16 + 2 + 1 of 32, or 12 + 3 + 1 of 16. On other processors a vector may take two
registers. Groups of 8 or 4 rows divide the eight columns that a step often needs: decision 0058."""
