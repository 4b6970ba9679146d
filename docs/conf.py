"""Sphinx settings: numpydoc docstrings, MyST pages, a gallery that runs; no network is needed."""

import sys
from importlib import import_module
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

PROJECT_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "docs" / "_ext")]

project = "qpsvm"
author = "The qpsvm developers"
copyright = "2026, The qpsvm developers"
release = version = import_module("qpsvm").__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "layers_picture",
    "methods_table",
    "public_names",
]
exclude_patterns = ["make", "_build", "gallery", "**/README.md"]
default_role = "literal"  # a name in single backticks is code
smartquotes = False  # a prime in x'z is not an apostrophe
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["amsmath", "dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's Parameters sections state types and shapes
autosummary_generate = False
numpydoc_show_class_members = False  # autodoc shows them, once

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": ExplicitOrder(
        [
            f"plot_{name}.py"
            for name in (
                "svc",
                "multi_class",
                "search",
                "path",
                "one_class",
                "regression",
                "low_rank",
                "balls",
                "polytopes",
                "frank_wolfe",
                "flow",
                "ellipse",
            )
        ]
    ),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "reference_url": {"qpsvm": None},
    "doc_module": ("qpsvm",),
    "backreferences_dir": None,
    "plot_gallery": True,
    "nested_sections": False,
}
suppress_warnings = ["config.cache"]  # ExplicitOrder has no stable representation

copybutton_prompt_text = ">>> |\\.\\.\\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"qpsvm {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["qpsvm.css"]
html_sidebars = {"*": [], "**/*": ["sidebar-nav-bs"]}  # pages without siblings have no list of them
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
