"""Curves over the checks of a solve: its relative gap, and the size of its support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_choice
from qpsvm.plot.canvas import Display, draw_grid, legend_beside, require_matplotlib
from qpsvm.plot.data import labeled_results, with_history
from qpsvm.plot.fitted import results_of
from qpsvm.plot.styles import curve_style
from qpsvm.result import Result

AXIS_LABELS = {"time": "time (s)", "iteration": "iterations"}
"""Labels of the horizontal axis."""

MARK_SPACING = 0.17
"""Distance of the marks of a curve, in units of the diagonal of the axes."""

MARK_SHIFT = 0.023
"""Distance by which the marks of a curve are shifted from those of the one before."""

Styles = Mapping[str, Mapping[str, Any]] | None


class HistoryCurve(NamedTuple):
    """A column of a history."""

    time: NDArray[np.float64]  # seconds since the iterations began, shape (n,)
    iteration: NDArray[np.int64]  # shape (n,)
    values: NDArray[np.float64]  # relative gaps or sizes of the support, shape (n,)
    tol: float = np.nan  # the requested relative gap


class HistoryDisplay(Display):
    """Base of the displays of curves over the checks of a solve.

    `from_results`, `from_result` and `from_estimator` make and draw `ConvergenceDisplay` and
    `SupportGrowthDisplay`.
    """

    curves: dict[str, HistoryCurve]

    @staticmethod
    def _curve(result: Result[Any]) -> HistoryCurve:
        """Return the curve of a result."""
        raise NotImplementedError

    def __init__(self, curves: Mapping[str, HistoryCurve]) -> None:
        if not curves:
            raise InputError("curves must hold at least one curve; got an empty mapping")
        self.curves = dict(curves)

    def _draw(
        self, ax: Any, against: str, styles: Styles, legend: bool, positive: bool = True,
        **settings: Any,
    ) -> None:  # fmt: skip
        """Draw all curves; with `positive` alone what a logarithmic axis can show."""
        check_choice("against", against, tuple(AXIS_LABELS))
        unknown = set(styles or {}) - set(self.curves)
        if unknown:
            raise InputError(f"styles must have labels of curves as keys; got {sorted(unknown)}")
        self.lines_ = {}
        for order, (label, curve) in enumerate(self.curves.items()):
            x = np.asarray(getattr(curve, against), dtype=np.float64)
            shown = np.isfinite(curve.values)
            if positive:
                shown &= (x > 0) & (curve.values > 0)
            style = {
                "lw": 1.7, "ms": 5.0, "mec": "white", "mew": 0.5,
                "markevery": (MARK_SHIFT * (order % 7), MARK_SPACING),
                **curve_style(order), **settings, **(styles or {}).get(label, {}),
            }  # fmt: skip
            (self.lines_[label],) = ax.plot(x[shown], curve.values[shown], label=label, **style)
        self.ends_ = {}
        for label, line in self.lines_.items():
            x, values = (np.asarray(part)[-1:] for part in line.get_data())
            (self.ends_[label],) = ax.plot(
                x, values, line.get_marker(), color=line.get_color(), ms=8.0, mec="white", mew=0.8,
                label="_end", zorder=line.get_zorder() + 0.5,
            )  # fmt: skip
        ax.set_xlabel(AXIS_LABELS[against])
        draw_grid(ax)
        if legend:
            self.legend_ = legend_beside(ax)

    @classmethod
    def _from_results(cls, results: Any, ax: Any, options: dict[str, Any]) -> Self:
        require_matplotlib(cls.__name__)
        named = labeled_results(results)
        display: Any = cls({label: cls._curve(result) for label, result in named.items()})
        return cast(Self, display.plot(ax, **options))

    @classmethod
    def from_results(
        cls, results: Mapping[str, Result[Any]], *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw a curve for each of several results.

        Parameters
        ----------
        results : mapping of str to Result
            The key is the label of the curve.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        display

        Raises
        ------
        InputError
            If there is no result, or one without a history.

        Examples
        --------
        >>> display = ConvergenceDisplay.from_results({"mfw": result})  # doctest: +SKIP
        """
        return cls._from_results(results, ax, options)

    @classmethod
    def from_result(
        cls, result: Result[Any], *, label: str | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the curve of one result.

        Parameters
        ----------
        result : Result
        label : str, optional
            The name of its method by default.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        display

        Raises
        ------
        InputError
            If the result has no history.

        Examples
        --------
        >>> display = ConvergenceDisplay.from_result(result, label="mine")  # doctest: +SKIP
        """
        name = str(label) if label is not None else getattr(result, "method", "result")
        return cls._from_results({name: with_history(name, result)}, ax, options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw a curve for each problem of a fit: one for each pair of classes, or for each class.

        Parameters
        ----------
        estimator : estimator
            A fitted one of this library, a pipeline that ends with one, or a search.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        display

        Raises
        ------
        NotFittedError
            If the estimator is not fitted; scikit-learn's error.
        InputError
            If it holds no results.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from qpsvm import SVC
        >>> from qpsvm.plot import ConvergenceDisplay
        >>> machine = SVC(multi_class="ovr").fit(*load_digits(return_X_y=True))
        >>> display = ConvergenceDisplay.from_estimator(machine)  # doctest: +SKIP
        """
        return cls._from_results(results_of(estimator), ax, options)


class ConvergenceDisplay(HistoryDisplay):
    """Relative gap against time or iterations, both axes logarithmic, a curve for each result.

    The last point of a curve, drawn larger, is the certified gap of the answer; earlier gaps may be
    estimates (see `History`). Points that a logarithm cannot show are left out: iteration 0 and gaps
    of 0. `HistoryDisplay` has the class methods `from_results`, `from_result` and `from_estimator`.

    Parameters
    ----------
    curves : mapping of str to HistoryCurve
        The key is the label of the curve; `from_results` makes them.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        The curves by their labels.
    ends_ : dict of str to matplotlib Line2D
        Their last points.
    tolerance_lines_ : list of matplotlib Line2D
        A line for each tolerance that was requested.
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from qpsvm import MEBDual, RBF, solve
    >>> from qpsvm.plot import ConvergenceDisplay
    >>> problem = MEBDual(RBF(load_digits().data, gamma=1e-3))
    >>> results = {name: solve(problem, name, tol=1e-4) for name in ("fw", "mfw")}
    >>> display = ConvergenceDisplay.from_results(results)  # doctest: +SKIP
    >>> display = display.plot(against="iteration")  # doctest: +SKIP
    """

    @staticmethod
    def _curve(result: Result[Any]) -> HistoryCurve:
        history = result.history
        gap = np.array(history.relative_gap, dtype=np.float64)
        gap[-1] = result.certificate.relative_gap
        return HistoryCurve(history.time, history.iteration, gap, result.certificate.tol)

    def plot(
        self, ax: Any = None, *, against: str = "time", styles: Styles = None,
        show_tolerance: bool = True, legend: bool = True,
    ) -> Self:  # fmt: skip
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        against : {"time", "iteration"}
            Seconds since the iterations began, or the number of iterations.
        styles : mapping of str to mapping, optional
            Settings of the curve with that label, such as ``{"color": "black"}``.
        show_tolerance : bool
            Whether to draw a line at each requested tolerance.
        legend : bool
            Whether to draw a legend, right of the axes.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        InputError
            If an argument is malformed.
        """
        check_choice("against", against, tuple(AXIS_LABELS))
        ax = self._begin(ax)
        ax.set(xscale="log", yscale="log", ylabel="relative gap")
        self.tolerance_lines_ = []
        if show_tolerance:
            tols = {float(curve.tol) for curve in self.curves.values()}
            for number, tol in enumerate(sorted(t for t in tols if np.isfinite(t))):
                line = ax.axhline(
                    tol, color="0.45", lw=1.0, ls=(0, (1, 2)), zorder=1.5,
                    label="requested gap" if number == 0 else "_requested gap",
                )  # fmt: skip
                self.tolerance_lines_.append(line)
        self._draw(ax, against, styles, legend)
        return self


class SupportGrowthDisplay(HistoryDisplay):
    """Number of points with a weight against iterations or time: the growth of core sets.

    The sizes are those of the checks, `History.n_support`; between two checks the size of the first is
    shown. With logarithmic axes iteration 0 is left out. `HistoryDisplay` has the class methods
    `from_results`, `from_result` and `from_estimator`.

    Parameters
    ----------
    curves : mapping of str to HistoryCurve
        The key is the label of the curve; `from_results` makes them.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        The curves by their labels.
    ends_ : dict of str to matplotlib Line2D
        Their last points.
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from qpsvm import MEBDual, RBF, solve
    >>> from qpsvm.plot import SupportGrowthDisplay
    >>> problem = MEBDual(RBF(load_digits().data, gamma=1e-3))
    >>> results = {name: solve(problem, name, tol=1e-4) for name in ("cvm", "mfw")}
    >>> display = SupportGrowthDisplay.from_results(results)  # doctest: +SKIP
    """

    @staticmethod
    def _curve(result: Result[Any]) -> HistoryCurve:
        history = result.history
        sizes = np.asarray(history.n_support, dtype=np.float64)
        return HistoryCurve(history.time, history.iteration, sizes, result.certificate.tol)

    def plot(
        self, ax: Any = None, *, against: str = "iteration", scale: str = "log",
        styles: Styles = None, legend: bool = True,
    ) -> Self:  # fmt: skip
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        against : {"iteration", "time"}
            The number of iterations, or seconds since they began.
        scale : {"log", "linear"}
            Scale of both axes.
        styles : mapping of str to mapping, optional
            Settings of the curve with that label, such as ``{"color": "black"}``.
        legend : bool
            Whether to draw a legend, right of the axes.

        Returns
        -------
        SupportGrowthDisplay

        Raises
        ------
        InputError
            If an argument is malformed.
        """
        check_choice("against", against, tuple(AXIS_LABELS))
        check_choice("scale", scale, ("log", "linear"))
        ax = self._begin(ax)
        ax.set(xscale=scale, yscale=scale, ylabel="points with a weight")
        self._draw(ax, against, styles, legend, scale == "log", drawstyle="steps-post")
        return self
