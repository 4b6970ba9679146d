"""Compare the benchmarks of two commits, and fail where one became slower.

The two are measured by turns on one machine, so that only ratios of one run are judged. What looks worse
is measured once more, in more rounds: a regression is what is worse both times::

    python -m asv_benchmarks.compare main             # HEAD against main
    python -m asv_benchmarks.compare v0.1.0 --bench ToPromisedGap --factor 1.2
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

MAX_SLOWDOWN = 1.3
"""Ratio of medians, after to before, from which a benchmark counts as worse."""

BENCHMARK_PATTERN = r"^(solving\.ToPromisedGap|solving\.Work|cold_start|reuse)"
"""What is compared by default: solves of seconds at most, on data that every machine has."""

FIRST_RUN_SETTINGS = (
    "--attribute",
    "rounds=2",
    "--attribute",
    "repeat=1",
    "--attribute",
    "warmup_time=0",
)
SECOND_RUN_SETTINGS = "--attribute", "rounds=4", "--attribute", "repeat=3"
"""Settings of asv for the first run and for the second one, of what looked worse."""

Runner = Callable[[Sequence[str]], tuple[int, str]]


def run_asv(arguments: Sequence[str]) -> tuple[int, str]:
    """Run asv in this folder, with its output shown; return its exit code and what it printed."""
    command = [sys.executable, "-m", "asv", *arguments]
    lines = []
    with subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def worse(printed: str) -> list[str]:
    """Return the benchmarks that a table of asv marks as worse or failing, without parameters, sorted."""
    names = set()
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5 and cells[1] in ("+", "!"):
            names.add(cells[5].partition("(")[0].strip())
    return sorted(names)


def regressions(before: str, after: str, bench: str, factor: float, asv: Runner) -> list[str]:
    """Return the benchmarks that are worse in two runs.

    Parameters
    ----------
    before, after : str
        Commits.
    bench : str
        Regular expression of names.
    factor : float
        Ratio of medians that counts as worse.
    asv : callable
        Takes the arguments of asv; returns exit code and output.

    Raises
    ------
    RuntimeError
        If asv ends with another code than that for worse benchmarks, and none is marked.
    """
    found = bench
    for settings in (FIRST_RUN_SETTINGS, SECOND_RUN_SETTINGS):
        code, printed = asv([
            "continuous", "--interleave-rounds", "--no-stats", "--show-stderr",
            "--launch-method", "forkserver", "--factor", str(factor), *settings,
            "--bench", found, before, after,
        ])  # fmt: skip
        names = worse(printed)
        if not names:
            if code:
                raise RuntimeError(f"asv ended with code {code}")
            return []
        found = "^(" + "|".join(map(re.escape, names)) + r")(\(|$)"  # asv appends the parameters
    return names


def main(argv: Sequence[str] | None = None, asv: Runner = run_asv) -> int:
    """Return 1 where a benchmark became worse, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", help="the commit to compare with")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--bench", default=BENCHMARK_PATTERN, help="regular expression of names")
    parser.add_argument("--factor", type=float, default=MAX_SLOWDOWN)
    given = parser.parse_args(argv)
    found = regressions(given.before, given.after, given.bench, given.factor, asv)
    print("\n".join(["worse in two runs:", *found]) if found else "nothing is worse in two runs")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
