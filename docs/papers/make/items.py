"""The items of the papers' pages: their rows, and the number of items with each status.

    python -m docs.papers.make.items            # print the table of counts
    python -m docs.papers.make.items --write    # put it into docs/papers/index.md

The rows are those of the Markdown tables whose first heading is "Item". `tests/papers/test_pages.py`
checks that every file, test and page that a row names is there, and that the table of the index is up
to date.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGE_FOLDER = Path(__file__).resolve().parents[1]
"""Folder of the papers' pages."""

PAPER_PAGES = {
    "frandi": "Frandi et al.",
    "kumar": "Kumar and Yıldırım",
    "garber": "Garber and Wolf",
    "zhou": "Zhou et al.",
    "jung": "Jung et al.",
}
"""Names of the pages, in the order of the index, with the titles of their papers."""

ITEM_STATUSES = ("reproduced", "differs", "not yet", "not to be had")
"""Words with which a status begins; a colon and the reason follow all but the first."""

TABLE_BEGIN, TABLE_END = "<!-- counts: begin -->", "<!-- counts: end -->"
"""Lines of the index between which the table stands."""


class Item(NamedTuple):
    """A row: a numbered item of a paper."""

    paper: str
    name: str
    what: str
    files: str
    tests: str
    reproduction: str
    status: str

    @property
    def kind(self) -> str:
        """Return the word of `ITEM_STATUSES` that the status begins with, or "" where it is none."""
        return next((kind for kind in ITEM_STATUSES if self.status.startswith(kind)), "")

    @property
    def reason(self) -> str:
        """Return the text after the colon of the status."""
        return self.status.partition(": ")[2]


def items(paper: str) -> list[Item]:
    """Return the rows of a page in order."""
    found, is_inside = [], False
    for line in (PAGE_FOLDER / f"{paper}.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            is_inside = False
        elif cells[0] == "Item":
            is_inside = True
        elif is_inside and not cells[0].startswith("---"):
            found.append(Item(paper, *cells))
    return found


def table() -> str:
    """Return the table of counts in Markdown."""
    lines = [f"| Paper | items | {' | '.join(ITEM_STATUSES)} |", "|---" + "|---:" * 5 + "|"]
    total: Counter[str] = Counter()
    for paper, title in PAPER_PAGES.items():
        counts = Counter(item.kind for item in items(paper))
        total += counts
        lines.append(row(f"[{title}]({paper}.md)", counts))
    return "\n".join([*lines, row("together", total)])


def row(title: str, counts: Counter[str]) -> str:
    """Return a line of the table."""
    cells = [title, sum(counts.values()), *(counts[kind] for kind in ITEM_STATUSES)]
    return "| " + " | ".join(map(str, cells)) + " |"


def between(text: str) -> str:
    """Return the text between the two marked lines of the index."""
    return text.split(TABLE_BEGIN + "\n")[1].split("\n" + TABLE_END)[0]


def main() -> None:
    """Print the table, or write it into the index."""
    index = PAGE_FOLDER / "index.md"
    if "--write" in sys.argv[1:]:
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace(between(text), table()), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
