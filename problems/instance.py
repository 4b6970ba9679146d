"""What an instance is: a name, raw data, and what is known about its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from problems.declare import declare
from problems.kernels import Data

FAMILIES = (
    "l2_svm", "meb", "polytope_distance", "hinge", "hinge_primal", "lp_svm", "ls_svm", "one_class",
    "svdd",
)  # fmt: skip

PRIMAL = ("hinge_primal", "lp_svm", "ls_svm")
"""Families whose variable is w and b; the weights of the points are the dual's."""


@dataclass(frozen=True)
class Instance:
    """A named formulation with concrete data.

    Attributes
    ----------
    name : str
        ``"family/what-it-is"``; unique in the catalogue.
    family : str
        One of `FAMILIES`.
    data : callable
        Returns the raw arrays, read-only and the same at every call: ``X`` (m, d) or ``K`` (m, m),
        ``y`` (m,), ``C``, ``chi`` or ``nu``, ``sample_weight``, and ``kernel``, a pair of a name
        and its parameters.
    exact : float or None
        Optimal value of the declared minimisation problem where a closed form is known.
    tags : frozenset of str
        "closed-form", "random", "degenerate", "real", "stress" say where the data come from;
        "zero-optimum" that the optimal value is 0; "hard-margin" that a penalty is infinite;
        "weighted" that C is a vector; "sparse" that X is CSR; "crawl" that first-order methods
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
        """Build the qpsvm formulation; see `problems.declare.declare`."""
        return declare(self.family, self.data(), gram)

    def __str__(self) -> str:
        return self.name


def instance(
    name: str, build: Callable[[], Data], tags: str, note: str, exact: float | None = None
) -> Instance:
    """Declare an instance: its family is the first part of `name`, `tags` a spaced string."""
    family = name.split("/")[0]
    if family not in FAMILIES:
        raise ValueError(f"{name!r} names no family; the families are {', '.join(FAMILIES)}")
    data = cache(lambda: {key: _read_only(value) for key, value in build().items()})
    return Instance(name, family, data, exact, frozenset(tags.split()), note)


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
