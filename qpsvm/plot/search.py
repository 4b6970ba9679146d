"""A heat map of a search over two parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from qpsvm.errors import InputError
from qpsvm.plot.canvas import Display, require_matplotlib
from qpsvm.plot.styles import INK_COLOR, SEQUENTIAL_MAP

MAX_ANNOTATED_CELLS = 150
"""Number of cells up to which each shows its number by default."""

MIN_WHOLE_TICK, MAX_WHOLE_TICK = 1e3, 1e5
"""Range of values that are written without an exponent."""

DARK_LUMINANCE = 0.5
"""Luminance below which a cell's number is written in white."""

LUMINANCE_WEIGHTS = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in the luminance."""


class SearchDisplay(Display):
    """Heat map of the cells of a search over two parameters; a frame and a star mark the best one.

    Parameters
    ----------
    scores : array_like of shape (n_rows, n_columns)
        NaN where a cell was not reached.
    rows, columns : sequence
        The values of the two parameters.
    row_name, column_name : str
        Labels of the axes.
    best : tuple of two int, optional
        Row and column of the best cell.
    score_name : str
        Label of the color bar.
    title : str
        Title of the axes, such as the values of other parameters.

    Attributes
    ----------
    cells_ : matplotlib QuadMesh
    texts_ : list of matplotlib Text
        The numbers of the cells, row by row.
    best_ : matplotlib Rectangle or None
    colorbar_ : matplotlib Colorbar or None
    ax_, figure_, legend_
        Axes, figure and legend of the last `plot`.

    Raises
    ------
    InputError
        If an argument is malformed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from qpsvm import SVCCV
    >>> from qpsvm.plot import SearchDisplay
    >>> search = SVCCV(Cs=5, gammas=5).fit(*load_iris(return_X_y=True))
    >>> display = SearchDisplay.from_search(search)  # doctest: +SKIP
    """

    def __init__(
        self, scores: Any, rows: Any, columns: Any, *, row_name: str = "gamma",
        column_name: str = "C", best: tuple[int, int] | None = None,
        score_name: str = "mean test score", title: str = "",
    ) -> None:  # fmt: skip
        self.scores = np.asarray(scores, dtype=np.float64)
        self.rows, self.columns = list(rows), list(columns)
        shape = len(self.rows), len(self.columns)
        if self.scores.shape != shape or 0 in shape:
            raise InputError(
                f"scores must have shape {shape}, one for each pair of values; got {self.scores.shape}"
            )
        self.row_name, self.column_name = str(row_name), str(column_name)
        if best is not None and not (0 <= best[0] < shape[0] and 0 <= best[1] < shape[1]):
            raise InputError(f"best must be a row and a column of {shape}; got {best!r}")
        self.best, self.score_name, self.title = best, str(score_name), str(title)

    @classmethod
    def from_search(
        cls, search: Any, *, x: str = "C", y: str = "gamma", score: str = "mean_test_score",
        fixed: Mapping[str, Any] | None = None, ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Draw the table of a fitted search.

        Parameters
        ----------
        search : SVCCV or SVRCV
            Or a search of scikit-learn with ``cv_results_``.
        x, y : str
            The parameters of columns and rows, such as ``"svc__C"`` of a pipeline.
        score : str
            A column of ``cv_results_``, such as ``"mean_test_score"`` or ``"max_dual_gap"``.
        fixed : mapping of str to value, optional
            Values of other parameters, for those at which the cells are shown; by default those of the
            best cell. The title names them.
        ax : matplotlib Axes, optional
            By default those of a new figure.
        **options
            Of `plot`.

        Returns
        -------
        SearchDisplay

        Raises
        ------
        NotFittedError
            If the search is not fitted; scikit-learn's error.
        InputError
            If it has no such parameter, value or column.
        """
        require_matplotlib(cls.__name__)
        from sklearn.utils.validation import check_is_fitted

        if isinstance(search, type) or not hasattr(search, "fit"):
            raise InputError(f"search must be a fitted search; got {search!r}")
        check_is_fitted(search)
        if not hasattr(search, "cv_results_"):
            raise InputError(f"search must have the table cv_results_; got {type(search).__name__}")
        table = search.cv_results_
        cells = table["params"]
        names = sorted({name for cell in cells for name in cell})
        for given, name in (("x", x), ("y", y)):
            if name not in names:
                raise InputError(f"{given} must be one of the parameters {names}; got {name!r}")
        if x == y:
            raise InputError(f"x and y must be two parameters; got {x!r} for both")
        if score not in table or np.ndim(table[score]) != 1 or score == "params":
            known = sorted(key for key in table if "score" in key or "gap" in key)
            raise InputError(f"score must be a column of cv_results_ ({known}); got {score!r}")
        best = getattr(search, "best_index_", None)
        fixed_values = _fixed_values(cells, names, (x, y), fixed, best)
        rows, columns = (_values(cells, name) for name in (y, x))
        shown = np.full((len(rows), len(columns)), np.nan)
        place = None
        for number, cell in enumerate(cells):
            if all(cell.get(name) == value for name, value in fixed_values.items()):
                at = rows.index(cell.get(y)), columns.index(cell.get(x))
                shown[at] = table[score][number]
                place = at if number == best else place
        title = ", ".join(f"{name} = {_text(value)}" for name, value in fixed_values.items())
        display = cls(
            shown, rows, columns, row_name=y, column_name=x, best=place, title=title,
            score_name=score.replace("_", " "),
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, annotate: bool | None = None, number_format: str = ".3g",
        colorbar: bool = True, **settings: Any,
    ) -> Self:  # fmt: skip
        """Draw the cells.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        annotate : bool, optional
            Whether each cell shows its number; by default up to 150 cells.
        number_format : str
            Format of the numbers.
        colorbar : bool
            Whether to draw a color bar.
        **settings
            Of ``Axes.pcolormesh``, such as ``cmap``, ``vmin`` or ``norm``.

        Returns
        -------
        SearchDisplay
        """
        ax = self._begin(ax)
        n_rows, n_columns = self.scores.shape
        ax.set_facecolor("white")
        if np.isnan(self.scores).any():  # cells that were not reached
            from matplotlib.patches import Rectangle

            ax.add_patch(
                Rectangle((-0.5, -0.5), n_columns, n_rows, fc="none", ec="0.6", hatch="////", lw=0,
                          zorder=0.5)
            )  # fmt: skip
        self.cells_ = ax.pcolormesh(
            np.arange(n_columns), np.arange(n_rows), np.ma.masked_invalid(self.scores),
            **{"cmap": SEQUENTIAL_MAP, "edgecolors": "white", "linewidth": 0.8, **settings},
        )  # fmt: skip
        ax.set_xticks(range(n_columns), [_text(value) for value in self.columns])
        ax.set_yticks(range(n_rows), [_text(value) for value in self.rows])
        ax.tick_params(length=0)
        ax.set(xlabel=self.column_name, ylabel=self.row_name, title=self.title)
        self.texts_: list[Any] = []
        if self.scores.size <= MAX_ANNOTATED_CELLS if annotate is None else annotate:
            self._write_numbers(ax, number_format)
        self.best_ = None
        if self.best is not None:
            self._mark_best(ax, self.best)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.cells_, ax=ax, label=self.score_name)
        return self

    def _write_numbers(self, ax: Any, number_format: str) -> None:
        colors = self.cells_.to_rgba(self.scores)
        for (row, column), value in np.ndenumerate(self.scores):
            if not np.isfinite(value):
                continue
            star = " *" if (row, column) == self.best else ""
            luminance = float(np.dot(colors[row, column, :3], LUMINANCE_WEIGHTS))
            ink = "white" if luminance < DARK_LUMINANCE else "black"
            self.texts_.append(
                ax.text(column, row, f"{value:{number_format}}{star}", ha="center", va="center",
                        color=ink, fontsize=9)
            )  # fmt: skip

    def _mark_best(self, ax: Any, best: tuple[int, int]) -> None:
        from matplotlib.patches import Rectangle

        row, column = best
        self.best_ = ax.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1.0, 1.0, fc="none", ec=INK_COLOR, lw=2.6,
                      zorder=3.0, label="best")
        )  # fmt: skip


def _values(cells: Any, name: str) -> list[Any]:
    """Return the values of a parameter, ascending where they are numbers, else in the order met."""
    found = list(dict.fromkeys(cell.get(name) for cell in cells))
    is_number = all(isinstance(value, (int, float, np.number)) for value in found)
    return sorted(found) if is_number else found


def _fixed_values(
    cells: Any, names: list[str], shown: tuple[str, str], fixed: Any, best: Any
) -> dict[str, Any]:
    """Return the values of the parameters that are not shown."""
    others = [name for name in names if name not in shown]
    given = dict(fixed or {})
    unknown = sorted(set(given) - set(others))
    if unknown:
        raise InputError(f"fixed must have other parameters as keys ({others}); got {unknown}")
    fixed_values = {}
    for name in others:
        values = _values(cells, name)
        if name not in given and len(values) > 1 and best is None:
            raise InputError(f"fixed must have a value of {name}: the search has no best cell")
        value = given.get(name, values[0] if len(values) == 1 else cells[best].get(name))
        if value not in values:
            raise InputError(f"fixed must have one of the values {values} of {name}; got {value!r}")
        fixed_values[name] = value
    return fixed_values


def _text(value: Any) -> str:
    """Return a value as the text of a tick."""
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    number = float(value)
    return f"{number:.0f}" if MIN_WHOLE_TICK <= abs(number) < MAX_WHOLE_TICK else f"{number:.3g}"
