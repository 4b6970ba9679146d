"""What an instance is: a name, raw data, and what is known about its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from problems.data.kernels import Data, dense_gram

Declare = Callable[[Data, str], Any]

FAMILY_DECLARATIONS: dict[str, Declare] = {}
"""The function of each family that builds its formulation, entered by `family`."""

PRIMAL_FAMILIES: set[str] = set()
"""Families whose variable is w and b; the weights of the points are the dual's."""


def family(name: str, primal: bool = False) -> Callable[[Declare], Declare]:
    """Enter the decorated function ``declare(data, gram)`` as that of a family.

    Parameters
    ----------
    name : str
        First part of the names of its instances.
    primal : bool
        Whether the variable is w and b.
    """

    def enter(declare: Declare) -> Declare:
        FAMILY_DECLARATIONS[name] = declare
        if primal:
            PRIMAL_FAMILIES.add(name)
        return declare

    return enter


@dataclass(frozen=True)
class Instance:
    """A named formulation with concrete data.

    Attributes
    ----------
    name : str
        ``"family/what-it-is"``; unique in the catalogue.
    family : str
        A key of `FAMILY_DECLARATIONS`.
    data : callable
        Returns the raw arrays, read-only and the same at every call: ``X`` (m, d) or ``K`` (m, m),
        ``y`` (m,), ``C``, ``chi``, ``nu`` or ``epsilon``, ``sample_weight``, and ``kernel``, a pair
        of a name and its parameters.
    exact : float or None
        Optimal value of the declared minimization problem where a closed form is known.
    tags : frozenset of str
        "closed-form", "random", "degenerate", "real", "stress" say where the data come from;
        "zero-optimum" that the optimal value is 0; "hard-margin" that a penalty is infinite;
        "weighted" that C is a vector; "sparse" that X is CSR; "ill-conditioned" that first-order methods
        need very many steps (a linear or low-rank Gram, ridge below 1e-6 of its diagonal);
        "slow" that a method may take seconds.
    note : str
        One sentence.
    """

    name: str
    family: str
    data: Callable[[], Data]
    exact: float | None = None
    tags: frozenset[str] = frozenset()
    note: str = ""

    def declare(self, gram: str = "demand") -> Any:
        """Build the qpsvm formulation.

        Parameters
        ----------
        gram : {"demand", "dense"}
            Whether the kernel matrix is handed over as a qpsvm Gram on the points, with columns
            computed on demand, or as a dense array. Data that come as K are always dense.

        Returns
        -------
        formulation
            An object of the qpsvm class of the family.
        """
        if gram not in ("demand", "dense"):
            raise ValueError(f'gram={gram!r}; allowed are "demand" and "dense"')
        return FAMILY_DECLARATIONS[self.family](self.data(), gram)

    def __str__(self) -> str:
        return self.name


def instance(
    name: str, build: Callable[[], Data], tags: str, note: str, exact: float | None = None
) -> Instance:
    """Declare an instance: its family is the first part of `name`, `tags` a spaced string."""
    data = cache(lambda: {key: _read_only(value) for key, value in build().items()})
    return Instance(name, name.split("/")[0], data, exact, frozenset(tags.split()), note)


def _read_only(value: Any) -> Any:
    """Return arrays as read-only copies, lists as arrays, everything else as it is."""
    if scipy.sparse.issparse(value):
        value = value.copy()
        for part in (value.data, value.indices, value.indptr):
            part.flags.writeable = False
        return value
    if isinstance(value, list | np.ndarray):
        dtype = np.float32 if getattr(value, "dtype", None) == np.float32 else np.float64
        value = np.array(value, dtype=dtype)
        value.flags.writeable = False
    return value


def gram_of(data: Data, gram: str) -> Any:
    """Return the kernel matrix of the points of `data`, or, with "demand", the qpsvm Gram on them."""
    return dense_gram(data) if gram == "dense" or "K" in data else gram_on_demand(data)


def gram_on_demand(data: Data) -> Any:
    """Return the qpsvm Gram on the points of `data`."""
    import qpsvm

    name, parameters = data["kernel"]
    grams = {
        "linear": qpsvm.Linear,
        "rbf": qpsvm.RBF,
        "poly": qpsvm.Polynomial,
        "laplacian": qpsvm.Laplacian,
        "sigmoid": qpsvm.Sigmoid,
    }
    return grams[name](data["X"], **parameters)
