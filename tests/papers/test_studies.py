"""The studies: their smallest cases, and how a study is kept and continued."""

from __future__ import annotations

import json

import pytest

import qpsvm
from docs.papers.make import (
    figures,
    lowrank,
    machines,
    nesvm_times,
    polytopes,
    printed_ball,
    rows,
    runs,
    supports,
)
from problems.clouds import two_clouds


@pytest.mark.parametrize("case", figures.cases(quick=True), ids=lambda case: case["figure"])
def test_what_the_figures_show_is_within_its_bounds(case):
    figures.check(case, figures.run(case))


def test_the_smallest_case_of_the_polytopes_comes_to_its_gap():
    for case in polytopes.cases(quick=True):
        polytopes.check(case, polytopes.run(case))


@pytest.mark.parametrize("study", [supports, rows, lowrank], ids=lambda study: study.__name__)
def test_the_smallest_cases_of_paper_5(study):
    for case in study.cases(quick=True):
        study.check(case, study.run(case))


def test_the_smallest_case_of_paper_4():
    for case in nesvm_times.cases(quick=True):
        nesvm_times.check(case, nesvm_times.run(case))


def test_the_smallest_case_of_paper_1():
    for case in machines.cases(quick=True):
        machines.check(case, machines.run(case))


@pytest.mark.parametrize("away", [False, True], ids=["fw", "mfw"])
def test_the_printed_algorithms_come_to_the_optimum(away):
    """The maintained R is that of the weights, at least the optimal one; away steps come near it."""
    X, y = two_clouds(40, 3, seed=5, distance=3.0)
    gram, C = qpsvm.RBF(X, gamma=0.2), 1.0
    ball = printed_ball.trained(gram, y, C, away, seed=0)
    best = 2.0 * qpsvm.solve(qpsvm.L2SVMDual(gram, y, C=C), tol=1e-9).value
    a = ball.a[: ball.size]
    K = y[ball.points, None] * y[ball.points] * (gram.block(ball.points, ball.points) + 1.0)
    R = a @ K @ a + a @ a / C
    assert ball.numbers[0] == pytest.approx(R, rel=1e-5)
    assert a.sum() == pytest.approx(1.0) and a.min() >= 0.0
    assert best <= R * (1.0 + 1e-9) and (not away or R <= best * 1.01)


def test_a_study_continues_where_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "RESULT_FOLDER", tmp_path)
    wanted, calls = [{"size": size} for size in range(4)], []

    def run(case, last=1):
        calls.append(case["size"])
        if case["size"] > last:
            raise KeyboardInterrupt
        return {"square": case["size"] ** 2}

    with pytest.raises(KeyboardInterrupt):
        runs.carry_out("squares", wanted, run)
    records = json.loads((tmp_path / "squares.json").read_text())
    assert [record["found"]["square"] for record in records] == [0, 1]
    assert set(records[0]["origin"]) == {"machine", "date", "commit", "versions"}
    runs.carry_out("squares", wanted, lambda case: run(case, last=9))
    assert calls == [0, 1, 2, 2, 3]
    assert not list(runs.missing("squares", wanted))


def test_a_case_without_its_data_is_left_out_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "RESULT_FOLDER", tmp_path)

    def run(case):
        raise qpsvm.InputError("there is no data set")

    runs.carry_out("absent", [{"set": "a6a"}], run)
    assert not runs.kept("absent")
    assert "left out" in "".join(capsys.readouterr())
