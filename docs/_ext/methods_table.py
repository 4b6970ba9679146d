"""Directives that print what the code declares: the methods, and the statuses of a solve.

``methods-table``: one row per entry of ``qpsvm.solvers.methods.METHODS``. ``statuses-table``: one row per
member of ``qpsvm.Status``. Both are read when the docs are built, so that they cannot go stale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

SPHINX_LOG = logging.getLogger(__name__)


def smallest_problems() -> dict[str, Any]:
    """Return one tiny problem of each formulation, by the name of its class."""
    import qpsvm

    X = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    K = qpsvm.Linear(X)
    general = {"A": X, "b": y, "Q": X.T @ X, "c": np.ones(2), "domain": qpsvm.domains.hypercube(2)}
    smooth = {"value": lambda x: 0.5 * float(x @ x), "gradient": np.copy, "smoothness": 1.0}
    arguments = {"K": K, "X": X, "y": y, **general, **smooth}
    problems = {}
    for name in qpsvm.__all__:
        formulation = getattr(qpsvm, name)
        if not getattr(formulation, "__module__", "").startswith("qpsvm.formulations"):
            continue
        if formulation is qpsvm.Formulation or not hasattr(formulation, "recover"):
            continue
        wanted = formulation.__dataclass_fields__.keys() & arguments.keys()
        problems[name] = formulation(**{key: arguments[key] for key in wanted})
    return problems


def methods_rows() -> list[list[Any]]:
    """Return the cells of the table of methods, the first row being the head."""
    import qpsvm
    from qpsvm.solvers.methods import METHODS

    fits = {name: qpsvm.methods(problem) for name, problem in smallest_problems().items()}
    rows: list[list[Any]] = [["Method", "What it is", "Fits", "Reaches", "Source"]]
    for name, method in METHODS.items():
        problems = [problem for problem, names in fits.items() if name in names]
        reached = f"a relative gap of {method.gap:.0e} within {budget(method.budget)}"
        rows.append([[name], method.summary, problems, reached, method.source])
    return rows


def budget(value: Any) -> str:
    """Say a budget: a count of iterations, or the words it is declared in."""
    return f"{value:,} iterations" if isinstance(value, int) else str(value)


def status_rows() -> list[list[Any]]:
    """Return the cells of the table of statuses, the first row being the head."""
    from qpsvm import Status

    rows: list[list[Any]] = [["Status", "`print(result)` says"]]
    rows += [[[status.name], status.value] for status in Status]
    return rows


class Table(SphinxDirective):
    """A table of the rows that `rows` returns; a list of names is set in code type."""

    rows: Any
    widths: tuple[int, ...]

    def run(self) -> list[nodes.Node]:
        try:
            head, *body = type(self).rows()
        except ImportError as problem:
            SPHINX_LOG.warning("%s: qpsvm cannot be imported (%s)", self.name, problem)
            return [nodes.paragraph(text="(made from the code; not available in this build)")]
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=width) for width in self.widths]
        group += nodes.thead("", self.row(head))
        group += nodes.tbody("", *map(self.row, body))
        return [nodes.table("", group, classes=["colwidths-given"])]

    def row(self, cells: list[Any]) -> nodes.row:
        entries = (nodes.entry("", nodes.paragraph("", "", *self.cell(cell))) for cell in cells)
        return nodes.row("", *entries)

    def cell(self, content: str | list[str]) -> list[nodes.Node]:
        if isinstance(content, str):
            return self.parse_inline(content)[0]
        found: list[nodes.Node] = []
        for name in content:
            found += [nodes.Text(", ")] if found else []
            found += [nodes.literal(text=name)]
        return found or [nodes.Text("none yet")]


class MethodsTable(Table):
    rows = staticmethod(methods_rows)
    widths = (10, 34, 20, 16, 20)


class StatusesTable(Table):
    rows = staticmethod(status_rows)
    widths = (25, 75)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("statuses-table", StatusesTable)
    return {"parallel_read_safe": True}
