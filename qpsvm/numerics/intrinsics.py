"""Functions emitted as LLVM instructions where numba can build them, and plain loops elsewhere.

`numba.extending.intrinsic` is public, the helpers that build instructions (`numba.core.cgutils`) are
not: a version of numba without one of them compiles the plain loops, which are slower.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

log = logging.getLogger("qpsvm")

cgutils: Any
try:
    from numba.core import cgutils
except ImportError:
    cgutils = None

CGUTILS_HELPERS = (
    "alloca_once",
    "alloca_once_value",
    "for_range",
    "for_range_slice",
    "gep_inbounds",
    "get_or_insert_function",
    "unpack_tuple",
)
"""Private names of numba that the functions emitted as LLVM instructions use."""

IS_COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether numba compiles at all: not under ``NUMBA_DISABLE_JIT=1``."""

HAS_INTRINSICS = (
    IS_COMPILED
    and all(hasattr(cgutils, name) for name in CGUTILS_HELPERS)
    and hasattr(ir.IRBuilder, "load_atomic")
)
"""Whether functions emitted as LLVM instructions are used."""

if IS_COMPILED and not HAS_INTRINSICS:
    log.warning(
        "numba %s lacks private names: plain loops are used, which are slower", numba.__version__
    )


def with_plain_twin(emitting: Callable[..., Any], plain: Callable[..., Any]) -> Any:
    """Return an intrinsic, or the equivalent loops where intrinsics are not available.

    Parameters
    ----------
    emitting : callable
        What `numba.extending.intrinsic` decorates: returns a signature and a code generator.
    plain : callable
        The same function as loops, which numba can compile and Python can run.
    """
    if HAS_INTRINSICS:
        return intrinsic(emitting)
    return numba.njit(nogil=True)(plain) if IS_COMPILED else plain
