"""Errors of the public interface, and the checks of arguments that raise them.

Every message names the argument, its value and the allowed values.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class InputError(ValueError):
    """Malformed data or an option outside its range.

    Examples
    --------
    >>> from qpsvm import InputError, Linear, MEBDual, solve
    >>> try:
    ...     solve(MEBDual(Linear([[0.0], [1.0]])), tol=-1.0)
    ... except InputError as error:
    ...     print("tol" in str(error))
    True
    """


class MethodMismatchError(ValueError):
    """A method that cannot solve the given formulation; the message lists those that can.

    Examples
    --------
    >>> from qpsvm import Linear, MEBDual, MethodMismatchError, solve
    >>> try:
    ...     solve(MEBDual(Linear([[0.0], [1.0]])), method="dcd")
    ... except MethodMismatchError as error:
    ...     print("mfw" in str(error))  # it names those that fit
    True
    """


class ClusterError(RuntimeError):
    """A Dask cluster that was lost before any answer was certified.

    Attributes
    ----------
    x : ndarray or None
        Weights of the last complete iteration, feasible and not certified: another solve can continue
        from them by ``x0=error.x``. None where the points were not loaded, or rows are read in passes.

    Examples
    --------
    >>> from qpsvm.errors import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """

    x: NDArray[np.float64] | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a solve with ``interrupt="raise"``; the certified answer so far is `result`.

    Attributes
    ----------
    result : Result or list of Result
        What `solve`, or `solve_path`, would have returned.

    Examples
    --------
    >>> from qpsvm import Interrupted
    >>> try:
    ...     result = solve(problem, interrupt="raise")
    ... except Interrupted as stop:  # Ctrl-C
    ...     result = stop.result  # doctest: +SKIP
    """

    def __init__(self, result: Any) -> None:
        super().__init__("interrupted from the keyboard; the answer so far is .result")
        self.result = result


def check_points(name: str, X: Any) -> NDArray[np.floating] | sp.csr_matrix:
    """Return `X` as a 2-d float32 or float64 array or CSR matrix; finite, at least one row.

    CSR rows have ascending column indices without duplicates, which are summed.
    """
    X = _as_csr(name, X) if sp.issparse(X) else as_array(name, X)
    if X.ndim != 2:
        advice = f" (one point: {name}.reshape(1, -1); one feature: {name}.reshape(-1, 1))"
        raise InputError(
            f"{name} must be 2-dimensional, one point a row; got shape {X.shape}"
            + (advice if X.ndim == 1 else "")
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(f"{name} must hold at least one point and one feature; got {X.shape}")
    check_finite(name, X.data if sp.issparse(X) else X)
    return X


def _as_csr(name: str, X: Any) -> Any:
    """Return a sparse matrix as canonical CSR, its index arrays checked.

    Compiled code, here and in scipy, reads memory outside the arrays where an index is out of range.
    scipy's flags of an array are invalid once the array has been edited, so they are not used.
    """
    dtype = _float_type(name, X.dtype, "biuf")
    if X.ndim != 2:
        raise InputError(f"{name} must be 2-dimensional, one point a row; got shape {X.shape}")
    try:
        if X.format == "coo":  # the constructor checks the indices
            X = sp.coo_matrix((X.data, (X.row, X.col)), X.shape)
        elif X.format in ("csc", "bsr"):
            X = _checked(X)
        X = _checked(X.tocsr(), dtype)
    except (ValueError, TypeError, IndexError, OverflowError) as problem:
        raise InputError(f"{name} must be a valid sparse matrix; got {problem}") from None
    if not X.has_canonical_format:
        X = X.copy()
        with np.errstate(over="ignore"):
            X.sum_duplicates()
    return X


def _checked(X: Any, dtype: Any = None) -> Any:
    """Return a compressed matrix on the same arrays; raise ValueError where an index is wrong."""
    kind = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "bsr": sp.bsr_matrix}[X.format]
    checked = kind((X.data.astype(dtype or X.dtype, copy=False), X.indices, X.indptr), X.shape)
    checked.check_format(full_check=True)
    return checked


def check_finite(name: str, values: NDArray[np.floating]) -> None:
    """Raise InputError where `values` holds NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(values, dtype=np.float64))
    if math.isfinite(total):  # any NaN or infinity would make the sum non-finite
        return
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise InputError(f"{name} must be finite; got {bad} entries that are NaN or infinite")


def check_vector(name: str, values: Any, n: int) -> NDArray[np.float64]:
    """Return a finite float64 copy of shape (n,)."""
    vector = np.array(as_array(name, values), dtype=np.float64)
    if vector.shape != (n,):
        raise InputError(f"{name} must have shape ({n},); got {vector.shape}")
    check_finite(name, vector)
    return vector


def check_labels(name: str, y: Any, m: int) -> NDArray[np.float64]:
    """Return labels as a float64 copy of shape (m,) with values -1 and +1."""
    labels = np.array(as_array(name, y), dtype=np.float64)
    if labels.shape != (m,):
        raise InputError(f"{name} must have shape ({m},), one label a point; got {labels.shape}")
    if not np.all(np.abs(labels) == 1.0):
        values = np.unique(labels)[:5]
        raise InputError(f"{name} must hold the labels -1 and +1; got values {values.tolist()}")
    return labels


def check_penalty(name: str, C: Any, m: int) -> NDArray[np.float64]:
    """Return a penalty as a float64 array of shape (m,): > 0, infinity allowed; 0 only per point."""
    array = np.array(as_array(name, C, kinds="iufO"), dtype=np.float64)
    if array.ndim == 0:
        if not array > 0:
            raise InputError(f"{name} must be > 0 (infinity is allowed); got {float(array)!r}")
        return np.full(m, float(array))
    if array.shape != (m,):
        raise InputError(f"{name} must be a number or have shape ({m},); got {array.shape}")
    if not np.all(array >= 0):
        raise InputError(f"{name} must be >= 0 for every point; got {float(np.min(array))!r}")
    if not np.any(array > 0):
        raise InputError(f"{name} must be > 0 for at least one point; got only zeros")
    return array


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    integer: bool = False,
    finite: bool = False,
) -> Any:
    """Return `value` if it is a number within [low, high]; raise InputError otherwise."""
    kind = numbers.Integral if integer else numbers.Real
    allowed = "an integer" if integer else "a finite number" if finite else "a number"
    if low > -math.inf:
        allowed += f" {'>' if open_low else '>='} {low:g}"
    if high < math.inf:
        allowed += f" and <= {high:g}"
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InputError(f"{name} must be {allowed}; got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(
            f"{name} must be {allowed}; got a number of more than 308 digits"
        ) from None
    inside = (low < number if open_low else low <= number) and number <= high
    if not inside or (finite and not math.isfinite(number)):
        raise InputError(f"{name} must be {allowed}; got {value!r}")
    return int(number) if integer else number


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return `value` if it is one of `allowed`, which an array never is."""
    single = isinstance(value, Hashable) and getattr(value, "shape", ()) == ()
    if not (single and value in allowed):
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be one of {choices}; got {value!r}")
    return value


def check_values(name: str, values: Any) -> NDArray[np.floating]:
    """Return the values of a function as a float32 or float64 array of any shape, not checked further."""
    return as_array(name, values.toarray() if sp.issparse(values) else values, kinds="biuf")


def as_array(name: str, values: Any, *, kinds: str = "biufO") -> NDArray[Any]:
    """Return an array of float32 or float64 in the byte order of the machine.

    `kinds` are the letters of numpy's kinds of dtype that are allowed.
    """
    if np.ma.is_masked(values):
        count = int(np.ma.count_masked(values))
        raise InputError(f"{name} must have no masked entries; got {count} (drop or fill them)")
    try:
        array = np.asarray(values)
        dtype = _float_type(name, array.dtype, kinds)
        with np.errstate(over="ignore"):  # infinities are reported where they are not allowed
            return array.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{name} must be an array of real numbers; got {problem}") from None


def _float_type(name: str, dtype: np.dtype[Any], kinds: str) -> type:
    """Return float32 for itself and for float16, float64 for other allowed types."""
    if dtype.kind not in kinds:
        raise InputError(f"{name} must hold real numbers; got dtype {dtype}")
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64
