"""A path over a parameter: supports, and the accuracy of the predictions."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np

from qpsvm.errors import InputError, check_choice, check_labels, check_points
from qpsvm.plot.canvas import Display, draw_grid, legend_below, require_matplotlib
from qpsvm.plot.data import check_evaluates, checked_result
from qpsvm.plot.styles import curve_style

LOG_RANGE = 20.0
"""Ratio of the greatest to the least value from which ``scale="auto"`` is logarithmic."""


class PathDisplay(Display):
    """Number of support vectors for each value of a parameter, and the accuracy on a second axis.

    Parameters
    ----------
    values : array_like of shape (n,)
        Values of the parameter, finite numbers.
    n_support : array_like of int, shape (n,)
        Number of points with a weight.
    accuracy : array_like of shape (n,), optional
        Share of correct predictions, from 0 to 1.
    name : str
        The parameter.

    Attributes
    ----------
    support_ : matplotlib Line2D
    accuracy_ : matplotlib Line2D or None
    accuracy_ax_ : matplotlib Axes or None
        The axes of the accuracy, with the scale on the right.
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from qpsvm import HingeDual, RBF, solve_path
    >>> from qpsvm.plot import PathDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, y = (X - X.mean(axis=0)) / X.std(axis=0), 2.0 * y - 1.0
    >>> path = solve_path(HingeDual(RBF(X[::2]), y[::2]), "C", np.geomspace(1e-2, 1e2, 9))
    >>> display = PathDisplay.from_path(path, X[1::2], y[1::2])  # doctest: +SKIP
    """

    def __init__(
        self, values: Any, n_support: Any, accuracy: Any = None, *, name: str = "C"
    ) -> None:
        self.values = _numbers(values)
        self.n_support = np.asarray(n_support)
        self.accuracy = None if accuracy is None else np.asarray(accuracy, dtype=np.float64)
        n = len(self.values)
        for given, label in ((self.n_support, "n_support"), (self.accuracy, "accuracy")):
            if given is not None and given.shape != (n,):
                raise InputError(f"{label} must have shape ({n},), as values; got {given.shape}")
        self.name = str(name)

    @classmethod
    def from_path(
        cls, path: Any, X: Any = None, y: Any = None, *, name: str | None = None, ax: Any = None,
        **options: Any,
    ) -> Self:  # fmt: skip
        """Draw a path, with the accuracy where points and labels are given.

        Parameters
        ----------
        path : Path
            What `solve_path` returns.
        X : array_like of shape (n, d), optional
            Points to predict, preferably not those of the path.
        y : array_like of shape (n,), optional
            Their labels -1 and +1.
        name : str, optional
            Label of the parameter; by default its name.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        PathDisplay

        Raises
        ------
        InputError
            If the path is empty, its values are not finite numbers, one of X and y is given alone, or the
            models do not separate two classes.
        """
        require_matplotlib(cls.__name__)
        values = getattr(path, "values", None)
        if not isinstance(path, list) or not path or values is None:
            raise InputError(
                "path must be what solve_path returns, with at least one result; got "
                f"{type(path).__name__}{' of length 0' if isinstance(path, list) else ''}"
            )
        if (X is None) != (y is None):
            raise InputError("X and y must be given together, or neither of them")
        for result in path:
            checked_result(result)
        accuracy = None
        if X is not None:
            points = check_points("X", X)
            labels = check_labels("y", y, points.shape[0])
            accuracy = [_accuracy(result.model, points, labels) for result in path]
        n_support = [len(result.support) for result in path]
        label = name if name is not None else getattr(path, "name", "") or "parameter"
        return cls(values, n_support, accuracy, name=label).plot(ax, **options)

    def plot(self, ax: Any = None, *, scale: str = "auto", legend: bool = True) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        scale : {"auto", "log", "linear"}
            Scale of the parameter; ``"auto"`` is logarithmic for positive values, the greatest at least
            20 times the least.
        legend : bool
            Whether to draw a legend, below the axes.

        Returns
        -------
        PathDisplay

        Raises
        ------
        InputError
            If `scale` is unknown, or logarithmic and a value is not positive.
        """
        check_choice("scale", scale, ("auto", "log", "linear"))
        low, high = float(self.values.min()), float(self.values.max())
        if scale == "log" and low <= 0:
            raise InputError(f"scale must be 'linear' for values that are not positive; got {low}")
        if scale == "auto":
            scale = "log" if low > 0 and high >= LOG_RANGE * low else "linear"
        ax = self._begin(ax)
        order = np.argsort(self.values, kind="stable")
        common = {"lw": 1.8, "ms": 6.5, "mec": "white", "mew": 0.6}
        (self.support_,) = ax.plot(
            self.values[order], self.n_support[order], label="support vectors", **common,
            **curve_style(1) | {"ls": "-"},
        )  # fmt: skip
        ax.set(xscale=scale, xlabel=self.name, ylabel="support vectors")
        ax.set_ylim(bottom=0)
        draw_grid(ax)
        handles, self.accuracy_, self.accuracy_ax_ = [self.support_], None, None
        if self.accuracy is not None:
            self.accuracy_ax_ = ax.twinx()
            (self.accuracy_,) = self.accuracy_ax_.plot(
                self.values[order], 100.0 * self.accuracy[order], label="accuracy", **common,
                **curve_style(0) | {"ls": "--"},
            )  # fmt: skip
            self.accuracy_ax_.set_ylabel("accuracy (%)")
            handles.append(self.accuracy_)
        if legend:
            self.legend_ = legend_below(ax, handles)
        return self


def _numbers(values: Any) -> Any:
    """Return values as an array, or raise InputError where one of them is not a finite number."""
    found = list(values)
    for value in found:
        if not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
            raise InputError(f"values must be finite numbers to be drawn; got {value!r}")
    if not found:
        raise InputError("values must hold at least one number; got none")
    return np.array([float(value) for value in found])


def _accuracy(model: Any, points: Any, labels: Any) -> float:
    """Return the share of correct predictions."""
    if not hasattr(model, "decision_function") or not hasattr(model, "b"):
        raise InputError(
            "X and y need a path of models that separate two classes; got "
            f"{type(model).__name__ if model is not None else 'no model'}"
        )
    check_evaluates(model)
    return float(np.mean(model.predict(points) == labels))
