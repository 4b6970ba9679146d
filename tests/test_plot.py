"""The pictures: what the artists hold is what the results say."""

from __future__ import annotations

import numpy as np
import pytest

import qpsvm
from qpsvm import plot
from qpsvm.demo import run as demo
from qpsvm.demo.picture import draw

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(1)
Y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
X = RNG.standard_normal((40, 2)) + np.outer(Y, [3.0, 1.0])


@pytest.fixture
def ax():
    return Figure().subplots()


def labelled(ax):
    """Return the artists of a panel by their label."""
    return {artist.get_label(): artist for artist in ax.get_children()}


@pytest.mark.parametrize("against", ["time", "iteration"])
def test_convergence_draws_the_history_and_the_certified_end(ax, against):
    results = {name: qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), name) for name in ("fw", "mfw")}
    styles = {"mfw": {"color": "black"}}
    assert plot.convergence(results, ax, against=against, styles=styles) is ax
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() == {"time": "seconds", "iteration": "iterations"}[against]
    for name, result in results.items():
        x, gap = labelled(ax)[name].get_data()
        expected = getattr(result.history, against)
        np.testing.assert_allclose(x, expected[expected > 0])
        assert gap[-1] == result.certificate.relative_gap
        np.testing.assert_allclose(gap[:-1], result.history.relative_gap[-len(gap) : -1])
    assert labelled(ax)["mfw"].get_color() == "black"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["fw", "mfw"]


def test_convergence_leaves_out_what_a_logarithm_cannot_show(ax):
    one = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X[:1])))
    assert one.certificate.gap == 0
    plot.convergence({"one point": one}, ax)
    assert len(labelled(ax)["one point"].get_xdata()) == 0
    with pytest.raises(qpsvm.InputError, match="against must be"):
        plot.convergence({"one point": one}, ax, against="gap")


def test_styles_of_the_first_curves_differ():
    looks = [tuple(sorted(plot.style(order).items())) for order in range(36)]
    assert len(set(looks)) == 36


def test_ball_shows_circle_center_points_and_support(ax):
    result = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), tol=1e-8)
    assert plot.ball(result, X, ax) is ax
    drawn = labelled(ax)
    assert drawn["ball"].get_radius() == result.model.radius
    np.testing.assert_allclose(drawn["ball"].get_center(), result.model.center)
    np.testing.assert_allclose(np.ravel(drawn["center"].get_data()), result.model.center)
    np.testing.assert_allclose(drawn["points"].get_offsets(), X)
    np.testing.assert_allclose(drawn["support"].get_offsets(), X[result.support])


def test_closest_points_shows_witnesses_and_the_line_between_them(ax):
    problem = qpsvm.PolytopeDistanceDual(qpsvm.Linear(X), Y)
    result = qpsvm.solve(problem, tol=1e-8)
    assert plot.closest_points(result, X, Y, ax) is ax
    drawn, model = labelled(ax), result.model
    ends = np.column_stack(drawn["closest points"].get_data())
    np.testing.assert_allclose(ends, [model.p, model.q])
    line = np.column_stack(drawn["separating line"].get_data())
    np.testing.assert_allclose((line - 0.5 * (model.p + model.q)) @ model.w, 0.0, atol=1e-9)
    np.testing.assert_allclose(drawn["class +1"].get_offsets(), X[Y > 0])
    np.testing.assert_allclose(drawn["support"].get_offsets(), X[result.support])
    hulls = [patch.get_xy() for patch in ax.patches]
    assert all(any(np.allclose(corner, point) for point in X) for xy in hulls for corner in xy)


def test_closest_points_of_flat_hulls(ax):
    points, y = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.5]]), [1, 1, -1]
    result = qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.Linear(points), y), tol=1e-8)
    plot.closest_points(result, points, y, ax)
    np.testing.assert_allclose(result.model.distance, 2.0)
    assert len(ax.patches) == 2


@pytest.mark.parametrize("kernel", [qpsvm.Linear(X), qpsvm.RBF(X, 0.5)])
def test_hyperplane_contours_are_where_the_decision_function_says(ax, kernel):
    result = qpsvm.solve(qpsvm.HingeDual(kernel, Y, C=10.0), tol=1e-6)
    assert plot.hyperplane(result, X, Y, ax, grid=120) is ax
    lines = next(c for c in ax.collections if len(getattr(c, "levels", ())) == 3 and not c.filled)
    np.testing.assert_array_equal(lines.levels, [-1, 0, 1])
    for level, path in zip(lines.levels, lines.get_paths(), strict=True):
        value = result.model.decision_function(path.vertices)
        np.testing.assert_allclose(value, level, atol=0.02)
    np.testing.assert_allclose(labelled(ax)["support"].get_offsets(), X[result.support])


def test_wrong_results_and_points_are_refused(ax):
    ball = qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)))
    round_ball = qpsvm.solve(qpsvm.MEBDual(qpsvm.RBF(X, 0.5)))
    plane = qpsvm.solve(qpsvm.HingeDual(qpsvm.Linear(X), Y))
    with pytest.raises(qpsvm.InputError, match="two features"):
        plot.ball(ball, np.ones((4, 3)), ax)
    for result in (plane, round_ball):
        with pytest.raises(qpsvm.InputError, match="of a ball in the plane"):
            plot.ball(result, X, ax)
    with pytest.raises(qpsvm.InputError, match="polytopes in the plane"):
        plot.closest_points(plane, X, Y, ax)
    with pytest.raises(qpsvm.InputError, match="separates two classes"):
        plot.hyperplane(ball, X, Y, ax)


def test_current_axes_are_the_default():
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    ax = pyplot.figure().add_subplot()
    assert plot.ball(qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X))), X) is ax
    pyplot.close("all")


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
    figure.savefig(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
