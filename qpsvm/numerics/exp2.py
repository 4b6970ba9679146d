"""2^t for compiled loops: numba has no vectorized exponential.

2^t = 2^n 2^f with n the integer nearest to t. Adding and subtracting 1.5 times a power of two rounds
to n and leaves n in the lowest bits; a shift moves it to the exponent. 2^f is the minimax polynomial of
the relative error on [-1/2, 1/2], by the Remez exchange: its error is 3e-18 in float64 and 2e-9 in
float32, below the rounding of both. Arguments are at most 0; values below 2^-1021, or 2^-125 in
float32, are replaced by these bounds.

The functions are for inlining. Callers may allow reassociation of sums; these functions must not, or
the compiler would simplify the rounding away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import bits32, bits64, from32, from64, njit

ROUNDING_SHIFT_32 = np.float32(1.5 * 2.0**23)
"""Summand that rounds a float32 to an integer in its lowest bits."""

ROUNDING_SHIFT_64 = 1.5 * 2.0**52
"""The same in float64."""

MIN_EXPONENT_32 = np.float32(-125.0)
"""Least exponent in float32; smaller ones are replaced by it."""

MIN_EXPONENT_64 = -1021.0
"""The same in float64."""

ZERO_32 = np.float32(0.0)
"""Zero in float32: a Python float would promote an expression to float64."""

ONE_32 = np.float32(1.0)
"""One in float32."""

COEFFICIENTS_32 = tuple(
    np.float32(c)
    for c in (
        0.69314720573725267536,
        0.24022646890639572134,
        0.055503287769976637639,
        0.0096184889565227915705,
        0.0013399931209474140493,
        0.00015345812158740182477,
    )
)
"""Coefficients of f, f^2, ... in float32; that of f^0 is 1."""

COEFFICIENTS_64 = (
    0.69314718055994533046,
    0.24022650695910156205,
    0.055504108664819921483,
    0.0096181291075883350833,
    0.0013333558146789950323,
    0.00015403530462514613026,
    0.0000152527334899608046,
    1.3215433089594629037e-6,
    1.0178198033328527662e-7,
    7.0741056262456593708e-9,
    4.4352809446103361611e-10,
)
"""The same in float64."""


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def exp2_32(t: Any) -> Any:
    """Return 2^t in float32 for t <= 0; t above 0 by rounding counts as 0."""
    t = t if t < ZERO_32 else ZERO_32
    t = t if t > MIN_EXPONENT_32 else MIN_EXPONENT_32
    n = t + ROUNDING_SHIFT_32
    f = t - (n - ROUNDING_SHIFT_32)
    p = COEFFICIENTS_32[5] * f + COEFFICIENTS_32[4]
    p = p * f + COEFFICIENTS_32[3]
    p = p * f + COEFFICIENTS_32[2]
    p = p * f + COEFFICIENTS_32[1]
    p = p * f + COEFFICIENTS_32[0]
    p = p * f + ONE_32
    return from32(np.int32(bits32(p) + np.int32(bits32(n) << np.int32(23))))


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def exp2_64(t: Any) -> Any:
    """Return 2^t in float64 for t <= 0; t above 0 by rounding counts as 0."""
    t = t if t < 0.0 else 0.0
    t = t if t > MIN_EXPONENT_64 else MIN_EXPONENT_64
    n = t + ROUNDING_SHIFT_64
    f = t - (n - ROUNDING_SHIFT_64)
    p = COEFFICIENTS_64[10] * f + COEFFICIENTS_64[9]
    p = p * f + COEFFICIENTS_64[8]
    p = p * f + COEFFICIENTS_64[7]
    p = p * f + COEFFICIENTS_64[6]
    p = p * f + COEFFICIENTS_64[5]
    p = p * f + COEFFICIENTS_64[4]
    p = p * f + COEFFICIENTS_64[3]
    p = p * f + COEFFICIENTS_64[2]
    p = p * f + COEFFICIENTS_64[1]
    p = p * f + COEFFICIENTS_64[0]
    p = p * f + 1.0
    return from64(bits64(p) + (bits64(n) << np.int64(52)))
