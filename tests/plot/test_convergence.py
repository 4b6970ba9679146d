"""Curves over the checks of a solve: the artists hold the history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import qpsvm
from qpsvm import ConvergenceDisplay, SupportGrowthDisplay
from tests.plot.conftest import legend_texts


@pytest.fixture(scope="module")
def results(blobs):
    problem = qpsvm.MEBDual(qpsvm.Linear(blobs[0]))
    return {name: qpsvm.solve(problem, name, tol=1e-4) for name in ("fw", "mfw")}


@pytest.mark.parametrize("against", ["time", "iteration"])
def test_convergence_draws_the_history_and_the_certified_end(results, ax, against):
    styles = {"mfw": {"color": "black"}}
    display = ConvergenceDisplay.from_results(results, ax=ax, against=against, styles=styles)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() == {"time": "time (s)", "iteration": "iterations"}[against]
    assert ax.get_ylabel() == "relative gap"
    for name, result in results.items():
        x, gap = display.lines_[name].get_data()
        expected = getattr(result.history, against)
        np.testing.assert_allclose(x, expected[expected > 0])
        assert gap[-1] == result.certificate.relative_gap
        np.testing.assert_allclose(gap[:-1], result.history.relative_gap[-len(gap) : -1])
        np.testing.assert_array_equal(np.ravel(display.ends_[name].get_data()), [x[-1], gap[-1]])
    assert display.lines_["mfw"].get_color() == "black"
    assert legend_texts(display) == ["requested gap", "fw", "mfw"]
    assert [line.get_ydata()[0] for line in display.tolerance_lines_] == [1e-4]


def test_curves_differ_beside_their_colors(results, ax):
    first, second = ConvergenceDisplay.from_results(results, ax=ax).lines_.values()
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_marker() != second.get_marker()


def test_a_display_is_drawn_again_on_other_axes(results, ax):
    display = ConvergenceDisplay.from_results(results, ax=ax)
    same = display.plot(against="iteration", show_tolerance=False, legend=False)
    assert same is display and display.ax_ is not ax
    assert display.legend_ is None and display.tolerance_lines_ == []


def test_convergence_leaves_out_what_a_logarithm_cannot_show(ax):
    one = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(np.ones((1, 2)))))
    assert one.certificate.gap == 0
    display = ConvergenceDisplay.from_result(one, label="one point", ax=ax)
    assert len(display.lines_["one point"].get_xdata()) == 0


def test_growth_shows_the_sizes_of_the_support(results, ax):
    display = SupportGrowthDisplay.from_results(results, ax=ax, scale="linear")
    assert ax.get_xlabel() == "iterations" and ax.get_xscale() == "linear"
    for name, result in results.items():
        x, sizes = display.lines_[name].get_data()
        np.testing.assert_array_equal(x, result.history.iteration)
        np.testing.assert_array_equal(sizes, result.history.n_support)
        assert display.lines_[name].get_drawstyle() == "steps-post"
        assert sizes[-1] == len(result.support)
    logarithmic = SupportGrowthDisplay.from_result(results["mfw"]).lines_["mfw"].get_xdata()
    assert logarithmic[0] > 0


def test_an_estimator_has_a_curve_for_each_problem(three, ax):
    X, y = three
    by_pairs = ConvergenceDisplay.from_estimator(qpsvm.SVC().fit(X, y), ax=ax)
    assert list(by_pairs.lines_) == ["ash / birch", "ash / cedar", "birch / cedar"]
    one_each = ConvergenceDisplay.from_estimator(qpsvm.SVC(multi_class="ovr").fit(X, y))
    assert list(one_each.lines_) == ["ash / rest", "birch / rest", "cedar / rest"]
    single = SupportGrowthDisplay.from_estimator(qpsvm.OneClassSVM(nu=0.2).fit(X))
    assert list(single.lines_) == ["OneClassSVM"]


def test_wrong_results_are_refused(results, ax):
    result = results["mfw"]
    with pytest.raises(qpsvm.InputError, match="empty mapping"):
        ConvergenceDisplay.from_results({})
    with pytest.raises(qpsvm.InputError, match="must be a mapping"):
        ConvergenceDisplay.from_results([result])
    with pytest.raises(qpsvm.InputError, match="got int for 'mfw'"):
        ConvergenceDisplay.from_results({"mfw": 3})
    empty = {name: values[:0] for name, values in vars(result.history).items()}
    without = replace(result, history=replace(result.history, **empty))
    with pytest.raises(qpsvm.InputError, match="'mine' has no checks"):
        SupportGrowthDisplay.from_results({"mine": without})
    with pytest.raises(qpsvm.InputError, match="against must be"):
        ConvergenceDisplay.from_result(result, ax=ax, against="gap")
    with pytest.raises(qpsvm.InputError, match="scale must be"):
        SupportGrowthDisplay.from_result(result, ax=ax, scale="cubic")
    with pytest.raises(qpsvm.InputError, match=r"labels of curves as keys; got \['fwx'\]"):
        ConvergenceDisplay.from_result(result, ax=ax, styles={"fwx": {}})
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(qpsvm.SVC())
    from sklearn.svm import SVC

    with pytest.raises(qpsvm.InputError, match="keeps its results"):
        ConvergenceDisplay.from_estimator(SVC().fit([[0.0], [1.0]], [0, 1]))
