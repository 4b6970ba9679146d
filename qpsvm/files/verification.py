"""The verification of result files: bounds recomputed from the data, by code of its own.

Nothing here is shared with the solvers and their certificates: kernel values are the plain formulas in
float64 (`kernel_values`), bounds are those of the textbooks (`dual_bounds`, `bounds`), and a test holds
that no file of the verification imports anything else of the library. What it proves does not rest on the
file: the bounds hold for the data that are given, with an allowance for rounding that is stated.

The allowance. A product of n terms computed in float64 differs from the exact one by at most n eps times
the sum of the sizes of its terms. Bounds of kernel values follow from their formulas, and each bound is
carried to the value and to the lower bound with the weight that the formula gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from qpsvm.errors import InputError, check_points
from qpsvm.files.bounds import EVALUATION_OF, least_squares
from qpsvm.files.claims import Report, check_convexity, compare
from qpsvm.files.container import MALFORMED_ERRORS, hash_points, hash_values, read_archive
from qpsvm.files.kernel_values import FLOAT64_EPS, KernelMatrix, lengths
from qpsvm.files.plain import decode

PRIMAL_KINDS = {
    "HingePrimal": {"loss": "hinge", "penalty": "l2"},
    "LSSVMPrimal": {"loss": "squared", "penalty": "l2"},
    "LPSVMPrimal": {"loss": "hinge", "penalty": "l1"},
}
"""Loss and penalty of the problems in w and b."""


@dataclass(frozen=True)
class Verification:
    """The report of a verification.

    Attributes
    ----------
    ok : bool
        Whether every claim of the file holds for the data.
    lines : tuple of str
        What was checked, a line each; those of a claim that does not hold begin with ``"FAILED"``.

    Examples
    --------
    >>> report = qpsvm.verify("ball.npz", X)  # doctest: +SKIP
    >>> report.ok  # doctest: +SKIP
    True
    """

    ok: bool
    lines: tuple[str, ...]

    def __str__(self) -> str:
        """Return the lines, and the verdict."""
        verdict = "Verified." if self.ok else "Not verified."
        return "\n".join([*self.lines, verdict])


def verify(
    path: Any, X: Any, y: Any = None, *, kernel: Callable[[Any, Any], Any] | None = None
) -> Verification:
    """Check a result file against its data, by an evaluation that shares no code with the solvers.

    Value, lower bound, feasibility and gap of every problem in the file are recomputed in float64 and
    compared with what the file claims, and the hashes of the data are compared.

    Parameters
    ----------
    path : str or path-like
        A file that `save` wrote.
    X : array_like or sparse matrix, shape (m, d)
        The points of the problem or of the fit; of a precomputed kernel K, of a quadratic program Q, of
        least squares A.
    y : array_like, shape (m,), optional
        Labels, classes or values, compared with those that the file holds; by default those of the file
        are taken.
    kernel : callable, optional
        The function of a kernel that was given as one.

    Returns
    -------
    Verification
        Its `ok` says whether every claim holds, its text what was checked.

    Raises
    ------
    InputError
        If the file is damaged or is no result file, or the data are malformed.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> print(qpsvm.verify("ball.npz", X))  # doctest: +SKIP
    """
    header, arrays = read_archive(path)
    X = check_points("X", X)
    if y is not None and np.shape(y) != (X.shape[0],):
        raise InputError(f"y must have shape ({X.shape[0]},); got {np.shape(y)}")
    report = Report()
    try:
        _check_file(header, arrays, X, y, kernel, report)
    except InputError:
        raise
    except MALFORMED_ERRORS as problem:
        # The digests match: someone wrote a file of another content.
        raise InputError(
            f"path must name a result file of qpsvm; the content of {path} is malformed: "
            f"{type(problem).__name__}: {problem}"
        ) from None
    return Verification(report.ok, tuple(report.lines))


def _check_file(
    header: dict[str, Any], arrays: Any, X: Any, y: Any, function: Any, report: Report
) -> None:
    read = partial(decode, arrays=arrays, build=_fields)
    versions, problems = header["versions"], header["problems"]
    report.say(
        f"{header['name']} with {len(problems)} certified problem{'s' * (len(problems) != 1)}, "
        f"written by qpsvm {versions['qpsvm']}."
    )
    report.check(problems, "The file holds a problem.")
    _check_data(header, X, y, report)
    points = X.astype(np.float64)
    entry = header["kernel"]
    transformed = entry.get("transform", {}).get("kernel", {})
    is_custom = "custom" in (entry["name"], transformed.get("name"))
    if is_custom and not callable(function):
        raise InputError(
            f"kernel must be the function of the fit; the file cannot hold it; got {function!r}"
        )
    matrix = _kernel_matrix(entry, X, points, function, read)
    stored = read(header["model"]["state"]) if header["kind"] == "estimator" else {}
    _check_support(stored, points, report)
    for number, problem in enumerate(problems):
        at = f" {number + 1}" if len(problems) > 1 else ""
        _check_problem(f"Problem{at}", problem, matrix, read, stored, y, report)


def _fields(name: str, values: Any) -> Any:
    """Return what stands for an object of a file: its fields, or the name of a status."""
    return values


def _check_data(header: dict[str, Any], X: Any, y: Any, report: Report) -> None:
    """Compare the hashes of the data."""
    claimed = header["data"]
    if "X" in claimed:
        found = hash_points(X)
        report.check(
            found == claimed["X"],
            "X is that of the file, by its hash.",
            f"it is {found['form']} of shape {found['shape']}, that of the file "
            f"{claimed['X']['form']} of shape {claimed['X']['shape']}",
        )
    else:
        report.say("The file has no hash of X: the claims are checked for the X given.")
    if y is not None and "y" in claimed:
        report.check(hash_values(y) == claimed["y"], "y is that of the file, by its hash.")


def _kernel_matrix(entry: Any, X: Any, points: Any, function: Any, read: Any) -> KernelMatrix:
    """Return the kernel matrix of the points, as they were solved."""
    transform = entry.get("transform")
    errors = None
    if transform is not None:
        points, errors = _transformed(transform, X, points, function, read)
    numbers = {name: float(entry[name]) for name in ("gamma", "degree", "coef0") if name in entry}
    if entry["name"] not in ("linear", "rbf", "laplacian", "polynomial", "sigmoid", "precomputed",
                             "custom", "matrix"):  # fmt: skip
        raise InputError(f"path must name a file of a known kernel; got {entry['name']!r}")
    return KernelMatrix(entry["name"], numbers, points, function, errors)


def _transformed(transform: Any, X: Any, points: Any, function: Any, read: Any) -> Any:
    """Return the points that were solved, and bounds on the lengths of their errors."""
    if transform["kind"] in ("constant", "divisor"):
        kind: Any = {"float32": np.float32, "float64": np.float64}[transform["dtype"]]
        value = kind(transform["value"])
        if transform["kind"] == "divisor":
            return (X.astype(kind) / value).astype(np.float64), None
        column = np.full((X.shape[0], 1), float(value))
        whole = sp.hstack([points, column], format="csr") if sp.issparse(X) else None
        return np.hstack([points, column]) if whole is None else whole, None
    if transform["kind"] != "landmarks":
        raise InputError(f"path must name a file of known features; got {transform['kind']!r}")
    landmarks, W = read(transform["points"]), read(transform["weights"])
    landmarks = landmarks.astype(np.float64)
    if sp.issparse(X) != sp.issparse(landmarks):  # points that were solved as dense ones
        landmarks = sp.csr_matrix(landmarks) if sp.issparse(X) else landmarks.toarray()
    inner = _kernel_matrix(transform["kernel"], X, points, function, read)
    if landmarks.shape[1] != X.shape[1]:
        raise InputError(f"X must have {landmarks.shape[1]} features; got shape {X.shape}")
    other = KernelMatrix(inner.name, inner.parameters, landmarks, function)
    V, errors = np.empty((X.shape[0], W.shape[1])), np.empty(X.shape[0])
    for rows, K in inner.against(other):
        V[rows] = K @ W
        errors[rows] = FLOAT64_EPS * (len(W) + X.shape[1] + 8) * lengths(np.abs(K) @ np.abs(W))
    return V, errors


def _check_support(stored: dict[str, Any], points: Any, report: Report) -> None:
    """Compare the support vectors of an estimator with the points."""
    support, vectors = stored.get("support_"), stored.get("support_vectors_")
    if support is None or vectors is None or vectors.shape[0] != len(support):
        return
    if np.max(support, initial=0) >= points.shape[0] or vectors.shape[1] != points.shape[1]:
        report.check(False, "The support vectors are points of X.", "X has another shape")
        return
    difference = points[support] - vectors
    same = not (difference.count_nonzero() if sp.issparse(difference) else np.any(difference))
    report.check(same, f"The {len(support)} support vectors are points of X.")


def _check_problem(
    name: str, entry: Any, whole: KernelMatrix, read: Any, stored: Any, y: Any, report: Report
) -> None:
    """Recompute the bounds of one problem and compare them with the claims."""
    formulation, rows = entry["formulation"], read(entry["rows"])
    data, result = read(entry["parameters"]), read(entry["result"])
    x = result["x"]
    if rows is not None and (np.min(rows) < 0 or np.max(rows) >= whole.m):
        raise InputError(f"X must hold the points of the file; got {whole.m}")
    matrix = whole if rows is None else whole.take(rows)
    data |= {"by_coefficients": entry["by_coefficients"], "dual": result["dual"]}
    data |= PRIMAL_KINDS.get(formulation, {})
    if "domain" in entry:
        data["domain"] = read(entry["domain"])
    _check_shapes(formulation, x, matrix, data)
    if y is not None and "y" in data:
        given = np.asarray(y) if rows is None else np.asarray(y)[rows]
        _check_labels(name, given, data["y"], stored.get("classes_"), report)
    if formulation == "LeastSquares":
        found = least_squares(matrix.X, x, data)
    else:
        found = EVALUATION_OF[formulation](matrix, x, data)
    convex = check_convexity(name, matrix, formulation, data, report)
    compare(f"{name}, {formulation}", found, result, convex, matrix, data, report)


def _check_shapes(formulation: str, x: Any, matrix: KernelMatrix, data: dict[str, Any]) -> None:
    """Raise InputError unless all vectors have the lengths that the problem asks for."""
    if formulation not in EVALUATION_OF and formulation != "LeastSquares":
        raise InputError(f"path must name a file of a known formulation; got {formulation!r}")
    length = matrix.m
    if formulation in PRIMAL_KINDS:
        length = (matrix.m if data["by_coefficients"] else matrix.X.shape[1]) + bool(data["bias"])
        if data["dual"] is None or not np.isfinite(data["dual"]).all():
            raise InputError("path must name a file with finite dual weights")
    elif formulation in ("SVRDual", "L2SVRDual", "NuSVRDual"):
        length = 2 * matrix.m
    elif formulation == "LeastSquares":
        length = matrix.X.shape[1]
    lengths_of = {"x": (x, length)}
    for name in ("y", "C", "sample_weight", "b", "c"):
        if data.get(name) is not None:
            lengths_of[name] = (data[name], matrix.m)
    if formulation in PRIMAL_KINDS:
        lengths_of["dual"] = (data["dual"], matrix.m)
    if "domain" in data:
        for name in ("group", "lower", "upper"):
            if data["domain"].get(name) is not None:
                lengths_of[name] = (data["domain"][name], length)
    for name, (vector, expected) in lengths_of.items():
        if np.shape(vector) != (expected,):
            raise InputError(
                f"X must be the data of the file: its {name} has shape {np.shape(vector)}, and "
                f"({expected},) belongs to this X"
            )
        if np.asarray(vector).dtype.kind not in "fi":
            raise InputError(f"path must name a file with numbers; its {name} has others")
        if (name not in ("C", "upper") and not np.isfinite(vector).all()) or np.isnan(vector).any():
            raise InputError(f"path must name a file with finite numbers; its {name} has others")


def _check_labels(name: str, given: Any, labels: Any, classes: Any, report: Report) -> None:
    """Compare the labels or values given with those of a problem.

    Of a classifier the problem's sides must be classes: none of them stands on both sides.
    """
    if classes is None:
        same = given.dtype.kind in "biuf" and np.array_equal(given.astype(np.float64), labels)
        report.check(same, f"{name}: y is that of the file.")
        return
    sides = [set(given[labels > 0].tolist()), set(given[labels < 0].tolist())]
    known = set(np.asarray(classes).tolist())
    apart = not sides[0] & sides[1] and (sides[0] | sides[1]) <= known
    report.check(apart, f"{name}: its two sides are classes of y.")
