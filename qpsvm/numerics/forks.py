"""What a forked process inherits from threads that it does not have: locks that none of them releases."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any


def after_fork_in_child(reset: Callable[[], None]) -> None:
    """Call `reset` in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def hold_during_forks(lock: Any) -> None:
    """Acquire a lock before every fork, and release it in both processes.

    A fork waits for a thread that holds it, so that the child finds what it protects in order.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )


def _release_cached_properties() -> None:
    """Give each cached property of the library a lock of its own again.

    Up to Python 3.11 one lock for all objects is held while a value is computed; the value of a thread
    that is gone is computed again.
    """
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "qpsvm":
            continue
        for kind in [v for v in vars(module).values() if isinstance(v, type)]:
            for attribute in vars(kind).values():
                if isinstance(attribute, cached_property) and hasattr(attribute, "lock"):
                    attribute.lock = threading.RLock()


after_fork_in_child(_release_cached_properties)
