"""A plugin of pytest that skips what takes long without compilation: ``-p tests.mutation.selection``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

IMPORTS_OF_TESTS = (
    "clarabel", "cvxpy", "hypothesis", "numba", "pandas", "polars", "scipy.optimize",
    "scipy.sparse.linalg", "sklearn.svm",
)  # fmt: skip
"""Packages that tests import, which take long to load."""

SECONDS_OF_TEST = 0.3
"""Processor time that a test, and its fixtures, may each take without compilation."""


class Selection:
    """Skips tests that take long, and notes those that passed in time."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        signal.signal(signal.SIGPROF, _late)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Any:
        """Limit the time of fixtures."""
        with _limited():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        """Limit the time of a test."""
        with _limited():
            return (yield)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test that passed."""
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def pytest_configure(config: Any) -> None:
    """Register the plugin."""
    load_imports_of_tests()
    config.pluginmanager.register(Selection())


def load_imports_of_tests() -> None:
    """Load what tests import: an import that is ended by a limit would stay incomplete."""
    for name in IMPORTS_OF_TESTS:
        import_module(name)


@contextmanager
def _limited() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_TEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _late(*_: Any) -> None:
    pytest.skip("it takes long without compilation")
