"""Memory and processors of this process, within the limits of its container.

Inside a container the system reports the memory and the processors of the whole machine. The limits
are in the control groups of Linux, version 1 or 2 (kernel documentation, "cgroup-v1/memory" and
"cgroup-v2"), whose files are read here.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ASSUMED_MEMORY_BYTES = 4 << 30
"""Memory assumed on a system that does not report it."""

FILE_SYSTEM_ROOT = Path("/")
"""Root of the file system; tests replace it."""


@cache
def memory_bytes() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its container's limit.

    The files are read once in a process, so that every call returns the same number.
    """
    limits = _group_limits("memory", ("memory.limit_in_bytes", "memory.max"))
    return min([_machine_memory(), *(int(words[0]) for words in limits)])


@cache
def processors() -> int:
    """Return the number of processors that this process may use, at least 1.

    The smallest of the machine's processors, those that the process may run on, and the share of
    processor time of its container, rounded up.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    shares = [
        math.ceil(int(quota) / int(period))
        for quota, period in _group_limits("cpu", ("cpu.cfs_quota_us cpu.cfs_period_us", "cpu.max"))
    ]
    return max(1, min([allowed or 1, *shares]))


def _machine_memory() -> int:
    """Return the bytes of memory of the machine."""
    if sys.platform == "win32":
        return _windows_memory()
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not know these names
        return ASSUMED_MEMORY_BYTES
    return found if found > 0 else ASSUMED_MEMORY_BYTES


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("dwLength", ctypes.c_uint32),
        ("dwMemoryLoad", ctypes.c_uint32),
        ("ullTotalPhys", ctypes.c_uint64),
        ("ullAvailPhys", ctypes.c_uint64),
        ("ullTotalPageFile", ctypes.c_uint64),
        ("ullAvailPageFile", ctypes.c_uint64),
        ("ullTotalVirtual", ctypes.c_uint64),
        ("ullAvailVirtual", ctypes.c_uint64),
        ("ullAvailExtendedVirtual", ctypes.c_uint64),
    )


def _windows_memory() -> int:
    status = _MemoryStatus(dwLength=ctypes.sizeof(_MemoryStatus))
    known = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status.ullTotalPhys) if known else ASSUMED_MEMORY_BYTES


def _group_limits(controller: str, files: tuple[str, str]) -> Iterator[list[str]]:
    """Yield the fields of each limit on this process, of all groups that contain it.

    Parameters
    ----------
    controller : str
        "memory" or "cpu".
    files : tuple of two str
        Names of the files of a limit in version 1, separated by spaces, and in version 2.
    """
    for mounted, group, version in _groups(controller):
        names = files[version - 1].split()
        for folder in (mounted / group, *(mounted / parent for parent in group.parents)):
            try:
                words = " ".join((folder / name).read_text() for name in names).split()
            except OSError:  # this group has no such limit, or lies outside the container
                continue
            if words and words[0] not in ("max", "-1"):
                yield words


def _groups(controller: str) -> Iterator[tuple[Path, Path, int]]:
    """Yield mount point, path below it and version (1 or 2) of the groups of this process."""
    try:
        mounts = (FILE_SYSTEM_ROOT / "proc/self/mountinfo").read_text().splitlines()
        groups = (FILE_SYSTEM_ROOT / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    paths = {}
    for line in groups:  # "4:memory:/docker/1f", "3:cpu,cpuacct:/docker/1f" or "0::/docker/1f"
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for line in mounts:  # "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
        place, _, kind = line.partition(" - ")
        mounted, words = FILE_SYSTEM_ROOT / place.split()[4].lstrip("/"), kind.split()
        if words[0] == "cgroup2" and "" in paths:
            yield mounted, Path(paths[""].lstrip("/")), 2
        elif words[0] == "cgroup" and controller in words[-1].split(",") and controller in paths:
            yield mounted, Path(paths[controller].lstrip("/")), 1
