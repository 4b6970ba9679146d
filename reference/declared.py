"""A user's problem as an instance: its raw data, read from the attributes of the declared object.

Nothing is imported from qpsvm. A formulation, a kernel and a domain are known by the name of their
class, and only what was declared is read: points, parameters, labels, penalties. The kernel matrix
is computed here, from the kernel's definition; a matrix that was given is taken as it is, and a
low-rank Gram as the points of its factor, which are what was declared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.data.kernels import LINEAR_KERNEL, PRECOMPUTED_KERNEL, Data
from problems.instance import Instance

FAMILY_OF_CLASS = {
    "MEBDual": "meb",
    "L2SVMDual": "l2_svm",
    "PolytopeDistanceDual": "polytope_distance",
    "HingeDual": "hinge",
    "HingePrimal": "hinge_primal",
    "LPSVMPrimal": "lp_svm",
    "LSSVMPrimal": "ls_svm",
    "OneClassDual": "one_class",
    "NuSVCDual": "reduced_hulls",
    "SVDDDual": "svdd",
    "SVRDual": "svr",
    "L2SVRDual": "l2_svr",
    "NuSVRDual": "nu_svr",
    "LeastSquares": "least_squares",
    "QuadraticProgram": "quadratic_program",
    "SmoothProgram": "smooth_program",
}
"""Family of instances by the name of the formulation's class."""

KERNEL_OF_CLASS = {
    "Linear": ("linear", ()),
    "RBF": ("rbf", ("gamma",)),
    "Polynomial": ("poly", ("degree", "gamma", "coef0")),
    "Laplacian": ("laplacian", ("gamma",)),
    "Sigmoid": ("sigmoid", ("gamma", "coef0")),
}
"""Name and parameters of a kernel by the name of its class."""

DOMAIN_OF_CLASS = {
    "Box": ("box", ("lower", "upper")),
    "PenaltyBox": ("penalty_box", ("upper",)),
    "BoxHyperplane": ("box_with_hyperplane", ("upper", "y")),
    "CappedSimplex": ("capped_groups", ("upper", "group", "total")),
    "ScaledSimplex": ("simplex_of_radius", ("radius", "solid")),
    "L1Ball": ("l1_ball", ("radius",)),
    "L2Ball": ("l2_ball", ("radius",)),
    "SimplexProduct": ("groups", ("group",)),
    "KSubset": ("k_subset", ("k",)),
    "SpanningTrees": ("spanning_trees", ("edges",)),
    "FlowPolytope": ("flow", ("tail", "head", "source", "target")),
    "PerfectMatchings": ("matchings", ("edges",)),
    "MatroidBases": ("matroid", ("m", "independent")),
    "Hull": ("hull", ("points",)),
    "Birkhoff": ("birkhoff", ("n",)),
    "Spectrahedron": ("spectrahedron", ("n", "trace", "solid")),
    "NuclearBall": ("nuclear_ball", ("rows", "columns", "radius")),
    "SpectralBall": ("spectral_ball", ("rows", "columns", "radius")),
}
"""Name and parameters of a domain by the name of its class."""

MAX_MATROID_ELEMENTS = 12
"""Number of elements of a matroid up to which the ranks of all subsets are found."""


def instance_of(problem: Any) -> Instance:
    """Return a declared problem as an instance.

    Parameters
    ----------
    problem : formulation
        An object of one of the classes in `FAMILY_OF_CLASS`, with a kernel of `KERNEL_OF_CLASS`, a
        given matrix, a cached or a low-rank Gram, or with a domain of `DOMAIN_OF_CLASS`.

    Raises
    ------
    ValueError
        If the reference has no such formulation, kernel or domain.

    Examples
    --------
    >>> import qpsvm
    >>> from reference.declared import instance_of
    >>> instance_of(qpsvm.MEBDual(qpsvm.RBF([[0.0], [1.0]], gamma=0.5))).family
    'meb'
    """
    name = type(problem).__name__
    if name not in FAMILY_OF_CLASS:
        raise ValueError(f"problem must be one of {', '.join(FAMILY_OF_CLASS)}; got {name}")
    family = FAMILY_OF_CLASS[name]
    data = general_data(problem) if hasattr(problem, "domain") else machine_data(problem)
    return Instance(f"{family}/declared", family, lambda: data)


def machine_data(problem: Any) -> Data:
    """Return the raw data of a machine: kernel, labels and penalties."""
    gram = getattr(problem, "K", None)
    data = kernel_data(problem.X if gram is None else gram)
    for key in ("y", "C", "nu", "epsilon", "chi", "bias"):
        if hasattr(problem, key):
            data[key] = getattr(problem, key)
    weight = getattr(problem, "sample_weight", None)
    if weight is not None:
        data["sample_weight"] = weight
    if type(problem).__name__ == "L2SVMDual" and not data.pop("bias"):
        raise ValueError("L2SVMDual without a bias has no reference; declare it with bias=True")
    return data


def kernel_data(gram: Any) -> Data:
    """Return points and kernel of a Gram, or of points given in its place."""
    name = type(gram).__name__
    if name == "Cached":
        return kernel_data(gram.gram)
    if name == "Precomputed":
        return {"K": gram.K, "kernel": PRECOMPUTED_KERNEL}
    if name == "LowRank":
        return {"X": gram.factor(), "kernel": LINEAR_KERNEL}
    if name in KERNEL_OF_CLASS:
        kernel, parameters = KERNEL_OF_CLASS[name]
        return {"X": gram.X, "kernel": (kernel, {key: getattr(gram, key) for key in parameters})}
    if hasattr(gram, "shape") and not hasattr(gram, "diag"):
        return {"X": gram, "kernel": LINEAR_KERNEL}
    raise ValueError(
        f"a kernel must be one of {', '.join(KERNEL_OF_CLASS)}, Precomputed; got {name}"
    )


def general_data(problem: Any) -> Data:
    """Return A and b, Q and c, or the functions, and the domain."""
    name = type(problem.domain).__name__
    if name not in DOMAIN_OF_CLASS:
        raise ValueError(f"a domain must be one of {', '.join(DOMAIN_OF_CLASS)}; got {name}")
    domain, parameters = DOMAIN_OF_CLASS[name]
    p = {key: getattr(problem.domain, key) for key in parameters}
    if domain == "flow":
        p["edges"] = np.stack([p.pop("tail"), p.pop("head")], axis=1)
    if domain == "matroid" and p["m"] > MAX_MATROID_ELEMENTS:
        raise ValueError(
            f"a matroid must have at most {MAX_MATROID_ELEMENTS} elements here; got {p['m']}"
        )
    if domain == "box":
        p = {key: np.asarray(value, dtype=float) for key, value in p.items()}
    if type(problem).__name__ == "SmoothProgram":
        data = {key: getattr(problem, key) for key in ("value", "gradient", "smoothness")}
        shape = {"m": problem.domain.m, "shape": problem.domain.shape}
        return {**data, **shape, "domain": (domain, p)}
    keys = ("A", "b") if hasattr(problem, "A") else ("Q", "c")
    data = {key: getattr(problem, key) for key in keys}
    if type(data.get("Q")).__name__ in ("Precomputed", "SparseGram"):
        data["Q"] = data["Q"].K
    return {**data, "domain": (domain, p)}
