"""The page of exact kernel training, from the rows that `asv_benchmarks.exact_kernel` measured.

python -m docs.benchmarks.make.exact_kernel rows.jsonl > docs/benchmarks/exact_kernel.md
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asv_benchmarks.exact_kernel import (
    DATA_SETS,
    LARGE_SET_POINTS,
    LONG_CALL_SECONDS,
    PEER_TIME_LIMIT,
)
from docs.benchmarks.make.pages import head, row


def page(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the page of a file of rows; of several rows of one run the last one counts."""
    found = {(r["set"], r["who"]): r for r in rows}
    lines = head(
        "exact_kernel",
        "Exact kernel training beside the fastest peers",
        'L1-hinge SVM, RBF, dense points in double precision, through `method="auto"`. A peer runs\n'
        "at its default tolerance 1e-3 with 2,000 MB of cache, and its answer is judged by the\n"
        f"certificate used here. A peer gets {PEER_TIME_LIMIT:g} s. Each run has its own process; its "
        "seconds\nare the median of three calls (of fifteen below 0.1 s, of one from "
        f"{LONG_CALL_SECONDS:g} s on). `peak` is\n"
        "its greatest resident memory in MB, data included. `floor` is the time of float32 products\n"
        "and np.exp for the support's columns alone, measured after the solve in its process.",
        runs=1,
    )
    yield from lines
    yield ""
    columns = ("data", "m", "d", "who", "seconds", "certified gap", "support", "certificate",
               "floor", "peak")  # fmt: skip
    yield row(*columns)
    yield row("---", "---:", "---:", "---", *["---:"] * 6)
    for (name, who), r in found.items():
        number = [f"{r[k]:.3g}" if k in r else "" for k in ("seconds", "gap")]
        more = [f"{r[k]:.3g}" if k in r else "" for k in ("certify", "floor")]
        size = [f"{r[k]:,}" if k in r else "" for k in ("m", "d")]
        note = f" {r['note']}" if "note" in r else ""
        support = f"{r['support']:,}" if "support" in r else ""
        peak = f"{r['peak']:,.0f}" if "peak" in r else ""
        yield row(name, *size, who, number[0] + note, number[1], support, *more, peak)
    yield ""
    yield from ratios(found)
    yield ""
    for name, (C, gamma, what) in DATA_SETS.items():
        yield f"- `{name}`: {what}; C = {C:g}, gamma = {gamma:.3g}"


def ratios(found: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    """Yield how many times longer each peer took, and one thread; the median over what was finished."""
    for who in ("sklearnex", "SVC", "qpsvm one thread"):
        times = {
            name: found[name, who]["seconds"] / found[name, "qpsvm"]["seconds"]
            for name in DATA_SETS
            if "seconds" in found.get((name, who), {})
            and "seconds" in found.get((name, "qpsvm"), {})
        }
        if times:
            each = ", ".join(f"{name} {ratio:.2g}" for name, ratio in times.items())
            middle = statistics.median(
                ratio for name, ratio in times.items() if found[name, who]["m"] > LARGE_SET_POINTS
            )
            yield (
                f"{who} took this many times as long: {each}; "
                f"median of the sets of more than {LARGE_SET_POINTS:,} points {middle:.2g}."
            )
            yield ""


if __name__ == "__main__":
    print(
        *page([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]), sep="\n"
    )
