"""Tables and figures of the page on Frandi et al., from what the studies kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from docs.papers.make.machines import FIGURE_EXPONENTS, MACHINE_METHODS, SERIES_SETS, SINGLE_SETS
from docs.papers.make.pages.markdown import head, row
from docs.papers.make.printed import (
    ACCURACY_DEVIATION,
    PRINTED_SIZES,
    TABLE_METHODS,
    TEST_ACCURACIES,
    TRAINING_SECONDS,
)
from docs.papers.make.runs import Case, kept
from docs.papers.make.statistics import METHOD_PAIRS, friedman, sign_test, signed_ranks

CURVE_STYLES = {"cvm": "C0o-", "fw": "C1s--", "mfw": "C2^:"}
PRINTED_NAMES = {
    "usps": "USPS", "reuters": "Reuters", "letter": "Letter", "shuttle": "Shuttle",
    "kdd10pc": "KDD10pc", "mnist": "MNIST",
}  # fmt: skip
"""Names of table 2 that are not those of the files."""


def printed(name: str) -> str:
    """Return the name of a set in the tables of the paper."""
    return PRINTED_NAMES.get(name, name)


def at_tuned(records: list[Case]) -> list[Case]:
    """Return the records at the C of the validation, series first."""
    order = [*SERIES_SETS["adult"], *SERIES_SETS["web"], *SINGLE_SETS]
    found = {r["case"]["set"]: r for r in records if "C" not in r["case"]}
    return [found[name] for name in order if name in found]


def machines(records: list[Case]) -> Iterator[str]:
    """Yield tables 1, 2 and 3, and the tests on ours."""
    yield from sizes(records)
    yield ""
    yield from accuracies(records)
    yield ""
    yield from speeds(records)
    yield ""
    yield from recomputed(records)
    yield ""
    yield from penalties(records)


def sizes(records: list[Case]) -> Iterator[str]:
    """Yield table 1."""
    names = ("printed: m", "test", "ours: m", "test")
    yield from head(1, "Data", *names)
    found = {printed(r["case"]["set"]): r["found"] for r in at_tuned(records)}
    for name, (m, n_test) in PRINTED_SIZES.items():
        ours = ("not run", "")
        if name in found:
            ours = (f"{found[name]['m']:,}", f"{found[name]['test']:,}")
        yield row(name, f"{m:,}", f"{n_test:,}", *ours)


def accuracies(records: list[Case]) -> Iterator[str]:
    """Yield table 2."""
    columns = [f"{m}, {who}" for m in MACHINE_METHODS for who in ("printed", "ours")]
    yield from head(1, "Data", "C", *columns)
    for record in at_tuned(records):
        name, found, cells = printed(record["case"]["set"]), record["found"], []
        for at, method in enumerate(MACHINE_METHODS):
            cells.append("none")
            if name in TEST_ACCURACIES:
                mean, deviation = TEST_ACCURACIES[name][at], ACCURACY_DEVIATION[name][at]
                cells[-1] = f"{mean:.2f} ± {deviation:.2g}"
            ours = f"{found[f'{method} accuracy']:.2f} ± {found[f'{method} deviation']:.2g}"
            cells.append(ours + (", capped" if found[f"{method} capped"] else ""))
        yield row(record["case"]["set"], f"{found['C']:g}", *cells)


def speeds(records: list[Case]) -> Iterator[str]:
    """Yield table 3 in ratios."""
    columns = [f"cvm / {m}, {who}" for m in MACHINE_METHODS[1:] for who in ("printed", "ours")]
    counts = [f"{what}, {m}" for what in ("iterations", "support") for m in MACHINE_METHODS]
    yield from head(1, "Data", *columns, *counts)
    for record in at_tuned(records):
        name, found, cells = printed(record["case"]["set"]), record["found"], []
        for at, method in enumerate(MACHINE_METHODS[1:], 1):
            seconds = TRAINING_SECONDS.get(name)
            cells.append(f"{seconds[0] / seconds[at]:.2g}" if seconds else "none")
            cells.append(bounded(found, method))
        for what in ("iterations", "support"):
            cells += [f"{int(found[f'{method} {what}']):,}" for method in MACHINE_METHODS]
        yield row(record["case"]["set"], *cells)


def bounded(found: Case, method: str) -> str:
    """Return a speed-up; a limit that was reached makes it a bound."""
    at_least, at_most = found["cvm capped"], found[f"{method} capped"]
    sign = {(True, False): "> ", (False, True): "< ", (True, True): "both capped, "}
    return sign.get((at_least, at_most), "") + f"{found[f'{method} speed-up']:.2g}"


def recomputed(records: list[Case]) -> Iterator[str]:
    """Yield the statistics of tables 5 and 6 for the sets of ours that the paper has."""
    common = [r for r in at_tuned(records) if printed(r["case"]["set"]) in TEST_ACCURACIES]
    names = [printed(record["case"]["set"]) for record in common]
    order = [MACHINE_METHODS.index(method) for method in TABLE_METHODS]
    ours = {
        "accuracy": np.array(
            [[r["found"][f"{m} accuracy"] for m in MACHINE_METHODS] for r in common]
        ),
        "time": np.array([[r["found"][f"{m} time"] for m in MACHINE_METHODS] for r in common]),
    }
    theirs = {
        "accuracy": np.array([TEST_ACCURACIES[name] for name in names]),
        "time": np.array([TRAINING_SECONDS[name] for name in names]),
    }
    columns = ("W or F, printed values", "p", "W or F, ours", "p", "signs, ours", "sign test p")
    yield from head(2, "Values", "Compared", *columns)
    for what in ("time", "accuracy"):
        for pair in METHOD_PAIRS:
            cells = []
            for values in (theirs[what], ours[what][:, order]):
                found = signed_ranks(values, pair)
                cells += [f"{found.statistic:g}", f"{found.two_tails:.1e}"]
            less, greater, p = sign_test(ours[what], pair)
            yield row(what, pair, *cells, f"{less}, {greater}", f"{p:.1e}")
        cells = []
        for values in (theirs[what], ours[what]):
            statistic, p = friedman(values)
            cells += [f"{statistic:.2f}", f"{p:.1e}"]
        yield row(what, "all three", *cells, "", "")


def penalties(records: list[Case]) -> Iterator[str]:
    """Yield accuracies and times at values of C."""
    columns = [f"{what}, {m}" for what in ("accuracy", "time") for m in MACHINE_METHODS]
    yield from head(1, "Data", "C", *columns)
    for record in records:
        case, found = record["case"], record["found"]
        if "C" in case:
            shares = [
                f"{found[f'{m} accuracy']:.2f}" + (", capped" if found[f"{m} capped"] else "")
                for m in MACHINE_METHODS
            ]
            times = [f"{found[f'{m} time']:.2g}" for m in MACHINE_METHODS]
            yield row(case["set"], f"{case['C']:g}", *shares, *times)


def ended(found: Case) -> bool:
    """Return whether a method came to its end."""
    return not all(found[f"{method} capped"] for method in MACHINE_METHODS)


def series_chart(plt: Any) -> Any:
    """Draw figures 3 and 4: accuracies, speed-ups, times and supports against m."""
    figure, axes = plt.subplots(4, 2, figsize=(8.0, 10.0), sharex="col")
    by_set = {r["case"]["set"]: r["found"] for r in at_tuned(list(kept("machines").values()))}
    for column, series in enumerate(("web", "adult")):
        names = [name for name in SERIES_SETS[series] if name in by_set and ended(by_set[name])]
        known = [name for name in names if name in TRAINING_SECONDS]
        m = [by_set[name]["m"] for name in names]
        for at, (method, style) in enumerate(CURVE_STYLES.items()):
            for place, what in ((0, "accuracy"), (2, "time"), (3, "support")):
                values = [by_set[name][f"{method} {what}"] for name in names]
                axes[place, column].plot(m, values, style, label=method)
            theirs = [TEST_ACCURACIES[name][at] for name in known]
            sizes_known = [by_set[name]["m"] for name in known]
            axes[0, column].plot(sizes_known, theirs, style[:2] + style[2:], alpha=0.35)
            if at:
                values = [by_set[name][f"{method} speed-up"] for name in names]
                axes[1, column].plot(m, values, style, label=f"{method}, ours")
                seconds = [TRAINING_SECONDS[name] for name in known]
                ratios = [of[0] / of[at] for of in seconds]
                axes[1, column].plot(sizes_known, ratios, style, alpha=0.35, label="printed")
        axes[3, column].plot(m, m, "k:", label="m")
        axes[0, column].set_title(f"figure {3 + column}: {series}", fontsize=9)
        for place in (1, 2, 3):
            axes[place, column].set_yscale("log")
        axes[3, column].set_xscale("log")
        axes[3, column].xaxis.set_minor_formatter("")
        axes[3, column].set_xlabel("m")
        for place in range(4):
            axes[place, column].legend(fontsize=7)
    for axis, label in zip(
        axes[:, 0], ("accuracy (pale: printed)", "speed-up", "seconds / cvm on the first", "support"),
        strict=True,
    ):  # fmt: skip
        axis.set_ylabel(label)
    return figure


def single_chart(plt: Any) -> Any:
    """Draw figures 5 and 6: accuracies and speed-ups of single sets, ours beside the printed ones."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    by_set = {r["case"]["set"]: r["found"] for r in at_tuned(list(kept("machines").values()))}
    names = [name for name in SINGLE_SETS if name in by_set]
    for at, method in enumerate(MACHINE_METHODS):
        place = np.arange(len(names)) + 0.27 * (at - 1)
        ours = [by_set[name][f"{method} accuracy"] for name in names]
        theirs = [TEST_ACCURACIES[printed(name)][at] for name in names]
        axes[0].bar(place, ours, 0.25, color=f"C{at}", label=method)
        axes[0].plot(place, theirs, "k_", ms=9)
        if at:
            ours = [by_set[name][f"{method} speed-up"] for name in names]
            seconds = [TRAINING_SECONDS[printed(name)] for name in names]
            axes[1].bar(place, ours, 0.25, color=f"C{at}", label=method)
            axes[1].plot(place, [of[0] / of[at] for of in seconds], "k_", ms=9)
    axes[0].set_ylim(90, 100)
    axes[0].set_ylabel("accuracy (dash: printed)")
    axes[1].set_yscale("log")
    axes[1].set_ylabel("speed-up over cvm (dash: printed)")
    for axis in axes:
        axis.set_xticks(range(len(names)), names)
        axis.legend(fontsize=7)
    return figure


def penalty_chart(plt: Any) -> Any:
    """Draw figures 7 and 8: accuracies above and times below, against C."""
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.6), sharex="col")
    records = [r for r in kept("machines").values() if "C" in r["case"]]
    for column, name in enumerate(FIGURE_EXPONENTS):
        found = [(r["case"]["C"], r["found"]) for r in records if r["case"]["set"] == name]
        found.sort(key=lambda pair: pair[0])
        for method, style in CURVE_STYLES.items():
            for place, what in enumerate(("accuracy", "time")):
                values = [of[f"{method} {what}"] for _, of in found]
                axes[place, column].plot([C for C, _ in found], values, style, label=method)
        axes[0, column].set_title(name, fontsize=9)
        if not found:
            continue
        axes[1, column].set_xlabel("C")
        axes[1, column].set_yscale("log")
        axes[1, column].set_xscale("log")
        axes[0, column].legend(fontsize=7)
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("seconds / cvm at the least C")
    return figure


STUDY_TABLES = {"machines": machines}
CHART_FUNCTIONS = {
    "frandi_series": series_chart,
    "frandi_single": single_chart,
    "frandi_penalty": penalty_chart,
}
