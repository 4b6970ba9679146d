"""Errors a person can meet, and the checks at the door that raise them.

Every check names the argument, says what came and what is allowed.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class InputError(ValueError):
    """Malformed data or an option outside its range."""


class MethodMismatchError(ValueError):
    """A method that cannot solve the given formulation; the message says what would fit."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a solve that was asked to raise it: the certified answer so far is `result`.

    Attributes
    ----------
    result : Result or list of Result
        What `solve`, or `solve_path`, would have returned.
    """

    def __init__(self, result: Any) -> None:
        super().__init__("interrupted from the keyboard; the answer so far is .result")
        self.result = result


def check_points(name: str, X: Any) -> NDArray[np.floating] | sp.csr_matrix:
    """Return `X` as a 2-d float32 or float64 array or CSR matrix; finite, at least one row."""
    if sp.issparse(X):
        sorted_before = vars(X).get("_has_canonical_format", False)  # to look again is a pass
        X = sp.csr_matrix(X, dtype=_float_type(name, X.dtype), copy=False)
        if sorted_before:
            X.has_canonical_format = True
        elif not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values = X.data
    else:
        X = _as_array(name, X)
        if X.ndim != 2:
            raise InputError(
                f"{name} must be 2-dimensional, one point a row; got shape {X.shape}"
                + (f" (reshape one feature with {name}.reshape(-1, 1))" if X.ndim == 1 else "")
            )
        values = X
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(f"{name} must hold at least one point and one feature; got {X.shape}")
    check_finite(name, values)
    return X


def check_finite(name: str, values: NDArray[np.floating]) -> None:
    """Raise InputError where `values` holds NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(values, dtype=np.float64))
    if math.isfinite(total):  # a NaN or an infinity anywhere would have reached the sum
        return
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise InputError(f"{name} must be finite; got {bad} entries that are NaN or infinite")


def check_vector(name: str, values: Any, n: int) -> NDArray[np.float64]:
    """Return a finite float64 copy of shape (n,)."""
    vector = np.array(_as_array(name, values), dtype=np.float64)
    if vector.shape != (n,):
        raise InputError(f"{name} must have shape ({n},); got {vector.shape}")
    check_finite(name, vector)
    return vector


def check_labels(name: str, y: Any, m: int) -> NDArray[np.float64]:
    """Return labels as a float64 copy of shape (m,) with values -1 and +1."""
    labels = np.array(_as_array(name, y), dtype=np.float64)
    if labels.shape != (m,):
        raise InputError(f"{name} must have shape ({m},), one label a point; got {labels.shape}")
    if not np.all(np.abs(labels) == 1.0):
        values = np.unique(labels)[:5]
        raise InputError(f"{name} must hold the labels -1 and +1; got values {values.tolist()}")
    return labels


def check_penalty(name: str, C: Any, m: int) -> NDArray[np.float64]:
    """Return a penalty as a float64 array of shape (m,): > 0, infinity allowed; 0 only per point."""
    array = np.array(_as_array(name, C), dtype=np.float64)
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
    number = float(value)
    inside = (low < number if open_low else low <= number) and number <= high
    if not inside or (finite and not math.isfinite(number)):
        raise InputError(f"{name} must be {allowed}; got {value!r}")
    return int(number) if integer else number


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be one of {choices}; got {value!r}")
    return value


def _as_array(name: str, values: Any) -> NDArray[Any]:
    try:
        array = np.asarray(values)
        dtype = _float_type(name, array.dtype)
        return array.astype(dtype, copy=False)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{name} must be an array of real numbers; got {problem}") from None


def _float_type(name: str, dtype: np.dtype[Any]) -> type:
    """float32 stays, other real types become float64; complex is refused."""
    if dtype.kind not in "biufO":
        raise InputError(f"{name} must hold real numbers; got dtype {dtype}")
    return np.float32 if dtype in (np.float32, np.float16) else np.float64
