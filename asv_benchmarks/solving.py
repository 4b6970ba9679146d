"""Instances of the catalogue by each method: time, memory, iterations and kernel columns.

Every solve goes to the certified gap that the method promises in METHODS.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import qpsvm
from asv_benchmarks.common import (
    INSTANCE_NAMES,
    LARGE_PROBLEMS,
    SELECTED_INSTANCES,
    compile_steps,
    fitting_pairs,
    settle,
)


class ToPromisedGap:
    """Time from the call to the answer, columns and the closing certificate included."""

    params = fitting_pairs(INSTANCE_NAMES)
    param_names = ["instance and method"]

    def setup(self, pair):
        name, self.method = pair.split()
        self.problem = SELECTED_INSTANCES[name].declare()
        settle(self.problem, self.method)  # once before, so that no compilation is measured

    def time_solve(self, pair):
        settle(self.problem, self.method)


class Work:
    """What the same solves cost, counted: equal numbers on every machine."""

    params = fitting_pairs([name for name in INSTANCE_NAMES if "breast-cancer" in name])
    param_names = ["instance and method"]

    def setup_cache(self):
        results = {}
        for pair in self.params:
            name, method = pair.split()
            result = settle(SELECTED_INSTANCES[name].declare(), method)
            results[pair] = result.n_iter, result.counters["columns"]
        return results

    def track_iterations(self, results, pair):
        return results[pair][0]

    def track_columns(self, results, pair):
        return results[pair][1]

    track_iterations.unit = "iterations"
    track_columns.unit = "kernel columns"


class ManyPoints:
    """A ball and a classifier on many points: K is never formed."""

    params = [list(LARGE_PROBLEMS), ["mfw", "smo", "decomposition"]]
    param_names = ["problem", "method"]

    def setup(self, name, method):
        self.problem = LARGE_PROBLEMS[name]()
        compile_steps(method)

    def time_solve(self, name, method):
        settle(self.problem, method)

    def peakmem_solve(self, name, method):
        settle(self.problem, method)


class LinearRegression:
    """Regressions on normal points by the automatic choice, with a free bias and without one."""

    params = [["3000x10", "3000x50", "20000x10"], [0.0, 0.1], [0.1, 100.0], [False, True]]
    param_names = ["points", "epsilon", "C", "bias"]

    def setup(self, size, epsilon, C, bias):
        m, d = map(int, size.split("x"))
        rng = np.random.default_rng(0)
        X = rng.standard_normal((m, d))
        values = X[:, 0] + 0.1 * rng.standard_normal(m)
        self.problem = qpsvm.SVRDual(qpsvm.Linear(X), values, C, epsilon, bias=bias)
        settle(self.problem, "auto", 1e-4)  # once before, so that no compilation is measured

    def time_solve(self, size, epsilon, C, bias):
        settle(self.problem, "auto", 1e-4)


class LinearSquaredSlacks:
    """L2-SVMs on many features by the automatic choice: nearly separable dense points, and texts."""

    params = [["dense 2000x780", "text 2000x100000"], [0.1, 10.0]]
    param_names = ["points", "C"]

    def setup(self, points, C):
        storage, (m, d) = points.split()[0], map(int, points.split()[1].split("x"))
        rng = np.random.default_rng(0)
        if storage == "dense":
            X = rng.standard_normal((m, d))
        else:
            words = (d ** rng.random((m, 60))).astype(np.int64) - 1  # probability 1 / rank
            X = sp.csr_matrix((np.ones(words.size), words.ravel(), 60 * np.arange(m + 1)), (m, d))
            X.sum_duplicates()
        score = X @ rng.standard_normal(d)
        score -= score.mean()
        noise = 0.3 * score.std() * rng.standard_normal(m)
        y = np.where(score + noise > 0, 1.0, -1.0)
        self.problem = qpsvm.L2SVMDual(qpsvm.Linear(X), y, C)
        settle(self.problem, "auto", 1e-4)  # once before, so that no compilation is measured

    def time_solve(self, points, C):
        settle(self.problem, "auto", 1e-4)
