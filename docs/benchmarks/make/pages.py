"""The parts that every page of figures has: its head with machine and date, and its tables."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import qpsvm
from qpsvm import threads

N_RUNS = 3
PAGE_HEAD = """# {title}

{text}

{machine}

Made by `python -m {folder}.{name}` on {date}, at commit {commit}. Seconds count from
the call to the answer, kernel columns and the closing certificate included. {seconds}
"""
SEVERAL_RUNS_NOTE = (
    "They are the median of\n{runs} runs; the least and the greatest stand in brackets where they differ "
    "by more than a tenth of it."
)
ONE_RUN_NOTE = "Each is one run, if not said otherwise."


def section(
    title: str, text: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]
) -> Iterator[str]:
    """Yield a heading, a paragraph and a table."""
    yield from ("", f"## {title}", "", text, "", row(*columns))
    yield row("---", *("---:" for _ in columns[1:]))
    for cells in rows:
        print(*cells, file=sys.stderr, flush=True)
        yield row(*cells)


def head(
    name: str, title: str, text: str, runs: int = N_RUNS, folder: str = "docs.benchmarks.make"
) -> Iterator[str]:
    """Yield title, machine, versions and date of a page; module `name` of `folder` makes it."""
    lines = [f"- {processor()}, {os.cpu_count()} cores, {memory():.0f} GB of memory"]
    lines += [f"- {library}: {said}" for library, said in threads.describe().items()]
    lines.append(f"- OPENBLAS_CORETYPE is {os.environ.get('OPENBLAS_CORETYPE', 'not set')}")
    lines.append(f"- load average before the run: {busy()}")
    versions = [f"{p} {importlib.metadata.version(p)}" for p in ("numpy", "scipy")]
    python = f"Python {platform.python_version()}"
    lines.append(f"- qpsvm {qpsvm.__version__}, {python}, {', '.join(versions)}")
    yield PAGE_HEAD.format(
        title=title, text=text, name=name, folder=folder, machine="\n".join(lines), commit=commit(),
        seconds=SEVERAL_RUNS_NOTE.format(runs=runs) if runs > 1 else ONE_RUN_NOTE,
        date=datetime.date.today().isoformat(),
    ).rstrip()  # fmt: skip


def processor() -> str:
    """Return the processor's model name."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def memory() -> float:
    """Return the machine's memory in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def busy() -> str:
    """Return the load average of the last minute, and what it means for the figures."""
    load = os.getloadavg()[0]
    rough = "; other processes ran at the same time, so that the seconds are rough"
    return f"{load:.1f}{rough if load > 0.5 else ''}"


def commit() -> str:
    """Return the commit that is checked out, and whether qpsvm was edited since."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout.strip()

    edited = " (edited since)" if git("status", "--porcelain", "--", "qpsvm") else ""
    return f"`{git('rev-parse', '--short', 'HEAD') or 'unknown'}`{edited}"


def row(*cells: Any) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"
