"""Keep numba's disk cache apart for every state of the sources."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path


def isolate() -> None:
    """Set NUMBA_CACHE_DIR to a folder named by a hash of the sources of qpsvm.

    numba looks only at the file that holds a compiled function, not at the files it calls
    into: after an edit there, tests and benchmarks would run the old code. The sources are
    those that ``import qpsvm`` will load, which in an asv environment is an installed commit.
    Call this before numba is imported.
    """
    folder = Path(tempfile.gettempdir()) / f"qpsvm-numba-{_user()}-{source_hash()}"
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def source_hash() -> str:
    """Return sixteen hexadecimal digits that change with every edit of qpsvm."""
    spec = importlib.util.find_spec("qpsvm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("qpsvm is neither installed nor on sys.path")
    root = Path(spec.submodule_search_locations[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _user() -> str:
    """Two users of one machine must not write into one folder."""
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
