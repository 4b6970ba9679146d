"""Cache of machine code, in the installed package and in a user's folder.

numba's own cache depends on the file of each function alone: after an edit or an upgrade elsewhere it
runs stale code. Here the key contains all sources of the package that compiled code can depend on,
the versions of the compiler, and the processor. A file holds one function for one signature, and gets
its name when it is complete.

Three places are searched, in this order: the user's folder, code for this processor in the package, and
code for a level of instruction sets (x86-64-v3, say) that a wheel carries. SIMD code targets a level: a
process uses code of one level, which `selected` returns.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import config

from qpsvm.clock import poll_compilation
from qpsvm.numerics.intrinsics import HAS_INTRINSICS

log = logging.getLogger("qpsvm")

PACKAGE_FOLDER = Path(__file__).parents[1]
"""Folder of the package."""

FOLDERS_ABOVE_COMPILED_CODE = frozenset(
    "driver distributed api data plot path estimators precompile demo files cli __main__ __init__".split()
)
"""Modules and folders of the package that no compiled function can depend on: nothing that compiles
imports them (tests/test_architecture.py). Their sources are no part of the key."""

KEPT_STATES = 4
"""Number of folders of other states of the sources, the most recently used, that are kept."""

AVX2_FEATURES = frozenset("avx2 bmi bmi2 f16c fma lzcnt movbe popcnt sse4.2 cx16".split())
AVX512_FEATURES = AVX2_FEATURES | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
FEATURES_OF_LEVEL = {
    "icelake-server": AVX512_FEATURES
    | frozenset("avx512vnni avx512vbmi avx512vbmi2 avx512bitalg".split()),
    "x86-64-v4": AVX512_FEATURES,
    "x86-64-v3": AVX2_FEATURES,
    "x86-64-v2": frozenset("cx16 popcnt sse3 ssse3 sse4.1 sse4.2".split()),
}
"""Processors that a wheel carries code for, best first, and the features that they require."""


class Target(NamedTuple):
    """Target of SIMD code."""

    name: str
    features: frozenset[str]
    folders: tuple[str, ...]
    """Folders of code that this process can run; new code is saved to the first."""


def processor_features() -> frozenset[str]:
    """Return the features of the processor that numba compiles for, of this machine or as configured."""
    if config.CPU_FEATURES is not None:  # type: ignore[attr-defined]
        named = config.CPU_FEATURES.split(",")  # type: ignore[attr-defined]
        return frozenset(name[1:] for name in named if name.startswith("+"))
    if config.CPU_NAME in FEATURES_OF_LEVEL:  # type: ignore[attr-defined]
        return FEATURES_OF_LEVEL[config.CPU_NAME]  # type: ignore[attr-defined]
    return frozenset(name for name, has in binding.get_host_cpu_features().items() if has)


@cache
def selected() -> Target:
    """Return the target of this process: its own processor, or the best level that is carried.

    A level is used where there is no code for the processor itself, which `qpsvm compile` generates.
    """
    features = processor_features()
    name = config.CPU_NAME or binding.get_host_cpu_name()  # type: ignore[attr-defined]
    digest = hashlib.sha256(",".join(sorted(features)).encode()).hexdigest()[:8]
    own = name if name in FEATURES_OF_LEVEL else f"{name}-{digest}"
    native = Target(name, features, (own,))
    roots = [root for root in (user_folder(), carried_folder()) if root is not None]
    if config.CPU_NAME is not None or any((root / own).is_dir() for root in roots):  # type: ignore[attr-defined]
        return native
    for level, needed in FEATURES_OF_LEVEL.items():
        if needed <= features and (carried_folder() / level).is_dir():
            return Target(level, needed, (f"{level}-on-{own}", level))
    return native


def carried_folder() -> Path:
    """Return the folder of the code installed with the package, whether it exists or not.

    ``QPSVM_MACHINE_CODE`` overrides it.
    """
    root = os.environ.get("QPSVM_MACHINE_CODE")
    return (Path(root) if root else PACKAGE_FOLDER / "machine_code") / source_key()


@cache
def user_folder() -> Path | None:
    """Return the folder for code that this user compiles, or None where nothing can be written.

    It lies under ``NUMBA_CACHE_DIR`` where that is set, else in the system's folder of caches.
    """
    root = config.CACHE_DIR  # type: ignore[attr-defined]
    if not root:
        from platformdirs import user_cache_dir

        root = user_cache_dir("qpsvm", appauthor=False)
    folder = Path(root) / f"qpsvm-{source_key()}"
    try:
        is_new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        if is_new:
            _remove_old_states(folder)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)
    except (OSError, RuntimeError) as problem:  # RuntimeError: the home folder is unknown
        log.warning("compiled code stays in memory, since %s cannot be written: %s", root, problem)
        return None
    return folder


def _remove_old_states(folder: Path) -> None:
    """Remove the code of other states of the sources but for the most recently used."""
    others = [path for path in folder.parent.glob("qpsvm-*") if path.is_dir() and path != folder]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[KEPT_STATES:]:
        shutil.rmtree(path, ignore_errors=True)


@cache
def source_key() -> str:
    """Return a hexadecimal digest of the sources that matter, the compiler and the platform."""
    digest = hashlib.sha256()
    versions = numba.__version__, llvmlite.__version__, np.__version__.split(".")[0]
    platform = sys.implementation.cache_tag, sys.platform, binding.get_process_triple()
    chosen = config.OPT, HAS_INTRINSICS  # type: ignore[attr-defined]
    digest.update(repr((*versions, *platform, *chosen)).encode())
    for path in sorted(PACKAGE_FOLDER.rglob("*.py")):
        name = path.relative_to(PACKAGE_FOLDER)
        if name.parts[0].removesuffix(".py") in FOLDERS_ABOVE_COMPILED_CODE:
            continue
        content = path.read_bytes()
        digest.update(f"{name.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


class CodeCache:
    """Machine code of one function, with the interface that numba's dispatcher expects.

    Reading and writing never fail a solve: a file that is damaged is compiled again, and on a full
    disk the code stays in memory.
    """

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self._identity = function.__code__.co_firstlineno, [repr(cell) for cell in cells]

    @property
    def cache_path(self) -> str | None:
        """The user's folder: what numba shows in its statistics."""
        return None if user_folder() is None else str(user_folder())

    def flush(self) -> None:
        """Do nothing: the key of the sources makes old code unreachable."""

    def _file(self, signature: Any) -> str:
        key = repr((self._identity, str(signature))).encode()
        return f"{self.name}-{hashlib.sha256(key).hexdigest()[:16]}.nbc"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None.

        A function takes up to 0.1 s to load, and a method has dozens: a limit of the call ends that too.
        """
        from numba.core.compiler import CompileResult

        poll_compilation()
        target_context.refresh()
        name = self._file(signature)
        for root in (user_folder(), carried_folder()):
            for folder in selected().folders:
                if root is None or not (path := root / folder / name).is_file():
                    continue
                try:
                    content = pickle.loads(path.read_bytes())
                    return CompileResult._rebuild(target_context, *content)
                except Exception as problem:  # a damaged file may raise anything
                    log.info("compiled code in %s cannot be read: %r", path, problem)
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Save a compiled function for other processes, where there is a folder for it."""
        from numba.core.serialize import dumps

        root = user_folder()
        if root is None or compiled.lifted or compiled.library.has_dynamic_globals:
            return
        write_atomically(
            root / selected().folders[0] / self._file(signature), dumps(compiled._reduce())
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically; skip it where the disk refuses."""
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            name = file.name
            file.write(content)
        os.replace(name, path)
    except OSError as problem:
        _warn_once(f"compiled code stays in memory: {problem}")
        if name is not None:
            Path(name).unlink(missing_ok=True)


@cache
def _warn_once(message: str) -> None:
    log.warning(message)
