"""2^t for compiled loops: numba has no exponential that runs in vector lanes.

2^t = 2^n 2^f with n the integer nearest to t. Adding and subtracting 1.5 times a power of two rounds
to n and leaves it in the lowest bits, from where a shift takes it to the exponent. 2^f is the
polynomial of least greatest relative error on [-1/2, 1/2], by Remez' exchange: 3e-18 in float64 and
2e-9 in float32, below the rounding of either. Arguments are at most 0; values below 2^-1021, or
2^-125 in float32, are replaced by these.

The functions are for inlining. Callers may let sums be reordered; here nothing may be, or the
rounding would be simplified away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qpsvm.numerics.jit import bits32, bits64, from32, from64, njit

ROUND32, ROUND64 = np.float32(1.5 * 2.0**23), 1.5 * 2.0**52
LEAST32, LEAST64 = np.float32(-125.0), -1021.0
ZERO32, ONE32 = np.float32(0.0), np.float32(1.0)

C32 = tuple(
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
C64 = (
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


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def exp2_32(t: Any) -> Any:
    """Return 2^t in float32 for t <= 0; what rounding left above 0 counts as 0."""
    t = t if t < ZERO32 else ZERO32
    t = t if t > LEAST32 else LEAST32
    n = t + ROUND32
    f = t - (n - ROUND32)
    p = C32[5] * f + C32[4]
    p = p * f + C32[3]
    p = p * f + C32[2]
    p = p * f + C32[1]
    p = p * f + C32[0]
    p = p * f + ONE32
    return from32(np.int32(bits32(p) + np.int32(bits32(n) << np.int32(23))))


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def exp2_64(t: Any) -> Any:
    """Return 2^t in float64 for t <= 0; what rounding left above 0 counts as 0."""
    t = t if t < 0.0 else 0.0
    t = t if t > LEAST64 else LEAST64
    n = t + ROUND64
    f = t - (n - ROUND64)
    p = C64[10] * f + C64[9]
    p = p * f + C64[8]
    p = p * f + C64[7]
    p = p * f + C64[6]
    p = p * f + C64[5]
    p = p * f + C64[4]
    p = p * f + C64[3]
    p = p * f + C64[2]
    p = p * f + C64[1]
    p = p * f + C64[0]
    p = p * f + 1.0
    return from64(bits64(p) + (bits64(n) << np.int64(52)))
