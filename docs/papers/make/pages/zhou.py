"""Tables and figures of the page on Zhou, Tao and Wu, from what the studies kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.papers.make.pages.markdown import head, row
from docs.papers.make.printed import CENSUS_SIZES
from docs.papers.make.runs import Case, kept

SOLVER_NAMES = ("NESVM", "homotopy-nesvm", "Pegasos", "LIBLINEAR", "LIBSVM")
CURVE_STYLES = ("C0o-", "C1s--", "C2^:", "C3v-.", "C4x-")


def nesvm_times(records: list[Case]) -> Iterator[str]:
    """Yield table I, the ratios of both figures, and what NESVM ended with."""
    sizes = {r["case"]["set"]: r["found"] for r in records if r["case"]["figure"] == 4}
    yield from head(1, "Set", "printed: training", "test", "ours: training", "test")
    for name, (m, n_test) in CENSUS_SIZES.items():
        ours = ("not at hand", "")
        if name in sizes:
            ours = (f"{sizes[name]['m']:,}", f"{sizes[name]['test']:,}")
        yield row(name, f"{m:,}", f"{n_test:,}", *ours)
    for figure, first in ((3, "C"), (4, "Set")):
        yield ""
        words = 0 if figure == 3 else 1
        yield from head(words, first, *(f"time, {name}" for name in SOLVER_NAMES))
        for record in records:
            case, found = record["case"], record["found"]
            if case["figure"] == figure:
                times = [f"{found[f'{name} time']:.2g}" for name in SOLVER_NAMES]
                yield row(f"{case['C']:g}" if figure == 3 else case["set"], *times)
    yield ""
    names = ("iterations of NESVM", *(f"accuracy, {name}" for name in SOLVER_NAMES))
    yield from head(1, "Set", "C", *names, "excess of NESVM")
    for record in records:
        case, found = record["case"], record["found"]
        shares = [f"{found[f'{name} accuracy']:.2f}" for name in SOLVER_NAMES]
        excess = f"{100 * found['NESVM excess']:.0f} %"
        count = f"{found['NESVM iterations']:,}"
        if case["figure"] == 3 or case["set"] != "a4a":
            yield row(case["set"], f"{case['C']:g}", count, *shares, excess)


def times_chart(plt: Any) -> Any:
    """Draw figures 3 and 4."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    for axis, number in zip(axes, (3, 4), strict=True):
        records = [r for r in kept("nesvm_times").values() if r["case"]["figure"] == number]
        for name, style in zip(SOLVER_NAMES, CURVE_STYLES, strict=True):
            times = [record["found"][f"{name} time"] for record in records]
            if number == 3:
                axis.loglog([record["case"]["C"] for record in records], times, style, label=name)
            else:
                axis.semilogy(range(1, len(times) + 1), times, style, label=name)
    axes[0].set_xlabel("C")
    axes[0].set_ylabel("seconds / NESVM at C = 1")
    axes[1].set_xlabel("set ID")
    axes[1].set_ylabel("seconds / NESVM on set 1")
    axes[1].set_xticks(range(1, 6))
    axes[0].legend(fontsize=7)
    return figure


STUDY_TABLES = {"nesvm_times": nesvm_times}
CHART_FUNCTIONS = {"zhou_times": times_chart}
