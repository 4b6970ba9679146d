"""From an instance's raw data to the qpsvm formulation that it names."""

from __future__ import annotations

from typing import Any

from problems.kernels import LINEAR, Data, dense_gram


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
    if family == "svdd":
        return qpsvm.SVDDDual(K, C=data["C"])
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
