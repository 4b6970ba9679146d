"""A random problem as plain data: what the library is given, and the arrays that the judges read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

import qpsvm

POINT_STORAGES = ("C", "F", "strided", "read-only", "lists", "int8", "CSR", "CSC", "unsorted CSR")
"""Forms in which points are handed over; float32 is a property of the points themselves."""

DUAL_FAMILIES = {
    "meb": "MEBDual", "svdd": "SVDDDual", "l2_svm": "L2SVMDual", "hinge": "HingeDual",
    "polytope_distance": "PolytopeDistanceDual", "one_class": "OneClassDual",
    "nu_svc": "NuSVCDual", "svr": "SVRDual", "nu_svr": "NuSVRDual", "l2_svr": "L2SVRDual",
}  # fmt: skip
"""Formulations of a Gram, a QP each."""

PRIMAL_FAMILIES = {
    "hinge_primal": "HingePrimal", "lp_svm": "LPSVMPrimal", "ls_svm": "LSSVMPrimal",
}  # fmt: skip
"""Formulations in w and b, of points or of a Gram."""

GENERAL_FAMILIES = {
    "quadratic_program": "QuadraticProgram", "least_squares": "LeastSquares",
}  # fmt: skip
"""Quadratics over a domain."""

TUBE_FAMILIES = ("svr", "nu_svr", "l2_svr")
"""Regressions, whose variable has two coordinates for each point."""

CLASS_OF_FAMILY = DUAL_FAMILIES | PRIMAL_FAMILIES | GENERAL_FAMILIES
"""The class of each family."""

FAMILY_PARAMETERS = {
    "meb": (), "svdd": ("C",), "l2_svm": ("y", "C", "bias"), "hinge": ("y", "C", "bias"),
    "polytope_distance": ("y", "chi"), "one_class": ("nu", "sample_weight"),
    "nu_svc": ("y", "nu", "sample_weight"), "svr": ("y", "C", "epsilon", "bias"),
    "nu_svr": ("y", "C", "nu"), "l2_svr": ("y", "C", "epsilon", "bias"),
    "hinge_primal": ("y", "C", "bias"), "lp_svm": ("y", "C", "bias"),
    "ls_svm": ("y", "C", "bias"), "quadratic_program": ("c",), "least_squares": ("b",),
}  # fmt: skip
"""Arguments of each family beside the Gram, the points or the matrix."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem and the call that solves it.

    `X` are the points, K where the kernel is precomputed, Q or A of a general quadratic; float64 or
    float32. `parameters` are the arguments of the formulation. `notes` say how it was made.
    """

    family: str
    kernel: str
    settings: dict[str, float]
    X: np.ndarray
    storage: str
    parameters: dict[str, Any]
    method: str = "auto"
    tol: float = 1e-6
    takes_points: bool = False  # of a primal family: points in place of a Gram
    domain: str = "simplex"  # of a general quadratic
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of the call
    notes: tuple[str, ...] = field(default=())

    @property
    def m(self) -> int:
        """Number of points, or of variables."""
        return self.X.shape[1] if self.family == "least_squares" else len(self.X)

    def with_method(self, method: str) -> Problem:
        """Return the problem to be solved by another method."""
        return replace(self, method=method)

    def with_storage(self, storage: str) -> Problem:
        """Return the problem with its points stored in another way."""
        return replace(self, storage=storage)

    def describe(self) -> str:
        """Return one line of what it is."""
        shown = {
            name: value if np.ndim(value) == 0 else f"array of {len(value)}"
            for name, value in self.parameters.items()
        }
        return (
            f"{CLASS_OF_FAMILY[self.family]} {self.kernel} {self.settings} {self.X.shape} {self.X.dtype} "
            f"{self.storage} {shown} {self.domain if self.family in GENERAL_FAMILIES else ''} "
            f"method={self.method} tol={self.tol:g} {sorted(self.options)} [{', '.join(self.notes)}]"
        )


GENERAL_DOMAINS: dict[str, Any] = {
    "simplex": lambda m: qpsvm.domains.simplex(m),
    "hypercube": lambda m: qpsvm.domains.hypercube(m),
    "l1_ball": lambda m: qpsvm.domains.L1Ball(m, 2.0),
    "l2_ball": lambda m: qpsvm.domains.L2Ball(m, 1.5),
}
"""Domains of the general quadratics; the judge has their radii."""


def squared_sum_kernel(A: Any, B: Any) -> np.ndarray:
    """Return (1 + a'b)^2, a kernel as a user would write it."""
    return np.asarray(1.0 + A @ B.T) ** 2


def gram_of(problem: Problem, given: Any) -> Any:
    """Return the Gram of the library."""
    if problem.kernel == "precomputed":
        return qpsvm.Precomputed(given)
    if problem.kernel == "custom":
        return qpsvm.CustomKernel(given, squared_sum_kernel)
    kinds = {
        "linear": qpsvm.Linear, "rbf": qpsvm.RBF, "polynomial": qpsvm.Polynomial,
        "laplacian": qpsvm.Laplacian, "sigmoid": qpsvm.Sigmoid,
    }  # fmt: skip
    return kinds[problem.kernel](given, **problem.settings)


def stored(X: np.ndarray, storage: str) -> Any:
    """Return the same values in another form."""
    if storage == "C":
        return np.ascontiguousarray(X).copy()
    if storage == "F":
        return np.asfortranarray(X)
    if storage == "strided":
        return np.repeat(X, 2, axis=0)[::2]
    if storage == "read-only":
        kept = X.copy()
        kept.flags.writeable = False
        return kept
    if storage == "lists":
        return X.tolist()
    if storage == "int8":
        return X.astype(np.int8)
    if storage == "CSC":
        return sp.csc_matrix(X)
    found = sp.csr_matrix(X)
    if storage == "unsorted CSR":  # the entries of each row in descending order
        for i in range(len(X)):
            own = slice(found.indptr[i], found.indptr[i + 1])
            found.indices[own] = found.indices[own][::-1].copy()
            found.data[own] = found.data[own][::-1].copy()
        found.has_sorted_indices = False
    return found


def arrays_of(formulation_argument: Any) -> list[np.ndarray]:
    """Return the arrays of what was handed over, as far as it has some."""
    if sp.issparse(formulation_argument):
        A = formulation_argument
        return [A.data, A.indices, A.indptr]
    return [formulation_argument] if isinstance(formulation_argument, np.ndarray) else []
