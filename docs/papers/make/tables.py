"""The tables of the studies, from what is kept, put into the pages of the papers.

    python -m docs.papers.make.tables --write

Each stands between two lines `<!-- study: begin -->` and `<!-- study: end -->` of a page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from docs.papers.make.items import PAGE_FOLDER
from docs.papers.make.pages import frandi, jung, zhou
from docs.papers.make.pages.markdown import head, row
from docs.papers.make.polytopes import METHOD_TITLES
from docs.papers.make.printed import POLYNOMIAL_TABLE
from docs.papers.make.runs import Case, kept

STUDY_PAGES = {
    "polytopes": "kumar",
    "polynomial": "frandi",
    **dict.fromkeys(frandi.STUDY_TABLES, "frandi"),
    **dict.fromkeys(jung.STUDY_TABLES, "jung"),
    **dict.fromkeys(zhou.STUDY_TABLES, "zhou"),
}
"""The page of each study."""


def polytopes(records: list[Case]) -> Iterator[str]:
    """Yield iterations and supports, a line for each problem."""
    yield from head(0, "m", "chi", "epsilon", *METHOD_TITLES.values(), "support of Algorithm 1")
    found: dict[tuple, dict[str, Case]] = {}
    for record in records:
        case = record["case"]
        problem = case["m"], case["chi"], case["epsilon"]
        found.setdefault(problem, {})[case["method"]] = record["found"]
    for (m, chi, epsilon), by_method in found.items():
        cells = [counted(by_method.get(method)) for method in METHOD_TITLES]
        support = by_method["mfw"]["support"] if "mfw" in by_method else ""
        yield row(f"{m:,}", f"{chi:g}", f"{epsilon:.0e}", *cells, support)


def counted(found: Case | None) -> str:
    """Return a number of iterations, or the limit and the gap that was left."""
    if found is None:
        return "not run"
    at_limit = "" if found["status"] == "OPTIMAL" else f", gap {found['gap']:.0e}"
    return f"{found['iterations']:,}{at_limit}"


def polynomial(records: list[Case]) -> Iterator[str]:
    """Yield accuracies beside those of table 8."""
    names = ("C", "printed", "ours", "iterations", "support", "largest gap")
    yield from head(2, "Data", "Method", *names)
    for record in records:
        case, found = record["case"], record["found"]
        mean, deviation = POLYNOMIAL_TABLE[case["set"]][("fw", "mfw").index(case["method"])]
        ours = f"{found['accuracy']:.2f} ± {found['deviation']:.2g}"
        counts = f"{found['iterations']:,}", f"{found['support']:,}", f"{found['gap']:.2g}"
        C = f"{found['C']:g}"
        yield row(case["set"], case["method"], C, f"{mean:.2f} ± {deviation:.2g}", ours, *counts)


STUDY_TABLES = {
    "polytopes": polytopes,
    "polynomial": polynomial,
    **frandi.STUDY_TABLES,
    **jung.STUDY_TABLES,
    **zhou.STUDY_TABLES,
}
"""What makes the lines of each study."""


def table(study: str) -> str:
    """Return the table of a study, and where its records come from."""
    records = list(kept(study).values())
    origins = {tuple(record["origin"].values()) for record in records}
    made = "; ".join(sorted(f"{m}, {date}, commit `{commit}`" for m, date, commit, _ in origins))
    return "\n".join([*STUDY_TABLES[study](records), "", f"{len(records)} cases: {made}."])


def main() -> None:
    """Print the tables, or write them into the pages."""
    for study, page in STUDY_PAGES.items():
        file = PAGE_FOLDER / f"{page}.md"
        text, begin, end = file.read_text(encoding="utf-8"), *marks(study)
        if "--write" not in sys.argv[1:]:
            print(table(study))
        elif begin in text:
            before, _, rest = text.partition(begin)
            after = rest.partition(end)[2]
            file.write_text(f"{before}{begin}\n{table(study)}\n{end}{after}", encoding="utf-8")


def marks(study: str) -> tuple[str, str]:
    """Return the lines between which the table of a study stands."""
    return f"<!-- {study}: begin -->", f"<!-- {study}: end -->"


if __name__ == "__main__":
    main()
