"""General quadratics over domains: least squares and quadratic programs given by Q.

Family ``least_squares``: minimize 1/2 |Ax - b|^2; ``quadratic_program``: 1/2 x'Qx + c'x. The
domain is a pair of a name and its parameters, from which qpsvm's domain (`declare`) and cvxpy's
constraints (`reference.programs.general`) are made apart from each other. Tags beside those of
`problems.instance`: "round" for sets that are no polytopes, "wide" for A with fewer rows than
columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from problems.data.kernels import Data
from problems.instance import Instance

GRAPH_EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 4), (3, 4)]
SKIPPING_EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (0, 4), (1, 4)]
BIPARTITE_EDGES = [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 2), (3, 2), (3, 3)]
MATROID_COLUMNS = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (2, 2, 0), (1, 0, 1), (1, 1, 1)]


def least_squares(
    n: int, m: int, domain: tuple[str, dict[str, Any]], seed: int, size: float = 1.0
) -> Data:
    """Return a Gaussian A, shape (n, m), and a b whose unconstrained solution lies outside."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, m))
    return {"A": A, "b": A @ (size * rng.standard_normal(m)), "domain": domain}


def hypercube_face(n: int, m: int, k: int, seed: int) -> Data:
    """Return the paper's problem (Garber and Wolf, section 4.1): b = A x* on a face of dimension k.

    x* is a random vertex of the hypercube with its first k entries set to 1/2; the value is 0.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, m))
    x = rng.integers(0, 2, size=m).astype(float)
    x[:k] = 0.5
    return {"A": A, "b": A @ x, "domain": ("hypercube", {"m": m})}


def quadratic(m: int, domain: tuple[str, dict[str, Any]], seed: int, sparse: bool = False) -> Data:
    """Return a positive definite Q and a c."""
    rng = np.random.default_rng(seed)
    if sparse:
        Q: Any = sp.diags([np.full(m - 1, -1.0), np.full(m, 2.5), np.full(m - 1, -1.0)], [-1, 0, 1])
        return {"Q": sp.csr_matrix(Q), "c": rng.standard_normal(m), "domain": domain}
    B = rng.standard_normal((m, m + 5))
    return {"Q": B @ B.T / m, "c": rng.standard_normal(m), "domain": domain}


def make(name: str, build: Callable[[], Data], tags: str, exact: float | None = None) -> Instance:
    """Declare an instance; the data are made once."""
    data = cache(lambda: {key: _frozen(value) for key, value in build().items()})
    return Instance(name, name.split("/")[0], data, exact, frozenset(tags.split()), "")


def _frozen(value: Any) -> Any:
    for part in (value,) if isinstance(value, np.ndarray) else (getattr(value, "data", None),):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return value


DOMAIN_CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "hypercube": (12, {"m": 12}),
    "linf_ball": (12, {"m": 12, "radius": 0.5}),
    "l1_ball": (15, {"m": 15, "radius": 2.0}),
    "l2_ball": (10, {"m": 10, "radius": 1.5}),
    "simplex": (15, {"m": 15}),
    "scaled_simplex": (12, {"m": 12, "radius": 3.0}),
    "solid_simplex": (12, {"m": 12, "radius": 0.5}),
    "simplices": (12, {"sizes": [5, 4, 3]}),
    "capped_simplices": (
        12,
        {"sizes": [5, 4, 3], "upper": [0.5, 0.25, 2.0, 0.125] * 3, "total": [1.0, 2.5, 0.5]},
    ),
    "k_subset": (14, {"m": 14, "k": 4}),
    "spanning_trees": (len(GRAPH_EDGES), {"edges": GRAPH_EDGES}),
    "flow": (len(SKIPPING_EDGES), {"edges": SKIPPING_EDGES, "source": 0, "target": 4}),
    "birkhoff": (16, {"n": 4}),
    "hull": (6, {"seed": 5, "k": 11}),
    "matchings": (len(BIPARTITE_EDGES), {"edges": BIPARTITE_EDGES}),
    "matroid": (len(MATROID_COLUMNS), {"columns": MATROID_COLUMNS}),
    "spectrahedron": (16, {"n": 4, "trace": 1.0}),
    "solid_spectrahedron": (16, {"n": 4, "trace": 0.5, "solid": True}),
    "nuclear_ball": (12, {"rows": 3, "columns": 4, "radius": 1.5}),
    "spectral_ball": (12, {"rows": 4, "columns": 3, "radius": 0.7}),
}
"""Each domain once, small: the dimension and the parameters."""

ROUND_DOMAINS = (
    "l2_ball", "spectrahedron", "solid_spectrahedron", "nuclear_ball", "spectral_ball"
)  # fmt: skip
"""Sets that are no polytopes: no method with a linear minimizer alone is linear there."""


def _of(name: str) -> Instance:
    m, parameters = DOMAIN_CASES[name]
    tags = "random round" if name in ROUND_DOMAINS else "random"
    return make(
        f"least_squares/{name}", lambda: least_squares(m + 8, m, (name, parameters), 1), tags
    )


INSTANCES: dict[str, Instance] = {
    instance.name: instance
    for instance in [
        *map(_of, DOMAIN_CASES),
        make(
            "least_squares/hypercube-face",
            lambda: hypercube_face(40, 20, 3, seed=0),
            "random zero-optimum",
            exact=0.0,
        ),
        make(
            "least_squares/hypercube-wide",
            lambda: hypercube_face(15, 30, 3, seed=0),
            "random zero-optimum wide",
            exact=0.0,
        ),
        make(
            "least_squares/sparse",
            lambda: _sparse_rows(),
            "random sparse",
        ),
        make(
            "quadratic_program/flow",
            lambda: quadratic(len(SKIPPING_EDGES), ("flow", DOMAIN_CASES["flow"][1]), seed=2),
            "random",
        ),
        make(
            "quadratic_program/simplices",
            lambda: quadratic(12, ("simplices", DOMAIN_CASES["simplices"][1]), seed=3),
            "random",
        ),
        make(
            "quadratic_program/sparse-hypercube",
            lambda: quadratic(20, ("hypercube", {"m": 20}), seed=4, sparse=True),
            "random sparse",
        ),
        make(
            "quadratic_program/projection",
            lambda: {
                "Q": np.eye(3),
                "c": np.array([-1.0, 0.0, 1.0]),
                "domain": ("simplex", {"m": 3}),
            },
            "closed-form",
            exact=-0.5,  # the point (1, 0, 0)
        ),
    ]
}
"""By name."""


def _sparse_rows() -> Data:
    """Return a CSR A with some empty rows."""
    rng = np.random.default_rng(7)
    A = sp.random(40, 15, density=0.2, random_state=7, format="csr")
    return {"A": A, "b": rng.standard_normal(40), "domain": ("l1_ball", {"m": 15, "radius": 1.0})}


def domain(name: str, p: dict[str, Any]) -> Any:
    """Return qpsvm's domain of a name and its parameters."""
    from qpsvm import domains as d

    if name == "flow":
        tail, head = np.array(p["edges"]).T
        return d.FlowPolytope(tail, head, p["source"], p["target"])
    if name == "hull":
        return d.Hull(hull_points(**p))
    if name == "simplices":
        return d.SimplexProduct(np.repeat(np.arange(len(p["sizes"])), p["sizes"]))
    if name == "capped_simplices":
        group = np.repeat(np.arange(len(p["sizes"])), p["sizes"])
        return d.CappedSimplex(p["upper"], group, p["total"])
    if name == "matroid":
        A = np.array(p["columns"]).T
        return d.MatroidBases(A.shape[1], lambda s: np.linalg.matrix_rank(A[:, s]) == len(s))
    if name == "solid_simplex":
        return d.ScaledSimplex(**p, solid=True)
    classes = {
        "hypercube": d.hypercube,
        "linf_ball": d.linf_ball,
        "l1_ball": d.L1Ball,
        "l2_ball": d.L2Ball,
        "simplex": d.simplex,
        "scaled_simplex": d.ScaledSimplex,
        "k_subset": d.KSubset,
        "spanning_trees": d.SpanningTrees,
        "matchings": d.PerfectMatchings,
        "birkhoff": d.Birkhoff,
        "spectrahedron": d.Spectrahedron,
        "solid_spectrahedron": d.Spectrahedron,
        "nuclear_ball": d.NuclearBall,
        "spectral_ball": d.SpectralBall,
    }
    return classes[name](**p)


def hull_points(seed: int, k: int) -> np.ndarray:
    """Return k random points in 6 dimensions."""
    return np.random.default_rng(seed).standard_normal((k, 6))


def declare(instance: Instance) -> Any:
    """Build the qpsvm formulation of an instance."""
    import qpsvm

    data = instance.data()
    if instance.family == "least_squares":
        return qpsvm.LeastSquares(data["A"], data["b"], domain(*data["domain"]))
    return qpsvm.QuadraticProgram(data["Q"], data["c"], domain(*data["domain"]))
