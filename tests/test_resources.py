"""Memory and processors that a process may use, from files as containers and systems show them."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace

import numpy as np
import pytest

import qpsvm
from qpsvm import resources
from qpsvm.api import default_memory_limit
from qpsvm.numerics import parallel

GIB = 1 << 30
V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
"""
V1_GROUPS = "4:memory:{path}\n3:cpu,cpuacct:{path}\n2:cpuset:/\n"
V2_MOUNTS = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
UNLIMITED_V1 = "9223372036854771712\n"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Put files below a root of their own, on a machine of 64 GiB and 16 processors."""

    def put(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    monkeypatch.setattr(resources, "FILE_SYSTEM_ROOT", tmp_path)
    monkeypatch.setattr(resources, "_machine_memory", lambda: 64 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    forget()
    yield put
    forget()


def forget():
    resources.memory_bytes.cache_clear()
    resources.processors.cache_clear()


def found():
    return resources.memory_bytes() / GIB, resources.processors()


def test_without_control_groups_the_machine_counts(system):
    assert found() == (64, 16)


@pytest.mark.parametrize("path", ["/", "/docker/1f"], ids=["own-namespace", "path-of-the-host"])
def test_version_2(system, path):
    group = {"memory.max": f"{8 * GIB}\n", "cpu.max": "250000 100000\n"}
    files = {f"sys/fs/cgroup/{name}": text for name, text in group.items()}
    system({"proc/self/mountinfo": V2_MOUNTS, "proc/self/cgroup": f"0::{path}\n"} | files)
    assert found() == (8, 3)


@pytest.mark.parametrize("root", ["/", "/docker/1f"])
def test_version_1(system, root):
    """In a container the mount shows the group itself, under the path that the host knows."""
    system({
        "proc/self/mountinfo": V1_MOUNTS.format(root=root),
        "proc/self/cgroup": V1_GROUPS.format(path="/docker/1f"),
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    assert found() == (2, 1)


def test_the_smallest_limit_of_the_enclosing_groups_counts(system):
    inner = "sys/fs/cgroup/user.slice/job"
    system({
        "proc/self/mountinfo": V2_MOUNTS,
        "proc/self/cgroup": "0::/user.slice/job\n",
        f"{inner}/memory.max": "max\n",
        f"{inner}/cpu.max": "max 100000\n",
        "sys/fs/cgroup/user.slice/memory.max": f"{3 * GIB}\n",
        "sys/fs/cgroup/user.slice/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/other/memory.max": f"{GIB}\n",  # not ours
    })  # fmt: skip
    assert found() == (3, 2)


def test_no_limit_in_either_version(system):
    system({
        "proc/self/mountinfo": V1_MOUNTS.format(root="/") + V2_MOUNTS,
        "proc/self/cgroup": V1_GROUPS.format(path="/a") + "0::/a\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": UNLIMITED_V1,
        "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/a/memory.max": "max\n",
        "sys/fs/cgroup/a/cpu.max": "max 100000\n",
    })  # fmt: skip
    assert found() == (64, 16)


def test_the_default_of_memory_limit_is_a_quarter_of_the_container(system):
    system({
        "proc/self/mountinfo": V2_MOUNTS,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{GIB}\n",
    })  # fmt: skip
    assert default_memory_limit() == GIB // 4


def test_no_more_threads_than_processors(system, monkeypatch):
    """A container of two processors on a machine of sixteen: BLAS offers sixteen threads."""
    pool = SimpleNamespace(num_threads=16, filepath="numpy", set_num_threads=lambda n: None)
    monkeypatch.setattr(parallel, "_pools", lambda: [pool])
    begun = []
    monkeypatch.setattr(parallel, "_Helper", SimpleNamespace(acquire=lambda: helper))
    helper = SimpleNamespace(begin=lambda work: begun.append(work) or parallel.threading.Lock())
    system({
        "proc/self/mountinfo": V2_MOUNTS,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
    })  # fmt: skip
    done = []
    parallel.parallel_for(done.append, list(range(9)))
    assert len(begun) == 1 and done == list(range(9))


@pytest.fixture
def windows(monkeypatch):
    """As on Windows: no sysconf, no affinity, memory by a call of its own."""

    class Kernel:
        @staticmethod
        def GlobalMemoryStatusEx(reference):
            status = reference._obj
            assert status.dwLength == ctypes.sizeof(status) == 64
            status.ullTotalPhys = 12 * GIB
            return 1

    monkeypatch.setattr(resources, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=Kernel), raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(
        resources, "FILE_SYSTEM_ROOT", resources.FILE_SYSTEM_ROOT / "no such folder"
    )
    forget()
    yield
    forget()


def test_a_solve_on_windows(windows):
    assert found() == (12, 6)
    result = qpsvm.solve(qpsvm.MEBDual(np.eye(3)), "mfw")
    assert result.converged


def test_a_system_that_reports_no_memory(windows, monkeypatch):
    monkeypatch.setattr(resources, "sys", SimpleNamespace(platform="wasi"))
    assert resources.memory_bytes() == resources.ASSUMED_MEMORY_BYTES


def test_here():
    assert resources.memory_bytes() > 1 << 28
    assert 1 <= resources.processors() <= (os.cpu_count() or 1)
