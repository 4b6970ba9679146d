"""Sphinx settings: numpydoc docstrings, MyST pages, no network at build time."""

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

project = "qpsvm"
author = "The qpsvm developers"
copyright = "2026, The qpsvm developers"
release = version = import_module("qpsvm").__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "layers_picture",
    "methods_table",
    "public_names",
]
exclude_patterns = ["_build"]
smartquotes = False  # a prime in x'z is not an apostrophe
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["amsmath", "dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's Parameters sections state types and shapes
autosummary_generate = False
numpydoc_show_class_members = False  # autodoc shows them, once

html_theme = "pydata_sphinx_theme"
html_title = f"qpsvm {version}"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
