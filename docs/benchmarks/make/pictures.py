"""The picture at the head of each page of benchmarks, from the numbers in the page's own tables.

    python -m docs.benchmarks.make.pictures

Nothing is measured. Each page gets its picture and one sentence below its title, where it lacks them. The
pictures of `kernel_svm`, `linear_dual` and `scaling` come from the scripts of their pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

PAGE_FOLDER = Path(__file__).resolve().parents[1]
PROGRAM_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PROGRAM_MARKERS = ("o", "s", "D", "^", "v", "P")
DATA_SETS = ("a9a", "w8a", "mnist-3-8", "mnist-odd", "mc20k", "gauss200k", "letter", "shuttle")

Row = dict[str, str]


def table(page: str, *columns: str) -> list[Row]:
    """Return the rows of the first table of a page that has these columns."""
    head: list[str] = []
    rows: list[Row] = []
    for line in (PAGE_FOLDER / f"{page}.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            if rows and set(columns) <= set(head):
                return rows
            head, rows = [], []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = cells
        elif not set(line) <= set("|-: "):
            rows.append(dict(zip(head, cells, strict=True)))
    if rows and set(columns) <= set(head):
        return rows
    raise LookupError(f"{page}.md has no table with the columns {columns}")


def number(cell: str) -> float:
    """Return the number that a cell begins with; NaN where it begins with words."""
    found = re.match(r"[0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?", cell)
    return float(found[0].replace(",", "")) if found else float("nan")


def pick(rows: Iterable[Row], column: str, **equal: str) -> float:
    """Return a number of the first row with these cells; NaN where there is none."""
    for row in rows:
        if all(row[key.replace("_", " ")] == value for key, value in equal.items()):
            return number(row[column])
    return float("nan")


def dots(
    ax: Any, labels: Iterable[str], series: Mapping[str, list[float]], unit: str = "seconds"
) -> None:
    """Draw a row of marks for each label: on a logarithmic scale a bar would have no beginning."""
    labels = list(labels)
    for k in range(len(labels)):
        values = [v[k] for v in series.values() if not np.isnan(v[k])]
        ax.plot([min(values), max(values)], [k, k], color="0.8", lw=2, zorder=1)
    for name, color, marker in zip(series, PROGRAM_COLORS, PROGRAM_MARKERS, strict=False):
        ax.scatter(series[name], range(len(labels)), 42, color, marker=marker, label=name, zorder=2)
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel=unit)
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 200 * low else (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    columns = 4 if max(map(len, series)) < 24 else 1
    ax.legend(fontsize=9, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns)


def exact_kernel(ax: Any, sets: Iterable[str] = DATA_SETS) -> None:
    """Draw kernel training beside both peers."""
    rows = table("exact_kernel", "who", "seconds")
    names = {"qpsvm": "qpsvm", "scikit-learn-intelex": "sklearnex", "scikit-learn SVC": "SVC"}
    dots(
        ax,
        sets,
        {k: [pick(rows, "seconds", data=s, who=v) for s in sets] for k, v in names.items()},
    )


def geometry(ax: Any) -> None:
    """Draw balls and distances beside the exact peer."""
    rows = table("geometry", "mnp", "peer")
    labels = [f"{r['problem']}, {r['m']} x {r['d']}" for r in rows]
    values = {"qpsvm, mnp": "mnp", "cyminiball, or SVC for distances": "peer"}
    dots(ax, labels, {k: [number(r[v]) for r in rows] for k, v in values.items()})


def linear_svm(ax: Any) -> None:
    """Draw seconds to a gap of 1e-6 by solver."""
    rows = table("linear_svm", "data", "solver", "1e-6")
    sets = list(dict.fromkeys(r["data"] for r in rows))
    solvers = ("crsvm", "LinearSVC (no bias)", "PIQP", "Clarabel")
    dots(ax, sets, {s: [pick(rows, "1e-6", data=d, solver=s) for d in sets] for s in solvers})


def low_rank(ax: Any) -> None:
    """Draw seconds of the whole training against the rank."""
    rows = table("low_rank", "method", "rank", "total (s)")
    for color, name in zip(
        PROGRAM_COLORS, dict.fromkeys(r["method"] for r in rows[1:]), strict=False
    ):
        some = [r for r in rows if r["method"] == name]
        x, y = [number(r["rank"]) for r in some], [number(r["total (s)"]) for r in some]
        ax.loglog(x, y, "o-", color=color, label=name.replace("`", ""))
    ax.axhline(number(rows[0]["total (s)"]), color="0.4", ls=":", label="SVC on the kernel itself")
    ranks = sorted({number(r["rank"]) for r in rows[1:]})
    ax.set_xticks(ranks, [f"{rank:g}" for rank in ranks])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set(xlabel="rank", ylabel="seconds, factor and training")
    ax.legend(fontsize=9)


def multi_class(ax: Any) -> None:
    """Draw fits to several classes beside both peers."""
    rows = table("multi_class", "who", "fit")
    names = {"qpsvm": "qpsvm", "scikit-learn-intelex": "sklearnex", "scikit-learn SVC": "SVC"}
    sets = list(dict.fromkeys(r["data"] for r in rows))
    dots(ax, sets, {k: [pick(rows, "fit", data=s, who=v) for s in sets] for k, v in names.items()})


def prediction(ax: Any) -> None:
    """Draw seconds of a prediction for 50,000 points."""
    rows = table("prediction", "SVC s", "qpsvm s")
    labels = [f"{r['data']}, {r['precision']}" for r in rows]
    values = {"qpsvm": "qpsvm s", "scikit-learn SVC": "SVC s"}
    dots(ax, labels, {k: [number(r[v]) for r in rows] for k, v in values.items()})


def regression(ax: Any) -> None:
    """Draw seconds of regressions to a gap of 1e-3."""
    rows = table("regression", "epsilon", "SVR s")
    labels = [f"{r['data']}, C = {r['C']}, eps = {r['epsilon']}" for r in rows]
    values = {"qpsvm": "qpsvm s", "scikit-learn SVR": "SVR s"}
    dots(ax, labels, {k: [number(r[v]) for r in rows] for k, v in values.items()})


def search(ax: Any) -> None:
    """Draw seconds of searches beside both peers."""
    rows = table("search", "grid", "who", "seconds")
    places = list(dict.fromkeys((r["data"], r["grid"]) for r in rows))
    names = {"qpsvm": "SVCCV", "GridSearchCV": "GridSearchCV", "liquidSVM": "liquidSVM"}

    def seconds(place: tuple[str, str], who: str) -> float:
        own = [r for r in rows if (r["data"], r["grid"]) == place and r["who"].startswith(who)]
        return number(own[0]["seconds"]) if own else float("nan")

    labels = [f"{data}, {grid}" for data, grid in places]
    dots(ax, labels, {k: [seconds(at, who) for at in places] for k, who in names.items()})


def cold_start(ax: Any) -> None:
    """Draw seconds of a first solve with and without carried machine code."""
    rows = table("cold_start", "first solve", "installed")
    labels = [f"{r['first solve']}, {r['points']} points" for r in rows]
    values = {"installed": "installed", "no machine code carried": "nothing carried"}
    dots(ax, labels, {k: [number(r[v]) for r in rows] for k, v in values.items()})


def large(ax: Any) -> None:
    """Draw peak memory of the large problems."""
    rows = table("large", "GB before", "GB at the peak")
    labels = [f"{r['data']}, {r['problem']}, {r['method']}" for r in rows]
    values = {"data": "GB before", "peak": "GB at the peak"}
    dots(ax, labels, {k: [number(r[v]) for r in rows] for k, v in values.items()}, "GB of memory")
    ax.set_xscale("linear")
    ax.set_xlim(0.0, None)


def spine(ax: Any) -> None:
    """Draw seconds of every method on three families."""
    rows = table("spine", "problem", "method", "seconds")
    families = ("l2_svm/breast-cancer-rbf", "meb/digits-rbf", "polytope_distance/digits-linear")
    methods = list(dict.fromkeys(r["method"] for r in rows if r["problem"].strip("`") in families))
    dots(
        ax,
        methods,
        {f: [pick(rows, "seconds", problem=f"`{f}`", method=m) for m in methods] for f in families},
    )


def kernel_experiments(ax: Any) -> None:
    """Draw processor seconds with all points and with samples of 59."""
    rows = table("kernel_experiments", "plain", "`sampling=59`", "tol")
    last, labels = "", []
    for row in rows:
        last = row["problem"] or last
        labels.append(f"{last}, {row['method'].strip('`')}")
    values = {"all points": "plain", "samples of 59": "`sampling=59`"}
    series = {k: [number(r[v]) for r in rows] for k, v in values.items()}
    dots(ax, labels, series, "processor seconds")


def linear_experiments(ax: Any) -> None:
    """Draw seconds to 1e-3 of the two methods for linear hinge problems."""
    rows = [
        r for r in table("linear_experiments", "force", "`dcd`", "`crsvm`") if r["bias"] == "no"
    ]
    labels = [f"{r['data']}, C = {r['C']}" for r in rows]
    series = {k: [number(r[f"`{k}`"]) for r in rows] for k in ("dcd", "crsvm")}
    dots(ax, labels, series, "seconds to a gap of 1e-3, no bias")


def sparse(ax: Any) -> None:
    """Draw kernels on CSR points beside the peer, where it was measured."""
    rows = [r for r in table("sparse", "who", "seconds", "kernel") if r["data"] == "reuters"]
    names = {"qpsvm": "qpsvm", "scikit-learn-intelex": "sklearnex"}
    kernels = list(dict.fromkeys(r["kernel"] for r in rows))
    series = {
        k: [pick(rows, "seconds", kernel=s, who=v) for s in kernels] for k, v in names.items()
    }
    dots(ax, [f"reuters, {name}" for name in kernels], series)


def products(ax: Any) -> None:
    """Draw rates of products of many columns before, now, and of sgemm."""
    rows = [r for r in table("products", "instructions", "before", "now", "sgemm") if r["before"]]
    labels = [f"{r['instructions']}, {r['features']} x {r['columns']}" for r in rows]
    series = {k: [number(r[k]) for r in rows] for k in ("before", "now", "sgemm")}
    dots(ax, labels, series, "billions of operations a second, one thread")


def reliability(ax: Any) -> None:
    """Draw the answers called optimal and those that are proved, by tolerance."""
    rows = table("reliability", "`OPTIMAL`", "proved")
    labels = [f"tol = {r['`tol`'].strip('*')}" for r in rows]
    series = {k.strip("`"): [number(r[k]) for r in rows] for k in ("`OPTIMAL`", "proved")}
    dots(ax, labels, series, "answers")


PICTURE_HEIGHTS = {
    exact_kernel: 4.2, geometry: 2.6, linear_svm: 4.0, low_rank: 4.0, prediction: 2.8, regression: 5.0,
    cold_start: 4.2, large: 3.2, spine: 5.0, kernel_experiments: 5.6, linear_experiments: 4.6,
    multi_class: 3.2, sparse: 2.2, products: 4.2, reliability: 3.2, search: 4.2,
}  # fmt: skip
"""Height of each picture in inches."""


FIRST_SENTENCES = {
    "cold_start": "A first solve in a fresh process takes less than a second after an installation.",
    "exact_kernel": "At a gap of 1e-3 kernel training takes a fifth of the time of scikit-learn-intelex "
    "or less on every set of more than 2,000 points, and a thirteenth of the time of "
    "scikit-learn's SVC or less.",
    "geometry": "Distances take a quarter of the time of a hard-margin SVC; a ball of a million "
    "points in ten dimensions takes 1.2 times as long as the exact C++ package.",
    "kernel_experiments": "Samples of 59 points help `cvm` on large sets; they cost `fw` and `mfw` "
    "time on all but linear balls of hundreds of thousands of points.",
    "kernel_svm": "On the adult and web sets `decomposition` is the fastest method at nearly every "
    "size.",
    "large": "A million points fit into 6 GB: the balls are done in seconds, the overlapping "
    "machines are not.",
    "linear_dual": "Against C `crsvm` is the flattest, 0.016 to 0.027 s on a4a; `dcd` and LIBLINEAR are "
    "faster at small C.",
    "linear_experiments": "`dcd` is the faster one at small C, on w8a and on reuters, `crsvm` elsewhere.",
    "linear_svm": "To a gap of 1e-6 `crsvm` is the fastest solver on every set.",
    "low_rank": "A low-rank factor and training on it take 24 to 240 times less than SVC, at about "
    "the same accuracy.",
    "multi_class": "A fit to several classes is 3.2 to 17 times as fast as that of the faster peer, 5.2 "
    "times in the median.",
    "prediction": "A prediction takes a thirtieth to a hundred-and-fortieth of the time of SVC.",
    "products": "512 columns of 200 features and more reach 0.92 of the rate of sgemm or more on "
    "one thread.",
    "regression": "Regressions of 2,000 points and more are 3.2 to 28 times faster than scikit-learn's.",
    "reliability": "Of 6,344 answers called `OPTIMAL` on 10,000 random problems, 6,316 are proved by a "
    "judge of its own, 28 are beyond its 80 bits, none is refuted.",
    "scaling": "The time of an iteration grows more slowly than the number of points, while columns "
    "are cached.",
    "sparse": "On reuters a kernel machine takes a third of the time of scikit-learn-intelex or less.",
    "search": "A search of 5 x 5 cells takes 10 to 36 per cent of liquidSVM's time and 2 to 7 per cent "
    "of that of GridSearchCV, one of 10 x 10 cells 22 to 64 per cent of liquidSVM's.",
    "spine": "Every method reaches the gap that it promises on every family, most within 20 ms.",
}
"""What the picture says, as the first sentence of the page."""

OTHER_PICTURES = {
    "kernel_svm": "kernel_svm.png",
    "linear_dual": "linear_dual_C.png",
    "scaling": "scaling.png",
}
"""Pictures that are made elsewhere."""


def begin(page: str) -> None:
    """Put sentence and picture below the title of a page that does not begin with them."""
    path = PAGE_FOLDER / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    title, rest = text.split("\n", 1)
    file = OTHER_PICTURES.get(page, f"{page}.png")
    if f"({file})" not in rest[:600]:
        rest = re.sub(rf"!\[[^]]*\]\({file}\)\n\n", "", rest)  # it need not be there twice
        path.write_text(
            f"{title}\n\n**{FIRST_SENTENCES[page]}**\n\n![{FIRST_SENTENCES[page]}]({file})\n{rest}"
        )


def main() -> None:
    """Draw all pictures."""
    plt.rcParams["font.size"] = 10
    for draw, height in PICTURE_HEIGHTS.items():
        fig, ax = plt.subplots(figsize=(9.0, height), layout="constrained")
        draw(ax)
        fig.savefig(PAGE_FOLDER / f"{draw.__name__}.png", dpi=90)
        plt.close(fig)
    for page in FIRST_SENTENCES:
        begin(page)


if __name__ == "__main__":
    main()
