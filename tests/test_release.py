"""What a release says of itself agrees: one version, and a README whose links work elsewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import qpsvm

PROJECT_ROOT = Path(__file__).resolve().parents[1]
PROJECT_TABLE = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT_TABLE["project"]["dynamic"]
    assert PROJECT_TABLE["tool"]["hatch"]["version"]["path"] == "qpsvm/__init__.py"


def test_the_citation_has_the_version():
    path = PROJECT_ROOT / "CITATION.cff"
    if not path.exists():
        pytest.skip("CITATION.cff is in the checkout and in the source distribution alone")
    assert f"\nversion: {qpsvm.__version__}\n" in path.read_text(encoding="utf-8")


def test_the_readme_of_a_package_index_has_no_link_into_the_checkout():
    """By the substitutions that the build applies."""
    hook = PROJECT_TABLE["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (PROJECT_ROOT / "README.md").read_text(
        encoding="utf-8"
    ) + "\n[![a](docs/a.svg)](b.md#c)\n"
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links and all(link.startswith(("https://", "#", "mailto:")) for link in links)
    assert "![a](https://raw.githubusercontent.com/qpsvm/qpsvm/v$HFPR_VERSION/docs/a.svg)" in text
    assert "](https://github.com/qpsvm/qpsvm/blob/v$HFPR_VERSION/b.md#c)" in text
