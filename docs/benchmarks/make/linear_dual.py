"""Linear hinge SVMs at equal certified gap: time against C, and against the size of the data.

Rows and figures for `docs.benchmarks.make.tables`; the data come from the folder in QPSVM_DATA. Ours are
judged by their own certificate. LIBLINEAR (through scikit-learn's LinearSVC, no intercept: the same
problem) does not give its dual weights. Against C and against the size it counts as done when its
primal value is within the tolerance of a certified lower bound, which is less than is asked of ours.
For the ratios its weights are found by a second, untimed run and judged by our certificate (see
`_weights`). Its tolerance is loosened as far as that allows. LIBSVM (through SVC) has a free bias; its
dual weights are judged by our certificate of that problem, and its tolerance is the loosest of three
that is good enough.
"""

from __future__ import annotations

import multiprocessing as mp
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import qpsvm
from asv_benchmarks import real_data
from docs.benchmarks.make import linear_svm
from qpsvm import HingeDual, HingePrimal, Linear
from qpsvm.driver.certificate import certify

TOL = 1e-3
TIME_LIMIT = 5.0  # seconds of a run of ours
PEER_TIME_LIMIT = (
    60.0  # seconds of a run of LIBSVM; LIBLINEAR ends a third of that at its last tolerance
)
OWN_METHODS = ("dcd", "pegasos", "crsvm", "nesvm", "homotopy-nesvm")
PENALTY_VALUES = tuple(10.0**k for k in range(-3, 4))
PENALTY_SET = "a4a"  # the set on which C grows
SIZE_SETS = ("a1a", "a2a", "a3a", "a4a", "a5a", "a8a", "a9a")
C = 1.0
LIBSVM_TOLERANCES = (0.1, 0.01, 1e-3)  # its tolerances, from loose to its default
LIBLINEAR_TOLERANCES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
RATIO_SETS = ("a9a", "w8a", "reuters", "covtype")
N_SEEDS, N_SEEDS_OF_LARGE, LARGE_SET_POINTS = 5, 3, 100_000  # and for so many points and more
SLOW_SECONDS = 4.0  # seconds: where LIBLINEAR is slower than that, both run once for each seed


class Row(NamedTuple):
    """One run: the point on the axis, who ran, how near it came, how long it took."""

    data: str
    m: int
    C: float
    who: str
    gap: float
    seconds: float

    @property
    def entries_that_matter(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= TOL


def against_penalty() -> Iterator[Row]:
    """Yield the runs at growing C on one set."""
    yield from _runs([(PENALTY_SET, C) for C in PENALTY_VALUES])


def against_size() -> Iterator[Row]:
    """Yield the runs on the growing adult set."""
    yield from _runs([(name, C) for name in SIZE_SETS])


def against_liblinear(names: tuple[str, ...] = RATIO_SETS) -> Iterator[tuple[str, ...]]:
    """Yield our seconds and LIBLINEAR's at the same certified gap, over seeds of both.

    For each seed the median of runs made in turn; of these the median, and the least and largest
    ratio.
    """
    for name in names:
        X, y = _points(name)
        for penalty in (0.01, 1.0):
            _ours(X, y, penalty, "dcd", TOL)
            seeds = N_SEEDS if len(y) < LARGE_SET_POINTS else N_SEEDS_OF_LARGE
            start = [0] * seeds  # each seed's tolerance in LADDER at the gap before
            for tol in (1e-3, 1e-5):
                ours, theirs, gaps = [], [], []
                for seed in range(seeds):
                    step, gap = _loosest(X, y, penalty, tol, seed, start[seed])
                    start[seed] = step
                    first = _fit(X, y, penalty, LIBLINEAR_TOLERANCES[step], seed)[1]
                    runs = [
                        (
                            _ours(X, y, penalty, "dcd", tol, seed=seed),
                            _fit(X, y, penalty, LIBLINEAR_TOLERANCES[step], seed)[1],
                        )
                        for _ in range(1 if first > SLOW_SECONDS else 3)
                    ]
                    ours.append(float(np.median([seconds for (_, seconds), _ in runs])))
                    theirs.append(float(np.median([seconds for _, seconds in runs])))
                    gaps.append((max(reached for (reached, _), _ in runs), gap))
                worst = max(gap for gap, _ in gaps), max(gap for _, gap in gaps)
                middle, other = float(np.median(ours)), float(np.median(theirs))
                each = np.array(theirs) / np.array(ours)
                known = worst[1] <= tol
                yield (
                    name, f"{penalty:g}", f"{tol:.0e}", _said(worst[0], middle, tol),
                    _said(worst[1], other, tol),
                    ("" if known else "more than ") + f"{other / middle:.2f}",
                    f"{each.min():.2f} to {each.max():.2f}",
                )  # fmt: skip


def _loosest(
    X: Any, y: Any, penalty: float, tol: float, seed: int, start: int
) -> tuple[int, float]:
    """Return the first of LADDER from `start` on that reaches the gap, and what it reaches.

    Where a run is slow it is the last: LIBLINEAR's tolerance only says when it stops, so that a
    tighter one takes the same steps and more.
    """
    for step in range(start, len(LIBLINEAR_TOLERANCES)):
        begun = time.perf_counter()
        a = _weights(X, y, penalty, LIBLINEAR_TOLERANCES[step], seed)
        slow = time.perf_counter() - begun > PEER_TIME_LIMIT
        gap = _certified(X, y, penalty, a)
        if gap <= tol or slow:
            break
    return step, gap


def at_large_penalty() -> Iterator[tuple[str, ...]]:
    """Yield our seconds at C = 100 to 1e-6 with and without a bias."""
    sets = {"a9a": _points("a9a"), "20,000 x 50": linear_svm.mixture(20_000, 50)}
    for name, (X, y) in sets.items():
        for bias in (False, True):
            cells = [name, "yes" if bias else "no"]
            for method in ("dcd", "crsvm", "auto"):
                runs = [_ours(X, y, 100.0, method, 1e-6, bias=bias) for _ in range(3)]
                cells.append(_said(*runs[0], 1e-6, min(seconds for _, seconds in runs)))
            yield tuple(cells)


def _points(name: str) -> tuple[Any, Any]:
    """Return a set in float64; of covtype class 2, and features divided by their largest value."""
    X, y = real_data.load(name)
    X = X.astype(np.float64)
    if name == "covtype":
        y = np.where(y == 2, 1.0, -1.0)
        largest = np.maximum(abs(X).max(axis=0).toarray().ravel(), 1e-300)
        X.data /= largest[X.indices]
    return X, y


def _said(gap: float, seconds: float, tol: float, least: float | None = None) -> str:
    seconds = seconds if least is None else least
    return f"{seconds:.3g}" if gap <= tol else f"({gap:.0e} after {seconds:.3g})"


def draw(rows: list[Row], axis: str, path: Path) -> None:
    """Draw seconds against "C" or "m", one line for each who; only runs that reached the gap."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for who in dict.fromkeys(row.who for row in rows):
        reached = [row for row in rows if row.who == who and row.entries_that_matter]
        axes.loglog(
            [getattr(row, axis) for row in reached],
            [row.seconds for row in reached],
            "o-",
            label=who,
        )
    axes.set(xlabel=axis, ylabel=f"seconds to a relative gap of {TOL:g}")
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=120)


def _runs(points: list[tuple[str, float]]) -> Iterator[Row]:
    """Yield what everyone needs at each point."""
    for name, penalty in points:
        X, y = _points(name)
        for who in OWN_METHODS:
            yield Row(name, len(y), penalty, who, *_ours(X, y, penalty, who))
        yield Row(name, len(y), penalty, "LIBLINEAR", *_liblinear(X, y, penalty))
        yield Row(name, len(y), penalty, "LIBSVM", *_libsvm(X, y, penalty))


def _ours(
    X: Any, y: Any, penalty: float, method: str, tol: float = TOL, limit: float = TIME_LIMIT,
    bias: bool = False, seed: int = 0,
) -> tuple[float, float]:  # fmt: skip
    some = slice(0, len(y), max(1, len(y) // 300))
    problem = HingePrimal(X[some], y[some], penalty, bias=bias)
    qpsvm.solve(problem, method, tol=1e-12, max_iter=20)  # compiles, the end phase too
    problem = HingePrimal(X, y, penalty, bias=bias)
    qpsvm.solve(problem, method, tol=tol, time_limit=0.3)  # and what large problems alone use
    begun = time.perf_counter()
    result = qpsvm.solve(
        HingePrimal(X, y, penalty, bias=bias), method, tol=tol, time_limit=limit, max_iter=10**9,
        seed=seed,
    )  # fmt: skip
    return result.certificate.relative_gap, time.perf_counter() - begun


def _lower(X: Any, y: Any, penalty: float) -> float:
    """Return a lower bound certified to 1e-6, or what the limit allows."""
    problem = HingePrimal(X, y, penalty, bias=False)
    return qpsvm.solve(problem, "dcd", tol=1e-6, time_limit=TIME_LIMIT).certificate.lower


def _fit(X: Any, y: Any, penalty: float, tol: float, seed: int = 0) -> tuple[Any, float]:
    from sklearn.svm import LinearSVC

    model = LinearSVC(
        loss="hinge", dual=True, C=penalty, tol=tol, fit_intercept=False, max_iter=10**5,
        random_state=seed,
    )  # fmt: skip
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = model.fit(X, y).coef_.ravel()
    return w, time.perf_counter() - begun


def _weights(X: Any, y: Any, penalty: float, tol: float, seed: int = 0) -> Any:
    """Return LIBLINEAR's dual weights.

    Every point gets a feature of its own, so small that the run stays the same to roundoff; its
    weight at the end is that of the point.
    """
    small = 1e-7
    marked = sp.hstack([X, small * sp.identity(len(y))]).tocsr()
    w, _ = _fit(marked, y, penalty, tol, seed)
    return y * w[X.shape[1] :] / small


def _certified(X: Any, y: Any, penalty: float, a: Any) -> float:
    """Return the relative gap of dual weights by our certificate."""
    return certify(HingePrimal(X, y, penalty, bias=False).as_qp(), a, TOL).certificate.relative_gap


def _liblinear(X: Any, y: Any, penalty: float) -> tuple[float, float]:
    """Return gap and seconds of the loosest run that is good enough, or of the last."""
    lower = _lower(X, y, penalty)
    gap, seconds = np.inf, 0.0
    for settings in LIBLINEAR_TOLERANCES:
        w, seconds = _fit(X, y, penalty, settings)
        value = 0.5 * w @ w + penalty * np.sum(np.maximum(0.0, 1.0 - y * (X @ w)))
        gap = float((value - lower) / value)
        if gap <= TOL or seconds > PEER_TIME_LIMIT / 3.0:
            break
    return gap, seconds


def _libsvm(X: Any, y: Any, penalty: float) -> tuple[float, float]:
    """Return gap and seconds of the loosest run that is good enough, or of the last."""
    gap, seconds = np.inf, PEER_TIME_LIMIT
    for tol in LIBSVM_TOLERANCES:
        a, seconds = _svc(X, y, penalty, tol)
        if a is None:
            return gap, seconds
        judged = qpsvm.solve(HingeDual(Linear(X), y, penalty), "smo", x0=a, max_iter=0)
        gap = judged.certificate.relative_gap
        if gap <= TOL:
            break
    return gap, seconds


def _svc(X: Any, y: Any, penalty: float, tol: float) -> tuple[Any, float]:
    """Return weights and seconds of SVC, in a process that ends when patience does; or None."""

    def fit() -> None:
        from sklearn.svm import SVC

        model = SVC(kernel="linear", C=penalty, tol=tol, cache_size=1000)
        begun = time.perf_counter()
        model.fit(X, y)
        seconds, a, dual = time.perf_counter() - begun, np.zeros(len(y)), model.dual_coef_
        a[model.support_] = np.abs(dual.toarray() if sp.issparse(dual) else dual).ravel()
        there.send((a, seconds))

    here, there = mp.get_context("fork").Pipe(duplex=False)
    process = mp.get_context("fork").Process(target=fit)
    process.start()
    there.close()
    found = here.recv() if here.poll(PEER_TIME_LIMIT) else (None, PEER_TIME_LIMIT)
    process.kill()
    process.join()
    return found
