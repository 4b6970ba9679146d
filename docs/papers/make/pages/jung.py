"""Tables and figures of the page on Jung, O'Leary and Tits, from what the studies kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.papers.make.pages.markdown import head, row
from docs.papers.make.printed import SUPPORT_TABLE
from docs.papers.make.runs import Case, kept

ROW_FORMS = ("printed", "safeguard", "default")
CURVE_STYLES = ("C0o-", "C1s--", "C2^:", "C3v-.", "C4x-")
GAP_TOLERANCE = 1e-8
TABLE_SHARES = (1.0, 0.6, 0.4, 0.2)
"""Values of q_U in the table; the file of results has more."""


def supports(records: list[Case]) -> Iterator[str]:
    """Yield table 5.1."""
    names = ("points (+/-)", "features", "support vectors", "printed", "on-boundary", "printed")
    yield from head(1, "Data", *names)
    for record in records:
        case, found = record["case"], record["found"]
        if case["item"] == "table 5.1":
            support, on = SUPPORT_TABLE[case["set"]]
            yield row(
                case["set"], counted(found["points"]), found["features"],
                counted(found["support"]), counted(support), counted(found["on"]), counted(on),
            )  # fmt: skip


def counted(numbers: Any) -> str:
    """Return all, and of each class."""
    if numbers is None:
        return "not in the text"
    together, positive, negative = numbers
    return f"{together:,} ({positive:,}/{negative:,})"


def rows(records: list[Case]) -> Iterator[str]:
    """Yield iterations, shares of rows and ratios of seconds of each form."""
    names = [f"{form}: iterations, rows, time" for form in ROW_FORMS]
    yield from head(2, "Data", "Variant", "q_U / m", "unreduced", *names)
    for record in records:
        case, found = record["case"], record["found"]
        if case["share"] not in TABLE_SHARES:
            continue
        cells = []
        for form in ROW_FORMS:
            if found[f"{form} gap"] > GAP_TOLERANCE:
                cells.append("not ended")
                continue
            parts = [found[f"{form} {what}"] for what in ("iterations", "rows", "time")]
            cells.append("{}, {:.2f}, {:.2f}".format(*parts))
        unreduced = found["unreduced iterations"]
        yield row(case["set"], case["variant"], case["share"], unreduced, *cells)


def lowrank(records: list[Case]) -> Iterator[str]:
    """Yield errors, ratios of seconds and accuracies."""
    names = ("error, EIGS", "CHOL", "time, EIGS / CHOL")
    yield from head(1, "Data", "m", "ranks", *names)
    for record in records:
        case, found = record["case"], record["found"]
        if case["figure"] == "5.7":
            errors = [f"{found[f'{name} error']:.1e}" for name in ("EIGS", "CHOL")]
            ranks = f"{case['EIGS']}, {case['CHOL']}"
            ratio = f"{found['EIGS over CHOL']:.2g}"
            yield row(case["set"], f"{found['m']:,}", ranks, *errors, ratio)
    yield ""
    parts = [
        f"{name}, {what}" for name in ("EIGS", "CHOL") for what in ("approximation", "training")
    ]
    accuracies = [f"accuracy, {name}" for name in ("LIBSVM", "EIGS", "CHOL")]
    yield from head(1, "Data", "m", *parts, *accuracies)
    for record in records:
        case, found = record["case"], record["found"]
        if case["figure"] == "5.8":
            times = [f"{found[name.replace(', ', ' ')]:.2g}" for name in parts]
            shares = [f"{found[name.split(', ')[1] + ' accuracy']:.2f}" for name in accuracies]
            yield row(case["set"], f"{found['m']:,}", *times, *shares)
    yield ""
    yield from matrices(records)


def matrices(records: list[Case]) -> Iterator[str]:
    """Yield iterations and ratios of seconds of (4.2) beside the matrix of the factor."""
    names = ("gamma", "condition of K_BB", "iterations, factor", "(4.2)", "time, (4.2) / factor")
    yield from head(1, "Data", "rank", *names)
    for record in records:
        case, found = record["case"], record["found"]
        if case["figure"] == "(4.2)":
            counts = [f"{found[f'{kind} iterations']}" for kind in ("factor", "columns")]
            yield row(
                case["set"], case["rank"], f"{case['width']:g} / 123", f"{found['condition']:.0e}",
                *counts, f"{found['columns over factor']:.2f}",
            )  # fmt: skip


def rows_chart(plt: Any) -> Any:
    """Draw figures 5.2 to 5.4: a column each, seconds above and iterations below."""
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.6), sharex=True)
    variants = (
        ("omega, adaptive, balanced", "omega, adaptive, not balanced"),
        ("omega, adaptive, balanced", "omega, fixed, balanced"),
        ("omega, adaptive, balanced", "one-sided, adaptive, balanced"),
    )
    found = [(r["case"], r["found"]) for r in kept("rows").values()]
    for column, (name, pair) in enumerate(
        zip(("isolet", "letter", "mushrooms"), variants, strict=True)
    ):
        for variant, style in zip(pair, CURVE_STYLES, strict=False):
            points = [
                (case["share"], of["printed time"], of["printed iterations"])
                for case, of in found
                if (case["set"], case["variant"]) == (name, variant)
                and of["printed gap"] <= GAP_TOLERANCE
            ]
            share, seconds, iterations = zip(*points, strict=True)
            axes[0, column].plot(share, seconds, style, label=variant)
            axes[1, column].plot(share, iterations, style, label=variant)
        axes[0, column].set_title(f"figure 5.{column + 2}: {name}", fontsize=9)
        axes[0, column].legend(fontsize=7)
        axes[1, column].set_xlabel("q_U / m")
    axes[0, 0].set_ylabel("seconds / unreduced")
    axes[1, 0].set_ylabel("iterations")
    return figure


def run_chart(plt: Any) -> Any:
    """Draw figure 5.5: rows above and mu below, in each iteration."""
    figure, axes = plt.subplots(2, 2, figsize=(8.0, 5.6), sharex="col")
    for column, name in enumerate(("waveform", "letter")):
        records = [r for r in kept("supports").values() if r["case"]["set"] == name]
        followed = [r for r in records if r["case"]["item"] == "figure 5.5"]
        for record, style in zip(followed, CURVE_STYLES, strict=False):
            share = record["case"]["share"]
            label = "all rows" if share is None else f"q_U = {share:g} m"
            axes[0, column].plot(record["found"]["rows"], style, ms=3, label=label)
            axes[1, column].semilogy(record["found"]["mu"], style, ms=3, label=label)
        axes[0, column].set_title(name, fontsize=9)
        axes[1, column].set_xlabel("iteration")
    axes[0, 0].set_ylabel("rows of Q")
    axes[1, 0].set_ylabel("mu")
    axes[0, 1].legend(fontsize=7)
    return figure


def lowrank_chart(plt: Any) -> Any:
    """Draw figures 5.7 a, b and 5.8 a, b."""
    figure, axes = plt.subplots(2, 2, figsize=(8.0, 6.0))
    found = [(r["case"], r["found"]) for r in kept("lowrank").values()]
    by_rank = sorted(
        ((c, f) for c, f in found if c["figure"] == "5.7" and c["EIGS"] == c["CHOL"]),
        key=lambda pair: pair[0]["EIGS"],
    )
    by_size = [(c, f) for c, f in found if c["figure"] == "5.7" and c["EIGS"] != c["CHOL"]]
    trained = [(c, f) for c, f in found if c["figure"] == "5.8"]
    for name, style in zip(("EIGS", "CHOL"), CURVE_STYLES, strict=False):
        ranks = [c[name] for c, _ in by_rank]
        axes[0, 0].loglog(ranks, [f[f"{name} error"] for _, f in by_rank], style, label=name)
        label = f"{name}, rank {by_size[0][0][name]}"
        sizes = [f["m"] for _, f in by_size]
        axes[0, 1].loglog(sizes, [f[f"{name} error"] for _, f in by_size], style, label=label)
        sizes = [f["m"] for _, f in trained]
        parts = [(f[f"{name} approximation"], f[f"{name} training"]) for _, f in trained]
        both = [sum(part) for part in parts]
        axes[1, 0].loglog(sizes, both, style, label=f"CRSVM (+{name})")
        axes[1, 1].loglog(sizes, [part[0] for part in parts], style, label=f"{name}: approximation")
        axes[1, 1].loglog(sizes, [part[1] for part in parts], style, mfc="w", label="training")
    axes[1, 0].axhline(1.0, color="k", label="LIBSVM")
    for axis, title, label in (
        (axes[0, 0], "5.7a: error on a5a", "rank"),
        (axes[0, 1], "5.7b: error", "points"),
        (axes[1, 0], "5.8a: seconds / LIBSVM", "points"),
        (axes[1, 1], "5.8b: seconds / LIBSVM", "points"),
    ):
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(label)
        axis.legend(fontsize=7)
        axis.xaxis.set_minor_formatter("")
    return figure


STUDY_TABLES = {"supports": supports, "rows": rows, "lowrank": lowrank}
CHART_FUNCTIONS = {"jung_rows": rows_chart, "jung_run": run_chart, "jung_lowrank": lowrank_chart}
