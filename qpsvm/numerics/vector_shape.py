"""Shapes of vectors and tiles, and the instruction sets that vector code is written for."""

from __future__ import annotations

from qpsvm.numerics.code_cache import selected

TARGET_FEATURES = selected().features
"""Instruction sets that the vectors are written for."""

WIDE = "avx512f" in TARGET_FEATURES
"""Whether vectors have 512 bits, and there is an instruction that scales them by powers of two."""

BYTES = WIDE and "avx512vnni" in TARGET_FEATURES
"""Whether there is an instruction for products of bytes."""

EXPANDS = WIDE and "avx512vbmi2" in TARGET_FEATURES
"""Whether there is an instruction that puts numbers, even of 16 bits, to marked places of a vector."""

LANES = 16 if WIDE else 8
"""Numbers of 32 bits in a vector."""

TILE = 64
"""Points of a tile, whose shape is (d, TILE)."""

GROUP = 8
"""Rows that are multiplied at a time."""
