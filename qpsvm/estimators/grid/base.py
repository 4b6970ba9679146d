"""What the searches of a grid share: its values, the table of results, and the refit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qpsvm.clock import Clock, Expired
from qpsvm.errors import InputError, Interrupted
from qpsvm.estimators.base import KernelEstimator
from qpsvm.estimators.inputs.chunks import by_chunks
from qpsvm.estimators.inputs.kernels import Kernel, weighted_gamma
from qpsvm.estimators.inputs.parameters import (
    KERNEL_RULES,
    NO_VALUE,
    SOLVER_RULES,
    Rules,
    instance,
    number,
)
from qpsvm.estimators.inputs.samples import Vector
from qpsvm.threads import limit

DEFAULT_PENALTY_RANGE = (1e-2, 1e3)
"""Least and greatest C where `Cs` is a number of values."""

DEFAULT_GAMMA_RANGE = (1e-2, 1e1)
"""Least and greatest gamma where `gammas` is a number of values, in units of ``gamma="scale"``."""

KERNELS_WITH_GAMMA = ("rbf", "poly", "sigmoid", "laplacian")
"""Kernels that have the parameter gamma."""

ANY_ARRAY = instance((list, tuple, np.ndarray), "an array-like")
"""Lists of values."""

GRID_RULES: Rules = {
    "Cs": (number(1, integer=True), ANY_ARRAY),
    "gammas": (number(1, integer=True), ANY_ARRAY),
    "kernel": KERNEL_RULES["kernel"],
    "degree": KERNEL_RULES["degree"],
    "coef0": KERNEL_RULES["coef0"],
    "tol": SOLVER_RULES["tol"],
    "time_limit": SOLVER_RULES["time_limit"],
    "n_jobs": SOLVER_RULES["n_jobs"],
    "memory_limit": (number(1, integer=True), NO_VALUE),
}
"""Parameters of every search."""

Axes = dict[str, list[float]]
"""Values of each parameter of the grid, by names in alphabetical order."""


class GridSearch(KernelEstimator):
    """A search of the parameters of an estimator, which is fitted to all points with the best.

    A subclass names its parameters, fills the table of scores and gaps, and makes the estimator of
    a cell.
    """

    Cs: Any
    gammas: Any
    degree: int
    coef0: float
    n_jobs: int | None
    verbose: bool

    def _estimator(self, *args: Any, **parameters: Any) -> Any:
        """Return the estimator of a cell."""
        raise NotImplementedError

    def _penalties(self) -> Vector:
        """Return the values of C, ascending."""
        Cs = self.Cs
        if isinstance(Cs, (int, np.integer)):
            Cs = np.geomspace(*DEFAULT_PENALTY_RANGE, int(Cs))
        return np.unique(numbers_of("Cs", Cs))

    def _kernels(self, X: Any, weight: Vector) -> list[Kernel]:
        """Return the kernels, by ascending gamma where they have one; a weight counts as repetitions."""
        if self.kernel not in KERNELS_WITH_GAMMA:
            return [Kernel(self.kernel, 0.0, self.degree, self.coef0)]
        gammas = self.gammas
        if isinstance(gammas, (int, np.integer)):
            scale = weighted_gamma("scale", X, weight)
            gammas = scale * np.geomspace(*DEFAULT_GAMMA_RANGE, int(gammas))
        values = [weighted_gamma(g, X, weight) if isinstance(g, str) else g for g in gammas]
        values = np.unique(numbers_of("gammas", values)).tolist()
        return [Kernel(self.kernel, g, self.degree, self.coef0) for g in values]

    def _searched(
        self,
        clock: Clock,
        axes: Axes,
        n_splits: int,
        fill: Callable[[Vector, Vector], None],
        data: tuple[Any, Any, Any],
    ) -> Self:
        """Let `fill` write scores and gaps, choose the best cell, and fit it to all points.

        Parameters
        ----------
        clock : Clock
            Of the whole search.
        axes : dict
            The grid.
        n_splits : int
        fill : callable
            ``fill(table, gaps)`` writes into arrays of an axis for each parameter and one for the splits.
        data : tuple
            X, y and the weights as they were given.
        """
        self.n_splits_ = n_splits
        shape = (*(len(values) for values in axes.values()), n_splits)
        table, gaps = np.full(shape, np.nan), np.full(shape, np.nan)
        X, y, sample_weight = data
        with (
            limit(self.n_jobs or np.iinfo(np.int32).max),
            clock.listening(),
            clock.limiting_calls(),
        ):
            try:
                with clock.abandoning():
                    fill(table, gaps)
            except Expired:
                pass
            if clock.interrupted:
                raise Interrupted(None)
            self._choose(axes, table.reshape(-1, n_splits), gaps.reshape(-1, n_splits))
            self.best_estimator_ = self._estimator(**self.best_params_)
            self.best_estimator_.set_params(time_limit=clock.seconds_left)
            self.best_estimator_.fit(X, y, sample_weight=sample_weight)
            self.best_estimator_.set_params(time_limit=None)
        return self

    def _choose(self, axes: Axes, table: Vector, gaps: Vector) -> None:
        """Set the results and the best parameters from scores and gaps, shape (n_cells, n_splits)."""
        has_gamma = self.kernel in KERNELS_WITH_GAMMA
        names = [name for name in axes if name != "gamma" or has_gamma]
        cells = product(*(axes[name] for name in names))
        params = [dict(zip(names, cell, strict=True)) for cell in cells]
        mean = table.mean(axis=1)
        results: dict[str, Any] = {"params": params}
        for name in names:
            values = [one[name] for one in params]
            results[f"param_{name}"] = np.ma.MaskedArray(values, mask=False)
        for at in range(table.shape[1]):
            results[f"split{at}_test_score"] = table[:, at]
            results[f"split{at}_dual_gap"] = gaps[:, at]
        results["mean_test_score"] = mean
        results["std_test_score"] = table.std(axis=1)
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        results["rank_test_score"] = 1 + np.sum(ranked[:, None] < ranked[None, :], axis=1)
        results["max_dual_gap"] = gaps.max(axis=1)
        self.cv_results_ = results
        self.best_index_ = int(np.argmax(ranked))
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])
        for name, value in self.best_params_.items():
            setattr(self, f"{name}_", value)

    def _part(self, X: Any, rows: Any, columns: Any) -> Any:
        """Return some points; of a kernel matrix also the columns of the training points."""
        return X[np.ix_(rows, columns)] if self.kernel == "precomputed" else X[rows]

    def _bar(self, n_kernels: int) -> Any:
        """Return a progress bar over the kernels, or None."""
        if not self.verbose:
            return None
        from tqdm.auto import tqdm

        return tqdm(total=n_kernels, desc="kernels")

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Return the classes or values of new points, shape (n,), by the best estimator.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(self._new_points(X))


def numbers_of(name: str, values: Any, *, allows_zero: bool = False) -> Vector:
    """Return positive numbers, or nonnegative ones; at least one.

    Raises
    ------
    InputError
        If there are none, or others.
    """
    array, sign = np.asarray(values), ">=" if allows_zero else ">"
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be an int or a list of numbers {sign} 0; got {values!r}")
    if not np.all(array >= 0 if allows_zero else array > 0):
        raise InputError(f"{name} must be {sign} 0; got {np.min(array)!r}")
    return array.astype(np.float64)
