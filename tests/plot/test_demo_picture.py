"""The picture of the demo."""

from __future__ import annotations

import pytest

import qpsvm
from qpsvm.demo import run as demo
from qpsvm.demo.picture import draw

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


def test_picture_of_the_demo(tmp_path):
    tasks = demo.declare(quick=True)
    for task in tasks[::3]:
        task.results = {name: qpsvm.solve(task.problem, name, tol=1e-2) for name in ("fw", "smo")}
    figure = Figure(figsize=(15.0, 9.6), layout="constrained")
    draw(figure, tasks)
    panels = figure.axes
    assert len(panels) == 6
    assert all(panel.get_title() and panel.get_xlabel() for panel in panels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fw", "smo"]
    names = [text.get_text() for text in panels[5].get_legend().get_texts()]
    assert names[:2] == ["malignant", "benign"]
    figure.savefig(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
