"""The studies: their smallest cases, and how a study is kept and continued."""

from __future__ import annotations

import json

import pytest

import qpsvm
from docs.papers.make import figures, lowrank, nesvm_times, polytopes, rows, runs, supports


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
