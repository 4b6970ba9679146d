"""The demo on the command line."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import qpsvm
from qpsvm import cli
from qpsvm.demo import run as demo
from qpsvm.demo.data import Sample
from qpsvm.solvers.methods import METHODS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
X[Y > 0] += 1.0


def tiny(quick):
    """Return one task with a test set and one without a classifier."""
    sample = Sample("points", "one cloud against another", X, Y, 20)
    return [
        demo.Task("hinge", sample, lambda Z, z: qpsvm.HingeDual(qpsvm.Linear(Z), z)),
        demo.Task("ball", sample, lambda Z, z: qpsvm.MEBDual(qpsvm.Linear(Z))),
    ]


@pytest.fixture
def small(monkeypatch):
    """Let the demo solve two tiny problems."""
    monkeypatch.setattr(demo, "declare", tiny)


def rows(text):
    """Return the table's rows as lists of words, from the method to the accuracy."""
    lines = [line[27:].split() for line in text.splitlines()]
    return [words for words in lines if words and words[0] in METHODS]


def test_quick_demo_solves_everything_by_every_method(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--quick", "--no-plot", "--time-limit", "2"]) == 0
    said = capsys.readouterr().out
    tasks = demo.declare(quick=True)
    table = rows(said)
    assert [row[0] for row in table] == [m for t in tasks for m in qpsvm.methods(t.problem)]
    accuracies = [float(row[-1].rstrip("%")) for row in table if row[-1] != "-"]
    assert np.median(accuracies) > 90.0
    assert len(demo.TABLE_HEADER) <= 120
    assert not list(tmp_path.iterdir())


def test_table_of_a_small_demo(small, capsys):
    pytest.importorskip("cvxpy")
    assert demo.run(picture=False) == 0
    for method, value, gap, support, _, _, _, to_cvxpy, accuracy in rows(capsys.readouterr().out):
        assert abs(float(to_cvxpy)) <= METHODS[method].gap
        assert 0 <= float(gap) <= METHODS[method].gap
        assert 1 <= int(support) <= 20
        assert (accuracy == "-") == (float(value) < -1) or accuracy.endswith("%")


def test_demo_without_cvxpy(small, capsys, monkeypatch):
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    assert demo.run(picture=False) == 0
    said = capsys.readouterr().out
    assert {row[7] for row in rows(said)} == {"-"}
    assert "qpsvm[reference]" in said


def test_demo_without_matplotlib(small, capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["demo", "--output", str(tmp_path / "x.png")]) == 0
    assert "qpsvm[plot]" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_disagreement_with_the_reference_exits_with_1(small, capsys, monkeypatch):
    pytest.importorskip("cvxpy")
    monkeypatch.setattr(demo, "reference_value", lambda problem: 1.0)
    assert demo.run(picture=False) == 1
    assert "DISAGREES" in capsys.readouterr().out


@pytest.mark.parametrize("n_rows", [0, 1], ids=["while compiling", "while solving"])
def test_interrupted_solve_ends_the_demo_with_130(n_rows, small, capsys, monkeypatch, tmp_path):
    calls = []

    def interrupted(*args, **options):
        result = qpsvm.solve(*args, **options)
        calls.append(result)
        return replace(result, status=qpsvm.Status.INTERRUPTED) if len(calls) > n_rows else result

    monkeypatch.setattr(demo, "solve", interrupted)
    assert cli.main(["demo", "--output", str(tmp_path / "x.png")]) == 130
    said = capsys.readouterr().out
    assert len(rows(said)) == n_rows and "Interrupted" in said


def test_compilation_is_in_a_column_of_its_own_and_in_no_solve(capsys, monkeypatch):
    """Each timed solve is one in which numba did nothing, however long it took before."""
    from numba.core.event import end_event, start_event

    task, pause, solved = tiny(quick=False)[0], 0.2, []

    def slow(problem, method, **options):
        """Compile for a while in the first solve of each problem."""
        if problem not in solved:
            start_event("numba:compiler_lock")
            time.sleep(pause)
            end_event("numba:compiler_lock")
        solved.append(problem)
        return qpsvm.solve(problem, method, **options)

    monkeypatch.setattr(demo, "solve", slow)
    result, compiling = demo.solve_compiled(task, "smo", tol=1e-3, time_limit=60.0)
    assert solved[0] is task.small_problem and solved[1] is solved[-1] is task.problem
    assert len(solved) > 2 and compiling >= 2 * pause
    task.results["smo"], task.compiling["smo"] = result, compiling
    row = demo._row(task, "smo").split()
    assert float(row[7]) == pytest.approx(compiling, abs=0.01)
    assert f"{compiling:.1f} s of compiling" in demo._summary([task], False, 1.0)


def test_interrupt_outside_a_solve_exits_with_130(monkeypatch, capsys):
    def interrupt(quick):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "declare", interrupt)
    assert cli.main(["demo", "--no-plot"]) == 130
    assert "interrupted" in capsys.readouterr().err


PROBLEM_CASES = {
    "l2_svm": qpsvm.L2SVMDual(qpsvm.RBF(X, 0.5), Y, C=np.linspace(0.5, 2.0, 30)),
    "meb": qpsvm.MEBDual(qpsvm.RBF(X, 0.5)),
    "polytope_distance": qpsvm.PolytopeDistanceDual(qpsvm.RBF(X, 0.5), Y),
    "polytope_distance_chi": qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), Y, chi=2.0),
    "hinge": qpsvm.HingeDual(qpsvm.Linear(X), Y, C=0.7),
}


@pytest.mark.parametrize("name", PROBLEM_CASES)
def test_reference_is_enclosed_by_certified_bounds(name):
    pytest.importorskip("cvxpy")
    bounds = qpsvm.solve(PROBLEM_CASES[name], tol=1e-9).certificate
    assert demo.reference_value(PROBLEM_CASES[name]) == pytest.approx(bounds.upper, rel=1e-6)
