"""Python values as JSON and named arrays, and back: plain data, and classes that the caller lists.

An entry that is no plain JSON is a dict with one key that begins with "$": `$array`, `$scalar`, `$float`
(an infinity), `$dict`, `$tuple`, `$sparse`, `$class`. A file cannot name code to be run: what a `$class`
becomes is the reader's choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.errors import InputError

SPARSE_CLASSES = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
"""Sparse matrices that are stored, by their three arrays."""

SCALAR_TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()
"""Types of numpy's scalars that are stored."""


class Encoder:
    """Turns values into JSON, and collects their arrays under numbered names.

    Parameters
    ----------
    classes : dict
        Dataclasses and NamedTuples whose instances are stored by their fields, and Enums.

    Attributes
    ----------
    arrays : dict of ndarray
    """

    def __init__(self, classes: Mapping[str, Any]) -> None:
        self.classes = classes
        self.arrays: dict[str, NDArray[Any]] = {}

    def add(self, array: Any) -> str:
        """Store an array and return its name.

        Raises
        ------
        InputError
            If it holds neither numbers nor text.
        """
        array = np.asarray(array)
        if array.dtype.kind not in "biufU":
            raise InputError(f"model must hold arrays of numbers or text; got {array.dtype}")
        key = f"array_{len(self.arrays)}"
        self.arrays[key] = array
        return key

    def encode(self, value: Any) -> Any:
        """Return a value as JSON.

        Raises
        ------
        InputError
            If it is neither plain data nor of a class that is listed.
        """
        name = type(value).__name__
        if self.classes.get(name) is type(value):
            return {"$class": name, "fields": self._fields(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and type(value).__name__.rstrip("_") in SCALAR_TYPES:
            return {"$scalar": value.dtype.name, "value": self.encode(value.item())}
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, dict):
            return {"$dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if type(value).__name__ in SPARSE_CLASSES:
            parts = [self.add(part) for part in (value.data, value.indices, value.indptr)]
            return {"$sparse": name, "parts": parts, "shape": [int(n) for n in value.shape]}
        if isinstance(value, (list, tuple)):
            items = [self.encode(one) for one in value]
            return {"$tuple": items} if isinstance(value, tuple) else items
        if callable(value) or callable(getattr(value, "function", None)):
            raise InputError("model must have a kernel of qpsvm; a file cannot hold a function")
        raise InputError(f"model must hold plain data; got {name}, which a file cannot hold")

    def _fields(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name
        if is_dataclass(value):
            return {f.name: self.encode(getattr(value, f.name)) for f in fields(value)}
        return {name: self.encode(one) for name, one in value._asdict().items()}

    def _array(self, array: NDArray[Any]) -> dict[str, Any]:
        """Store an array; one of strings as objects becomes one of text, and objects again."""
        if array.dtype.kind != "O":
            return {"$array": self.add(array)}
        if not all(isinstance(value, str) for value in array.ravel().tolist()):
            raise InputError("model must have classes that are numbers or text; got other objects")
        return {"$array": self.add(array.astype(str)), "object": True}


def decode(value: Any, arrays: Mapping[str, NDArray[Any]], build: Callable[[str, Any], Any]) -> Any:
    """Return the value that an `Encoder` turned into JSON.

    Parameters
    ----------
    value : JSON value
    arrays : dict of ndarray
    build : callable
        Called with the name of a class and its decoded fields; returns what stands for the instance.

    Raises
    ------
    InputError, KeyError, TypeError, ValueError
        If it is not what an encoder writes.
    """
    if isinstance(value, list):
        return [decode(one, arrays, build) for one in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        array = arrays[value["$array"]]
        return array.astype(object) if value.get("object") else array
    if "$scalar" in value:
        if value["$scalar"] not in SCALAR_TYPES:
            raise InputError(f"has a number of the type {value['$scalar']!r}")
        return np.dtype(value["$scalar"]).type(decode(value["value"], arrays, build))
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(decode(one, arrays, build) for one in value["$tuple"])
    if "$dict" in value:
        pairs = value["$dict"]
        return {decode(k, arrays, build): decode(v, arrays, build) for k, v in pairs}
    if "$sparse" in value:
        kind, parts = SPARSE_CLASSES[value["$sparse"]], [arrays[name] for name in value["parts"]]
        matrix = kind(tuple(parts), shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    decoded = value["fields"]
    if isinstance(decoded, dict):
        decoded = {name: decode(one, arrays, build) for name, one in decoded.items()}
    return build(value["$class"], decoded)
