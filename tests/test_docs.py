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

PROJECT_ROOT = Path(__file__).resolve().parents[1]
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGE_PARSERS = {
    ".md": markdown.PythonCodeBlockParser(doctest_optionflags=DOCTEST_FLAGS),
    ".rst": rest.DocTestParser(optionflags=DOCTEST_FLAGS),
}
CODE_MARKS = {".md": "```python\n", ".rst": ">>> "}
PAGE_FILES = [
    page
    for page in [PROJECT_ROOT / "README.md", *sorted((PROJECT_ROOT / "docs").rglob("*"))]
    if page.suffix in CODE_MARKS
    and not {"_build", "auto_gallery"} & set(page.parts)
    and CODE_MARKS[page.suffix] in page.read_text(encoding="utf-8")
]


def test_the_pages_that_people_start_from_have_code():
    assert {"README.md", "index.md", "getting_started.md"} <= {page.name for page in PAGE_FILES}


@pytest.mark.parametrize(
    "page", PAGE_FILES, ids=lambda page: page.relative_to(PROJECT_ROOT).as_posix()
)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for example in Document.parse(str(page), PAGE_PARSERS[page.suffix]).examples():
        example.evaluate()
