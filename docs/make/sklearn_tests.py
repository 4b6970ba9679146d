"""scikit-learn's own tests of its SVMs, run on the estimators of this package.

    python -m docs.make.sklearn_tests            # print what passes, fails and does not apply
    python -m docs.make.sklearn_tests --page > docs/sklearn_tests.md

The test files are read from the installed scikit-learn and adapted in a temporary folder: their
imports of `sklearn.svm` get the classes of this package under the same names. Nothing else is changed,
and no text of scikit-learn is kept here. A class that this package does not have skips its tests.

The run fails where a test fails that `sklearn_tests_reasons.py` does not name, and where a test passes
that its table `FAILURE_REASONS` names. A test of `CLOSE_ANSWERS` may pass or fail: rounding decides.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sklearn

from docs.make.sklearn_tests_reasons import CLOSE_ANSWERS, FAILURE_REASONS
from qpsvm import estimators

TEST_FILES = ("test_svm.py", "test_sparse.py")
"""Files of `sklearn/svm/tests` that are run; `test_bounds.py` tests a function, `l1_min_c`."""

CLASS_NAMES = ("SVC", "NuSVC", "LinearSVC", "SVR", "NuSVR", "LinearSVR", "OneClassSVM")
"""Estimators of `sklearn.svm`."""

MODULE_NAME = "adapted_svm"
"""Name of the module that stands in place of `sklearn.svm`."""

RUN_SECONDS = 900
"""Seconds after which a run is ended."""

CONFTEST_TEXT = """
import json
import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "thread_unsafe: as in scikit-learn")


@pytest.fixture
def global_random_seed():
    return 42


def pytest_runtest_logreport(report):
    said = report.passed and report.when == "call"
    if said or not report.passed:
        text = "" if report.passed else str(report.longrepr)
        if report.skipped:
            text = str(report.longrepr[2])
        line = {"name": report.nodeid, "outcome": report.outcome, "text": text}
        with open("outcomes.jsonl", "a") as file:
            file.write(json.dumps(line) + "\\n")


def pytest_collectreport(report):
    if report.failed:
        line = {"name": report.nodeid, "outcome": "failed", "text": str(report.longrepr)}
        with open("outcomes.jsonl", "a") as file:
            file.write(json.dumps(line) + "\\n")
"""
"""The fixture, the marker and the report that the adapted tests need."""

MISSING_CLASS = """

class {name}:
    def __init__(self, *arguments, **parameters):
        import pytest

        if not _is_collecting():
            pytest.skip("no class {name}")

    def get_params(self, deep=True):
        import pytest

        pytest.skip("no class {name}")

    set_params = get_params
"""
"""What stands for a class that this package does not have."""

MODULE_HEAD = """
import os

from sklearn.svm import *


def _is_collecting():
    return "PYTEST_CURRENT_TEST" not in os.environ
"""
"""The beginning of the module in place of `sklearn.svm`."""


class Outcome(NamedTuple):
    """What became of a test."""

    name: str
    """File, function and parameters, as pytest writes them."""
    outcome: str
    """passed, failed or skipped."""
    text: str
    """Why it failed or was skipped."""

    @property
    def last_line(self) -> str:
        """The line that says most of a failure."""
        lines = [line for line in self.text.splitlines() if line.startswith("E  ")]
        return (lines or self.text.splitlines() or [""])[0].removeprefix("E").strip()

    @property
    def entry(self) -> str | None:
        """The key of `FAILURE_REASONS` or `CLOSE_ANSWERS` that names the test, or None."""
        names = self.name, self.name.partition("[")[0]
        return next((key for key in ALL_REASONS if any(_names(key, one) for one in names)), None)


ALL_REASONS = FAILURE_REASONS | CLOSE_ANSWERS
"""Why tests do not apply."""


def _names(key: str, name: str) -> bool:
    """Return whether a key, in which a star stands for any text, names a test."""
    return re.fullmatch(".*".join(map(re.escape, key.split("*"))), name) is not None


def folder_of_tests() -> Path | None:
    """Return the folder of scikit-learn's tests of SVMs; None where it was installed without."""
    spec = importlib.util.find_spec("sklearn.svm.tests")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)))
    return folder if all((folder / name).exists() for name in TEST_FILES) else None


def adapted(text: str) -> str:
    """Return a test file whose imports from `sklearn.svm` are of the module in its place."""
    lines = text.splitlines()
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            new = list(_new_imports(node))
            lines[node.lineno - 1 : node.end_lineno] = new
    return "\n".join(lines) + "\n"


def _new_imports(node: ast.ImportFrom) -> Iterator[str]:
    """Yield the lines in place of an import: one for each name that it imports."""
    for alias in node.names:
        name = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
        if node.module == "sklearn" and alias.name == "svm":
            yield f"import {MODULE_NAME} as {alias.asname or 'svm'}"
        elif node.module == "sklearn.svm" and not alias.name.startswith("_"):
            yield f"from {MODULE_NAME} import {name}"
        elif node.module == "sklearn.svm.tests":
            yield f"import {name}"
        else:
            yield f"from {node.module} import {name}"


def module_text() -> str:
    """Return the text of the module in place of `sklearn.svm`."""
    text = MODULE_HEAD
    for name in CLASS_NAMES:
        if name in estimators.__all__:
            text += f"\nfrom qpsvm.estimators import {name}\n"
        else:
            text += MISSING_CLASS.format(name=name)
    return text


def run(folder: Path) -> list[Outcome]:
    """Run the adapted tests of a folder of tests in a process of its own; return their outcomes."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        for name in TEST_FILES:
            (place / name).write_text(adapted((folder / name).read_text()))
        (place / f"{MODULE_NAME}.py").write_text(module_text())
        (place / "conftest.py").write_text(CONFTEST_TEXT)
        (place / "pytest.ini").write_text("[pytest]\n")
        here = str(Path(estimators.__file__).parents[2])
        known = os.environ.get("PYTHONPATH")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment["PYTHONPATH"] = here if known is None else os.pathsep.join([here, known])
        call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        done = subprocess.run(
            [*call, *TEST_FILES], cwd=place, env=environment, timeout=RUN_SECONDS,
            capture_output=True, text=True,
        )  # fmt: skip
        found = place / "outcomes.jsonl"
        if done.returncode not in (0, 1) or not found.exists():
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        rows = [json.loads(line) for line in found.read_text().splitlines()]
    return [Outcome(**row) for row in rows]


def contradictions(outcomes: list[Outcome]) -> list[str]:
    """Return a line for each failure without an entry, and for each entry whose test passes."""
    lines = []
    for one in outcomes:
        if one.outcome == "failed" and one.entry is None:
            lines.append(f"failed: {one.name}: {one.last_line}")
        if one.outcome == "passed" and one.entry in FAILURE_REASONS:
            lines.append(f"passed, but named in REASONS: {one.name}")
    return lines


def page(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield the lines of the page."""
    n_passed = sum(one.outcome == "passed" for one in outcomes)
    named = [one for one in outcomes if one.outcome == "failed" and one.entry is not None]
    skipped = [one for one in outcomes if one.outcome == "skipped"]
    yield "# scikit-learn's tests"
    yield ""
    yield (
        f"scikit-learn {sklearn.__version__} tests its SVMs in `sklearn/svm/tests`. Its files "
        f"{' and '.join(f'`{name}`' for name in TEST_FILES)}\nrun on the estimators of this package "
        "here, under the same names. Only the imports of `sklearn.svm` are adapted."
    )
    yield ""
    yield "| | tests |"
    yield "|---|---:|"
    yield f"| pass | {n_passed} |"
    yield f"| do not apply | {len(named)} |"
    if skipped:
        yield f"| wait for a class that is not there, or for another system | {len(skipped)} |"
    yield f"| all | {len(outcomes)} |"
    yield ""
    yield (
        "A test counts once for each set of its parameters. `python -m docs.make.sklearn_tests` "
        "repeats the run. It fails where\na test fails that is not named below, and where a test "
        "that is named passes. `--page` writes this page."
    )
    yield ""
    yield "## Tests that do not apply"
    yield ""
    yield "| Test | Cases | Reason |"
    yield "|---|---:|---|"
    for key, reason in ALL_REASONS.items():
        n_cases = sum(one.entry == key for one in named)
        if n_cases:
            yield f"| `{key}` | {n_cases} | {reason} |".replace("::", ": ")
    if skipped:
        yield ""
        yield "## Tests that wait"
        yield ""
        yield "| Reason | Cases |"
        yield "|---|---:|"
        for why in sorted({one.text for one in skipped}):
            yield f"| {why.removeprefix('Skipped: ')} | {sum(one.text == why for one in skipped)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Run scikit-learn's tests of SVMs on ours.")
    parser.add_argument("--page", action="store_true", help="print the page in Markdown")
    given = parser.parse_args()
    folder = folder_of_tests()
    if folder is None:
        raise SystemExit("scikit-learn is installed without its tests")
    outcomes = run(folder)
    if given.page:
        print(*page(outcomes), sep="\n")
    else:
        for one in outcomes:
            kind = "does not apply" if one.outcome == "failed" and one.entry else one.outcome
            print(f"{kind}: {one.name} {one.last_line if one.outcome != 'passed' else ''}".rstrip())
    wrong = contradictions(outcomes)
    print(*wrong, sep="\n", file=sys.stderr)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
