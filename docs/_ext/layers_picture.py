"""A directive that draws which part of a package imports which: read from the sources with `ast`.

``layers-picture``: the folders and loose files of ``qpsvm/``, each above all that it imports. An argument
names a folder in its place, such as ``solvers``. The picture is made when the docs are built, so that
it cannot go stale. HTML shows it as SVG; other builders list the layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PROJECT_ROOT = Path(__file__).resolve().parents[2]
BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, PICTURE_MARGIN = 122, 40, 16, 46, 12
MAX_BOXES_PER_ROW = 6
MIN_ROW_SLOTS = 5
LATE_IMPORTS = {("result", "plot")}  # `Result.plot`; see tests/test_architecture.py

Graph = dict[str, set[str]]


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the dotted names of all that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_of(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each folder and loose file in a package."""
    parts: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).parts[0].removesuffix(".py")
        if name not in ("__init__", "__main__"):
            parts.setdefault(name, []).append(path)
    return parts


def import_graph(folder: Path) -> Graph:
    """Return the parts of a package that each part imports."""
    parts = parts_of(folder)
    prefix = ".".join(folder.relative_to(PROJECT_ROOT).parts) + "."
    graph: Graph = {}
    for name, paths in parts.items():
        modules = {module for path in paths for module in imported_modules(path)}
        inside = {m.removeprefix(prefix).split(".")[0] for m in modules if m.startswith(prefix)}
        if folder.name in modules and name != "api":  # the public names, of which solve is one
            inside.add("api")
        late = {above for part, above in LATE_IMPORTS if part == name}
        graph[name] = (inside & parts.keys()) - {name} - late
    return graph


def ranks_of(graph: Graph) -> dict[str, int]:
    """Return the number of layers beneath each part; an import circle is an error."""
    ranks: dict[str, int] = {}
    while len(ranks) < len(graph):
        ready = [name for name in graph if name not in ranks and graph[name] <= ranks.keys()]
        if not ready:
            raise ValueError(f"these import each other: {sorted(graph.keys() - ranks.keys())}")
        found = {
            name: 1 + max((ranks[below] for below in graph[name]), default=-1) for name in ready
        }
        ranks.update(found)
    return ranks


def reachable(graph: Graph, name: str) -> set[str]:
    """Return all that a part imports, directly or not."""
    return graph[name].union(*(reachable(graph, below) for below in graph[name]))


def direct_edges(graph: Graph) -> list[tuple[str, str]]:
    """Return the imports that do not follow from others: the transitive reduction."""
    edges = []
    for name, below in sorted(graph.items()):
        implied = set().union(*(reachable(graph, other) for other in below))
        edges += [(name, other) for other in sorted(below - implied)]
    return edges


def rows_of(graph: Graph, ranks: dict[str, int]) -> list[list[str]]:
    """Return the parts of each layer, the top one first, near the middle of what they import."""
    place: dict[str, float] = {}
    rows: list[list[str]] = []
    for rank in range(max(ranks.values()) + 1):
        layer = sorted(name for name in graph if ranks[name] == rank)
        middle = {
            name: sum(place[b] for b in graph[name]) / max(len(graph[name]), 1) for name in layer
        }
        layer.sort(key=lambda name: (middle[name], name))
        for start in range(0, len(layer), MAX_BOXES_PER_ROW):
            row = layer[start : start + MAX_BOXES_PER_ROW]
            place.update({name: n - len(row) / 2 for n, name in enumerate(row)})
            rows.append(row)
    return rows[::-1]


def svg(folder: Path) -> str:
    """Return the picture of a package's layers."""
    graph, parts = import_graph(folder), parts_of(folder)
    rows = rows_of(graph, ranks_of(graph))
    slots = max(MIN_ROW_SLOTS, *(len(row) for row in rows))
    width = 2 * PICTURE_MARGIN + slots * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP
    height = 2 * PICTURE_MARGIN + len(rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    corner = {}
    for r, row in enumerate(rows):
        left = (width - len(row) * (BOX_WIDTH + COLUMN_GAP) + COLUMN_GAP) / 2
        for n, name in enumerate(row):
            at = left + n * (BOX_WIDTH + COLUMN_GAP), PICTURE_MARGIN + r * (BOX_HEIGHT + ROW_GAP)
            corner[name] = at
    title = f"Layers of {folder.name}: each part imports what lines lead down to"
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="max-width: {width}px; width: 100%" font-family="sans-serif" font-size="14" '
        f'fill="currentColor"><title>{escape(title)}</title>'
    ]
    for above, below in direct_edges(graph):
        (x, y), (u, v) = corner[above], corner[below]
        x, u, y = x + BOX_WIDTH / 2, u + BOX_WIDTH / 2, y + BOX_HEIGHT
        drawn.append(
            f'<path d="M{x:g} {y:g} C{x:g} {y + ROW_GAP:g} {u:g} {v - ROW_GAP:g} {u:g} {v:g}" '
            f'fill="none" stroke="currentColor" stroke-opacity="0.45"/>'
        )
    for name, (x, y) in corner.items():
        is_folder, n = (folder / name).is_dir(), len(parts[name])
        label = f"{name}/" if is_folder else f"{name}.py"
        detail = f"{n} files" if is_folder else ""
        drawn.append(
            f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
            f'style="fill: var(--pst-color-surface, #f3f4f5)" stroke="currentColor"/>'
        )
        middle = x + BOX_WIDTH / 2
        drawn.append(
            f'<text x="{middle:g}" y="{y + (18 if detail else 25):g}" '
            f'text-anchor="middle">{escape(label)}</text>'
        )
        if detail:
            drawn.append(
                f'<text x="{middle:g}" y="{y + 33:g}" text-anchor="middle" '
                f'font-size="11">{detail}</text>'
            )
    return "\n".join([*drawn, "</svg>"])


def listing(folder: Path) -> str:
    """Return the layers in words, the top one first."""
    graph = import_graph(folder)
    return "\n".join("  ".join(row) for row in rows_of(graph, ranks_of(graph)))


class LayersPicture(SphinxDirective):
    """The layers of qpsvm, or of the folder that the argument names."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        folder = PROJECT_ROOT / "qpsvm" / (self.arguments[0] if self.arguments else "")
        for paths in parts_of(folder).values():
            for path in paths:
                self.env.note_dependency(str(path))
        in_words = addnodes.only("", nodes.literal_block(text=listing(folder)), expr="not html")
        return [nodes.raw("", svg(folder), format="html"), in_words]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("layers-picture", LayersPicture)
    return {"parallel_read_safe": True}
