"""What the pages of the papers name, is there: files, tests, pages, sections; the counts are theirs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.papers.make.items import ITEM_STATUSES, PAGE_FOLDER, PAPER_PAGES, between, items, table

PROJECT_ROOT = Path(__file__).resolve().parents[2]
ALL_ITEMS = [item for paper in PAPER_PAGES for item in items(paper)]
FEWEST_ITEMS = {"frandi": 22, "kumar": 8, "garber": 24, "zhou": 19, "jung": 21}
"""Numbered algorithms, definitions, theorems, tables and figures of each paper."""

each = pytest.mark.parametrize("item", ALL_ITEMS, ids=lambda item: f"{item.paper}: {item.name}")
pages = pytest.mark.parametrize(
    "page", sorted(PAGE_FOLDER.glob("*.md")), ids=lambda page: page.stem
)


def functions(path):
    """Return the names of the functions of a test file."""
    tree = ast.parse((PROJECT_ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def slugs(page):
    """Return the names under which a page's headings can be linked."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each
def test_no_cell_is_empty_and_a_status_has_its_reason(item):
    assert all(item), item
    assert item.kind in ITEM_STATUSES, item.status
    assert item.kind == "reproduced" or item.reason, item.status


@each
def test_an_item_that_is_reproduced_has_a_test_or_a_page(item):
    assert item.kind != "reproduced" or {item.tests, item.reproduction} != {"none"}


@each
def test_the_files_are_there(item):
    for name in re.findall(r"`([^`]+)`", item.files):
        assert (PROJECT_ROOT / name).exists() or (PROJECT_ROOT / "qpsvm" / name).exists(), name


@each
def test_the_tests_are_there(item):
    named = re.findall(r"`([^`]+)`", item.tests)
    assert bool(named) != (item.tests == "none")
    for name in named:
        path, _, function = name.partition("::")
        assert function in functions(path), name


@pages
def test_the_tests_that_a_page_names_are_there(page):
    for name in re.findall(r"`(tests/[^`]+\.py::\w+)`", page.read_text(encoding="utf-8")):
        path, _, function = name.partition("::")
        assert function in functions(path), name


@pages
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http") or "auto_gallery" in target:
            continue
        name, _, section = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        assert not section or section in slugs(other), target


def test_every_numbered_item_has_a_row():
    for paper, fewest in FEWEST_ITEMS.items():
        names = [item.name for item in ALL_ITEMS if item.paper == paper]
        assert len(set(names)) == len(names) >= fewest, paper


def test_the_index_counts_what_the_pages_have():
    """`python -m docs.papers.make.items --write` puts the table there."""
    assert between((PAGE_FOLDER / "index.md").read_text(encoding="utf-8")) == table()
