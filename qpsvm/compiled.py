"""numba, awake: with all that it loads before its first compiled function runs.

It makes some 300,000 objects then, all of which stay. Looking through them again and again for garbage
would take a fifth of the time to the first solve, so that the collector rests meanwhile.
"""

from __future__ import annotations

import gc
from typing import Any


def _awake() -> Any:
    """Return numba's decorator, once its registries are filled."""
    collects = gc.isenabled()
    gc.disable()
    try:
        import numba
        from numba.core.registry import cpu_target

        if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            cpu_target.target_context.refresh()
    finally:
        if collects:
            gc.enable()
    return numba.njit


njit = _awake()
