"""What all estimators share: validation, options of the solver, and the report of a fit."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from qpsvm.api import solve
from qpsvm.errors import InputError
from qpsvm.estimators.callbacks import CallbackSupport
from qpsvm.estimators.inputs.chunks import points_at, validated_chunks
from qpsvm.estimators.inputs.kernels import Kernel
from qpsvm.estimators.inputs.parameters import SOLVER_RULES, Rules, check_parameters
from qpsvm.estimators.training import INTERRUPT_EFFECT, Plan, Terms, light, warn_of_gaps
from qpsvm.gram.storage.chunked import is_chunked
from qpsvm.numerics.parallel import single_threaded_blas
from qpsvm.result import Result, Status

BYTES_PER_CACHE_UNIT = 1 << 20
"""`cache_size` counts megabytes, as in LIBSVM."""

EMPTY_VECTOR = np.zeros(0)
"""What a pickle holds in place of the weights of a result."""


MIN_ENTRIES_FOR_BLAS_THREADS = 1 << 20
"""Entries of a matrix from which a second thread of BLAS pays in a product with few columns."""


def prediction_threads(n_entries: int, *, shares: bool) -> AbstractContextManager[Any]:
    """Keep BLAS to one thread where a product is small, or where our own threads share the work.

    To wake a second thread of BLAS takes milliseconds where other processes use the processors.
    """
    is_small = n_entries < MIN_ENTRIES_FOR_BLAS_THREADS
    return single_threaded_blas() if shares or is_small else nullcontext()


FRAMES_OF_FIT = 5
"""Frames from the call of `fit` to a warning at its end."""


class Estimator(CallbackSupport, BaseEstimator):
    """Base of the estimators.

    A subclass names its parameters in `__init__`, their allowed values in `_rules`, and fits.
    """

    _rules: ClassVar[Rules] = SOLVER_RULES
    _derived: ClassVar[tuple[str, ...]] = ("_support_gram",)
    """Attributes that are computed from others and not pickled."""
    _fits_chunks: ClassVar[bool] = False
    """Whether it is fitted to chunked points."""

    tol: float
    time_limit: float | None
    n_jobs: int | None
    max_iter: int

    def _begin(self) -> float | None:
        """Check the parameters; return the time at which the fit is to end, or None."""
        check_parameters(self, self._rules)
        return None if self.time_limit is None else time.time() + self.time_limit

    def _validated(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        """Return X, and y where it is given, checked by scikit-learn; float32 stays float32.

        Chunked points are returned as `ChunkedPoints`, whose rows are checked where they are loaded.
        """
        if is_chunked(X):
            return validated_chunks(self, X, y)
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
        )

    def _options(self, n_workers: int = 1) -> dict[str, Any]:
        """Return the arguments of `solve`."""
        given: Any = self
        verbose = given.verbose if isinstance(given.verbose, str) else bool(given.verbose)
        seed = given.random_state
        if seed is not None and not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        n_bytes = given.cache_size * BYTES_PER_CACHE_UNIT / n_workers
        return {
            "method": given.method,
            "tol": float(given.tol),
            "max_iter": None if given.max_iter == -1 else int(given.max_iter),
            "callback": given.callback,
            "verbose": verbose,
            "seed": 0 if seed is None else int(seed),
            "memory_limit": max(1, int(n_bytes)),
            "interrupt": INTERRUPT_EFFECT.get(),
        }

    def _plan(self, points: Any, declare: Any, deadline: float | None, n_tasks: int) -> Plan:
        """Return what the problems of a fit share."""
        n_workers = 1
        if n_tasks > 1:
            from joblib import effective_n_jobs

            n_workers = min(effective_n_jobs(self.n_jobs), n_tasks)
        return Plan(points, declare, self._options(n_workers), deadline, self.n_jobs, n_workers)

    def _solved_alone(self, problem: Any, deadline: float | None, length: int) -> Result:
        """Return the answer of the only problem of a fit, whose variable has this length."""
        start = self._starts(1)[0]
        return solve(
            problem,
            x0=start if start is not None and len(start) == length else None,
            time_limit=None if deadline is None else max(0.0, deadline - time.time()),
            **self._options(),
        )

    def _report(
        self, results: list[Result], *, single: bool, stacklevel: int = FRAMES_OF_FIT
    ) -> None:
        """Set the attributes that say how good the answers are; warn where a gap was not reached."""
        self.dual_gap_ = max(result.certificate.relative_gap for result in results)
        missed = [r.status for r in results if r.status is not Status.OPTIMAL]
        self.status_ = missed[0] if missed else Status.OPTIMAL
        self.fit_status_ = int(bool(missed))
        values = np.array([result.value for result in results])
        steps = np.array([max(1, result.n_iter) for result in results], dtype=np.int32)
        kept = [light(result) for result in results]
        self.objective_: Any = float(values[0]) if single else values
        self.n_iter_: Any = int(steps[0]) if single else steps
        self.result_: Any = kept[0] if single else kept
        warn_of_gaps(results, self.tol, self.max_iter, stacklevel)

    def _remember(
        self,
        terms: list[Terms],
        rows: NDArray[np.int64],
        *,
        constant: float | None = None,
        divisor: float | None = None,
        dtype: Any = np.float64,
    ) -> None:
        """Keep what was declared, for a result file, with `rows` the points of the fit among all given.

        `constant` was appended to the points as a feature, or they were divided by `divisor`, in `dtype`.
        """
        self._terms = [
            one._replace(rows=rows if one.rows is None else rows[one.rows]) for one in terms
        ]
        self._solved_as = {
            "constant": constant, "divisor": divisor, "dtype": np.dtype(dtype).name,
        }  # fmt: skip

    def _starts(self, n_problems: int) -> list[NDArray[np.float64] | None]:
        """Return the variables of the last fit, where there was one and they are wanted."""
        given: Any = self
        if not given.warm_start or not hasattr(self, "result_"):
            return [None] * n_problems
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        if len(results) != n_problems:
            return [None] * n_problems
        return [result.x if len(result.x) else None for result in results]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without derived data; results keep their certificates and not their weights."""
        state = dict(super().__getstate__())
        for name in (*self._derived, "_terms", "_solved_as"):
            state.pop(name, None)
        if "result_" in state:
            kept = state["result_"]
            several = isinstance(kept, list)
            lighter = [_without_weights(result) for result in (kept if several else [kept])]
            state["result_"] = lighter if several else lighter[0]
        return state


def _without_weights(result: Result) -> Result:
    return replace(
        result, x=EMPTY_VECTOR, dual=None, support=np.zeros(0, np.int64), least_gap=None,
        direction=None, history=replace(result.history, **{
            name: values[-1:] for name, values in vars(result.history).items()
        }),
    )  # fmt: skip


class KernelEstimator(Estimator):
    """Base of the estimators with a kernel: support vectors and their coefficients."""

    kernel: Any
    support_: NDArray[np.int32]
    support_vectors_: Any
    dual_coef_: Any
    intercept_: NDArray[np.float64]
    _support_gram: Any

    def __sklearn_tags__(self) -> Any:
        """Say that sparse points are taken, and whether X is a kernel matrix."""
        tags = super().__sklearn_tags__()
        is_precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = is_precomputed
        tags.input_tags.sparse = not is_precomputed
        return tags

    def _validated(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        """Return X, and y, checked; a kernel matrix must be square and dense."""
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            if is_chunked(X):
                raise InputError("X must be an array for kernel='precomputed'; got chunked rows")
            if hasattr(X, "tocsr"):
                raise TypeError("Sparse precomputed kernels are not supported.")
            checked = super()._validated(X, y, reset=reset)
            K = checked[0] if isinstance(checked, tuple) else checked
            if reset and K.shape[0] != K.shape[1]:
                raise InputError(
                    "Precomputed matrix must be a square matrix. "
                    f"Input is a {K.shape[0]}x{K.shape[1]} matrix."
                )
            return checked
        return super()._validated(X, y, reset=reset)

    def _keep(self, kernel: Kernel, shape: tuple[int, int]) -> Self:
        """Keep the kernel and the shape of the training points."""
        self._kernel, self._gamma, self.shape_fit_ = kernel, kernel.gamma, shape
        self.__dict__.pop("_support_gram", None)
        if len(self.support_):
            self._support_gram = self._gram_of_support()
        return self

    def _gram_of_support(self) -> Any:
        """Return what evaluates kernel values with the support vectors."""
        if self._kernel.is_precomputed:
            from qpsvm.gram.model_features import MatrixColumns

            return MatrixColumns(self.shape_fit_[0], self.support_.astype(np.int64))
        return self._kernel.gram(self.support_vectors_)

    def _sums(self, X: Any, columns: NDArray[np.int64], coef: NDArray[np.float64]) -> Any:
        """Return sums of kernel values of some support vectors, shape (n,) or (n, p)."""
        if not len(columns):
            return np.zeros((X.shape[0], *coef.shape[1:]))
        if "_support_gram" not in vars(self):
            self._support_gram = self._gram_of_support()
        with prediction_threads(X.shape[0] * len(columns), shares=not self._kernel.is_precomputed):
            return self._support_gram.combine(X, columns, coef)

    def _group_sums(
        self, X: Any, groups: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    ) -> NDArray[np.float64]:
        """Return sums of kernel values of groups of support vectors, shape (total of p, n)."""
        if "_support_gram" not in vars(self):
            self._support_gram = self._gram_of_support()
        n_columns = sum(len(columns) for columns, _ in groups)
        with prediction_threads(X.shape[0] * n_columns, shares=not self._kernel.is_precomputed):
            return np.asarray(self._support_gram.combine_groups(X, groups))

    def _new_points(self, X: Any) -> Any:
        """Return new points, checked against the training points."""
        check_is_fitted(self)
        return self._validated(X, reset=False)


class ExpansionEstimator(KernelEstimator):
    """Base of the estimators with one sum of kernel values."""

    n_support_: NDArray[np.int32]
    _normal: NDArray[np.float64] | None

    def _set_expansion(
        self, kernel: Kernel, rows: NDArray[np.int64], coef: NDArray[np.float64], X: Any
    ) -> None:
        """Set the support vectors, the points `rows` of X, and their coefficients."""
        self.support_ = rows.astype(np.int32)
        self.n_support_ = np.array([len(rows)], dtype=np.int32)
        vectors = np.empty((0, 0)) if kernel.is_precomputed else points_at(X, rows)
        sparse = sp.csr_array if isinstance(vectors, sp.sparray) else sp.csr_matrix
        self.support_vectors_ = vectors
        self.dual_coef_ = sparse(coef[None, :]) if sp.issparse(vectors) else coef[None, :]
        self._keep(kernel, X.shape)

    def _products(self, X: Any) -> NDArray[np.float64]:
        """Return the inner products of new points with the vector of the answer, shape (n,)."""
        coef = self.dual_coef_.toarray() if sp.issparse(self.dual_coef_) else self.dual_coef_
        return np.asarray(self._sums(X, np.arange(coef.shape[1]), coef[0]))

    def _linear_normal(self) -> Any:
        """Return the normal, shape (1, n_features), where the kernel is linear."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        assert self._normal is not None
        normal = self._normal[None, :].copy()
        normal.flags.writeable = False
        return sp.csr_matrix(normal) if sp.issparse(self.dual_coef_) else normal
