"""Result files: `save` writes a result or a fitted estimator, `load` reads it without pickle.

The format is described in docs/result_files.md.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError
from qpsvm.files.container import (
    MALFORMED_ERRORS,
    hash_points,
    hash_values,
    read_archive,
    write_archive,
)
from qpsvm.files.plain import Encoder, decode
from qpsvm.result import Result


@dataclass(frozen=True, eq=False)
class StoredProblem:
    """One solved problem of a file.

    Attributes
    ----------
    formulation : str
        Its name, such as ``"HingeDual"``.
    parameters : dict
        Labels, penalties and numbers of the formulation.
    rows : ndarray of int, or None
        Its points among those of the data; None for all.
    result : Result
        The answer without its model: `x`, `dual`, `status`, `certificate` and the rest.
    """

    formulation: str
    parameters: dict[str, Any]
    rows: NDArray[np.int64] | None
    result: Result = field(repr=False)


@dataclass(frozen=True, eq=False)
class StoredResult:
    """The content of a result file.

    Attributes
    ----------
    kind : str
        ``"result"``, or ``"estimator"``.
    name : str
        The formulation, or the class of the estimator.
    kernel : dict
        Name and numbers of the kernel, as the header has them.
    problems : tuple of StoredProblem
        The certified problems: one of a result, one or more of an estimator.
    data : dict
        Hashes of the data, ``"X"`` and ``"y"``, as far as they were given to `save`.
    versions : dict
        Versions of qpsvm, numpy and Python that wrote the file.
    header : dict
        The whole header.

    Examples
    --------
    >>> import numpy as np, qpsvm
    >>> X = np.array([[0.0], [1.0], [4.0], [5.0]])
    >>> model = qpsvm.SVC().fit(X, ["a", "a", "b", "b"])
    >>> qpsvm.save("model.npz", model, X=X)  # doctest: +SKIP
    >>> stored = qpsvm.load("model.npz")  # doctest: +SKIP
    >>> stored.problems[0].result.certificate.relative_gap <= 1e-3  # doctest: +SKIP
    True
    >>> stored.model().predict(X)  # doctest: +SKIP
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    kind: str
    name: str
    kernel: dict[str, Any]
    problems: tuple[StoredProblem, ...]
    data: dict[str, Any]
    versions: dict[str, str]
    header: dict[str, Any] = field(repr=False)
    _arrays: dict[str, NDArray[Any]] = field(repr=False)

    def model(self, kernel: Callable[[Any, Any], Any] | None = None) -> Any:
        """Return the estimator, or the model of the result; it predicts as the one that was saved.

        Parameters
        ----------
        kernel : callable, optional
            The function of a kernel that was given as one; a file cannot hold it.

        Returns
        -------
        estimator, Ball, Hyperplane, Regressor, OneClass, ClosestPoints or Minimizer

        Raises
        ------
        InputError
            If the kernel is a function that is not given, or the file holds no model of it.
        """
        from qpsvm.files.content import build, built_estimator

        read = partial(decode, arrays=self._arrays, build=build)
        entry = self.header["model"]
        if entry is None:
            raise InputError("path must name a file with a model; a kernel function has none there")
        if self.kind == "result":
            return _read(lambda: read(entry))
        parameters, state = _read(lambda: (read(entry["parameters"]), read(entry["state"])))
        if isinstance(parameters.get("kernel"), dict):
            if not callable(kernel):
                name = parameters["kernel"].get("function")
                raise InputError(f"kernel must be the function {name} of the fit; got {kernel!r}")
            parameters["kernel"] = kernel
            if "_kernel" in state:
                state["_kernel"] = state["_kernel"]._replace(name=kernel)
        results = [problem.result for problem in self.problems]
        return _read(lambda: built_estimator(entry, state, parameters, results))


def _read(action: Callable[[], Any]) -> Any:
    """Return what an action reads; whatever is wrong with the content is one InputError."""
    try:
        return action()
    except (
        MALFORMED_ERRORS
    ) as problem:  # the digests match: someone wrote a file of another content
        text = f"{type(problem).__name__}: {problem}"
        raise InputError(f"path must name a result file of qpsvm; its content {text}") from None


def save(path: Any, answer: Any, problem: Any = None, *, X: Any = None, y: Any = None) -> None:
    """Write a result or a fitted estimator to a file that `load` and `verify` read.

    The file is an npz without pickle: see :doc:`/result_files`. It is written beside `path` first and
    takes its place in one step, so that an old file survives a process that is killed.

    Parameters
    ----------
    path : str or path-like
        Name of the file, used as it is.
    answer : Result or estimator
        What `solve` returned, or a fitted estimator of `qpsvm.estimators`, not a search.
    problem : Formulation
        Of a `Result` the formulation that was solved, which has the data.
    X : array_like or sparse matrix, shape (m, d), optional
        Of an estimator the points of its fit, whose hash is stored. The points themselves are not, but
        for the support vectors.
    y : array_like, shape (m,), optional
        Its classes or values, whose hash is stored.

    Raises
    ------
    InputError
        If the answer cannot be stored: the message says why.

    Examples
    --------
    >>> import numpy as np, qpsvm
    >>> X = np.random.default_rng(0).standard_normal((40, 2))
    >>> problem = qpsvm.MEBDual(qpsvm.RBF(X, gamma=0.5))
    >>> qpsvm.save("ball.npz", qpsvm.solve(problem), problem)  # doctest: +SKIP
    >>> print(qpsvm.verify("ball.npz", X).ok)  # doctest: +SKIP
    True
    """
    from qpsvm.files import content

    encoder = Encoder(content.CLASSES_BY_NAME)
    if isinstance(answer, Result):
        if problem is None:
            raise InputError("problem must be the formulation that was solved; got None")
        if X is not None or y is not None:
            raise InputError("X and y must be left out for a result: its problem has them")
        header = content.result_entry(answer, problem, encoder)
        data = {"X": hash_points(content.points_of(problem))}
    else:
        if problem is not None:
            raise InputError("problem must be left out for an estimator; X and y are its data")
        header = content.model_entry(answer, encoder)
        data = {} if X is None else {"X": hash_points(X)}
        if y is not None:
            data["y"] = hash_values(y)
    versions = {
        "qpsvm": import_module("qpsvm").__version__,  # which imports this module
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    write_archive(path, {**header, "data": data, "versions": versions}, encoder.arrays)


def load(path: Any) -> StoredResult:
    """Read a result file. No code of the file is run, whatever it contains: there is no pickle.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    StoredResult
        Its `model()` is the estimator, or the model of the result; its `problems` have the answers.

    Raises
    ------
    InputError
        If the file is damaged or is no result file.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> qpsvm.load("ball.npz").model().radius  # doctest: +SKIP
    0.98
    """
    from qpsvm.files.content import build

    header, arrays = read_archive(path)
    read = partial(decode, arrays=arrays, build=build)

    def problem_of(entry: dict[str, Any]) -> StoredProblem:
        result = read(entry["result"])
        if not isinstance(result, Result):
            raise InputError("has a problem without a result")
        return StoredProblem(
            str(entry["formulation"]), read(entry["parameters"]), read(entry["rows"]), result
        )

    def stored() -> StoredResult:
        if header["kind"] not in ("result", "estimator"):
            raise InputError(f"has the kind {header['kind']!r}, which this release does not know")
        problems = tuple(problem_of(entry) for entry in header["problems"])
        return StoredResult(
            header["kind"], str(header["name"]), dict(header["kernel"]), problems,
            dict(header["data"]), dict(header["versions"]), header, arrays,
        )  # fmt: skip

    return _read(stored)
