"""What the pages show, runs: their Python blocks in order, in one namespace a page.

A block with ``>>>`` prints what it shows. sybil reads and evaluates the blocks; a page is one test, since
its blocks need each other, and pytest-xdist may give single tests to different processes.
"""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from sybil.document import Document
from sybil.parsers import markdown, rest

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PARSERS = {
    ".md": markdown.PythonCodeBlockParser(doctest_optionflags=FLAGS),
    ".rst": rest.DocTestParser(optionflags=FLAGS),
}
MARKS = {".md": "```python\n", ".rst": ">>> "}
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*"))]
    if page.suffix in MARKS
    and not {"_build", "auto_gallery"} & set(page.parts)
    and MARKS[page.suffix] in page.read_text(encoding="utf-8")
]


def test_the_pages_that_people_start_from_have_code():
    assert {"README.md", "index.md", "getting_started.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for example in Document.parse(str(page), PARSERS[page.suffix]).examples():
        example.evaluate()
