"""What an instance is: a name, raw data, and what is known about its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from problems.data.kernels import LINEAR, Data, dense_gram

FAMILIES = (
    "l2_svm", "meb", "polytope_distance", "hinge", "hinge_primal", "lp_svm", "ls_svm", "one_class",
    "svdd", "reduced_hulls", "svr", "nu_svr",
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
        ``y`` (m,), ``C``, ``chi``, ``nu`` or ``epsilon``, ``sample_weight``, and ``kernel``, a pair
        of a name and its parameters.
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
        """Build the qpsvm formulation; see `problems.instance.declare`."""
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


def declare(family: str, data: Data, gram: str = "demand") -> Any:
    """Build the formulation of an instance.

    Parameters
    ----------
    family : str
        One of `problems.instance.FAMILIES`.
    data : dict
        As `Instance.data` returns it.
    gram : {"demand", "dense"}
        Whether the kernel matrix is handed over as a qpsvm Gram on the points, with columns
        computed on demand, or as a dense array. Data that come as K are always dense.

    Returns
    -------
    formulation
        An object of the qpsvm class of the instance's family.
    """
    import qpsvm

    if gram not in ("demand", "dense"):
        raise ValueError(f'gram={gram!r}; allowed are "demand" and "dense"')
    if family == "hinge_primal":
        return qpsvm.HingePrimal(data["X"], data["y"], C=data["C"], bias=data["bias"])
    if family in ("lp_svm", "ls_svm"):
        linear = data["kernel"] == LINEAR
        X = data["X"] if linear else _gram_on_demand(data)
        machine = qpsvm.LPSVMPrimal if family == "lp_svm" else qpsvm.LSSVMPrimal
        return machine(X, data["y"], C=data["C"], bias=data["bias"])
    K = dense_gram(data) if gram == "dense" or "K" in data else _gram_on_demand(data)
    if family == "meb":
        return qpsvm.MEBDual(K)
    if family == "l2_svm":
        return qpsvm.L2SVMDual(K, data["y"], C=data["C"])
    if family == "polytope_distance":
        return qpsvm.PolytopeDistanceDual(K, data["y"], chi=data["chi"])
    if family == "one_class":
        return qpsvm.OneClassDual(K, data["nu"], sample_weight=data.get("sample_weight"))
    if family == "reduced_hulls":
        weight = data.get("sample_weight")
        return qpsvm.NuSVCDual(K, data["y"], data["nu"], sample_weight=weight)
    if family == "svdd":
        return qpsvm.SVDDDual(K, C=data["C"])
    if family == "svr":
        return qpsvm.SVRDual(K, data["y"], data["C"], data["epsilon"], bias=data["bias"])
    if family == "nu_svr":
        return qpsvm.NuSVRDual(K, data["y"], data["C"], data["nu"])
    return qpsvm.HingeDual(K, data["y"], C=data["C"], bias=data["bias"])


def _gram_on_demand(data: Data) -> Any:
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
