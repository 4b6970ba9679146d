"""The directive ``public-names``: document what ``qpsvm`` exports from some of its modules.

``.. public-names:: qpsvm.formulations`` documents every name of ``qpsvm.__all__`` that is defined
there or below, after a table of them. ``.. public-names::`` without a module documents all that no
other page of the reference asked for, so that no public name can be forgotten.

``.. module-names:: qpsvm.plot`` documents the public names of one module, defined there or below.

Docstrings write a norm as ``|w|``, which reStructuredText would take for a substitution; the bars
are escaped on the way.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

SPHINX_LOG = logging.getLogger(__name__)


class PublicNames(SphinxDirective):
    optional_arguments = 100

    def run(self) -> list[nodes.Node]:
        try:
            import qpsvm
        except ImportError as problem:
            SPHINX_LOG.warning("%s: qpsvm cannot be imported (%s)", self.name, problem)
            return []
        asked = set(self.arguments)
        others = set() if asked else asked_elsewhere(Path(self.env.srcdir))
        names = []
        for name in qpsvm.__all__:
            thing = getattr(qpsvm, name)
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            module = getattr(thing, "__module__", "")
            if below(module, asked) if asked else not below(module, others):
                names.append(name)
        if not names:
            return []
        return self.parse_text_to_nodes("\n".join(page(qpsvm, names)))


class ModuleNames(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        listed = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        names = [
            name
            for name in listed
            if callable(getattr(module, name))
            and below(getattr(getattr(module, name), "__module__", ""), {module.__name__})
        ]
        return self.parse_text_to_nodes("\n".join(page(module, names)))


def below(module: str, roots: set[str]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


def asked_elsewhere(folder: Path) -> set[str]:
    """Return the modules that the other pages of the reference name."""
    text = "\n".join(path.read_text() for path in sorted((folder / "api").glob("*.rst")))
    return set(" ".join(re.findall(r"^\.\. public-names::(.*)$", text, re.M)).split())


def page(package: Any, names: list[str]) -> list[str]:
    """Return the text: a table with a line for each name, then each name in full."""
    lines = [
        f".. currentmodule:: {package.__name__}",
        "",
        ".. autosummary::",
        "   :nosignatures:",
        "",
    ]
    lines += [f"   {name}" for name in names]
    for name in names:
        thing = getattr(package, name)
        if inspect.isclass(thing):
            kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
            lines += ["", f".. {kind}:: {name}"]
            if kind == "autoclass":
                lines += ["   :members:"]
        else:
            lines += ["", f".. {'autofunction' if callable(thing) else 'autodata'}:: {name}"]
    return lines


def escape_bars(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Escape each bar outside of literals and formulas, in place."""
    formula = -1  # the indentation of the math directive that the line belongs to
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= formula:
            formula = -1
        if line.lstrip().startswith(".. math::"):
            formula = indent
        if formula < 0:
            parts = re.split(r"(``.+?``|`.+?`)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "".join(parts)


def hide_private(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Leave out parameters that begin with an underscore: no program passes them."""
    if signature and re.search(r"[(, ]_\w", signature):
        kept = [part for part in signature.strip("()").split(", ") if not part.startswith("_")]
        return f"({', '.join(kept)})", returns
    return None


def skip_generated(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out the methods that scikit-learn makes for metadata routing: their text is its own."""
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public-names", PublicNames)
    app.add_directive("module-names", ModuleNames)
    app.connect("autodoc-skip-member", skip_generated)
    app.connect("autodoc-process-signature", hide_private)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after numpydoc
    return {"parallel_read_safe": True}
