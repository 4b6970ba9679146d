"""Fixtures of the tests of displays: points of two and of three classes, axes without a window."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture(autouse=True)
def no_window():
    """Draw into memory, and leave no figure open; skip where there is no matplotlib."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="session")
def blobs():
    """Return 40 points of two classes and their labels -1 and +1."""
    y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    X = np.random.default_rng(1).standard_normal((40, 2)) + np.outer(y, [3.0, 1.0])
    return X, y


@pytest.fixture(scope="session")
def three():
    """Return 60 points of three classes and their names."""
    names = np.array(["ash", "birch", "cedar"])[np.arange(60) % 3]
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 4.0]])
    X = centers[np.arange(60) % 3] + 0.8 * np.random.default_rng(2).standard_normal((60, 2))
    return X, names


def legend_texts(display):
    """Return the entries of a display's legend."""
    return [text.get_text() for text in display.legend_.get_texts()]
