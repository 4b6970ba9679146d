"""General quadratics over domains, each with its explicit constraints.

    minimize  1/2 |Ax - b|^2  or  1/2 x'Qx + c'x   subject to   x in the domain

The constraints are written from the definition of each set, by name; nothing is taken from qpsvm's
domains. An answer, of Clarabel or of OSQP, is believed after its value and a lower bound meet:

    f(y) >= f(x) + grad f(x)'(y - x),   minimized over the domain by a second, linear problem.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from problems.instance import Instance
from problems.programs.general import hull_points
from reference.answer import (
    OTHER_FAMILIES,
    OTHER_FAMILIES_BY_OSQP,
    Reference,
    UnverifiedError,
)
from reference.solving.pairs import SOLVER_FUNCTIONS
from reference.textbook import SolverError, clarabel

MAX_RELATIVE_GAP = 1e-7
"""Gap, relative to the size of the data, of an answer that is believed: conic solvers reach it."""

MAX_RELATIVE_GAP_OF_OSQP = 1e-4
"""The same of OSQP, a method of first order; its residual says how good its answer is."""


def constraints(name: str, p: dict[str, Any], x: Any) -> list[Any]:
    """Return the constraints of a domain on a cvxpy variable of shape (m,)."""
    import cvxpy as cp

    def matrix(rows: int, columns: int) -> Any:
        return cp.reshape(x, (rows, columns), order="C")

    if name == "hypercube":
        return [x >= 0, x <= 1]
    if name == "box":
        return [x >= p["lower"], x <= p["upper"]]
    if name == "penalty_box":
        return [x >= 0, x <= p["upper"]]
    if name == "box_with_hyperplane":
        return [x >= 0, x <= p["upper"], p["y"] @ x == 0]
    if name == "capped_groups":
        sums = [cp.sum(x[p["group"] == g]) == t for g, t in enumerate(p["total"])]
        return [x >= 0, x <= p["upper"], *sums]
    if name == "simplex_of_radius":
        total = cp.sum(x)
        return [x >= 0, total <= p["radius"] if p["solid"] else total == p["radius"]]
    if name == "groups":
        return [x >= 0, *(cp.sum(x[p["group"] == g]) == 1 for g in np.unique(p["group"]))]
    if name == "linf_ball":
        return [x >= -p["radius"], x <= p["radius"]]
    if name == "l1_ball":
        return [cp.norm1(x) <= p["radius"]]
    if name == "l2_ball":
        return [cp.norm2(x) <= p["radius"]]
    if name in ("simplex", "scaled_simplex"):
        return [x >= 0, cp.sum(x) == p.get("radius", 1.0)]
    if name == "solid_simplex":
        return [x >= 0, cp.sum(x) <= p["radius"]]
    if name == "capped_simplices":
        ends = np.cumsum(p["sizes"])
        parts = zip(ends - p["sizes"], ends, p["total"], strict=True)
        return [x >= 0, x <= np.array(p["upper"]), *(cp.sum(x[i:j]) == t for i, j, t in parts)]
    if name == "simplices":
        ends = np.cumsum(p["sizes"])
        parts = zip(ends - p["sizes"], ends, strict=True)
        return [x >= 0, *(cp.sum(x[i:j]) == 1 for i, j in parts)]
    if name == "k_subset":
        return [x >= 0, x <= 1, cp.sum(x) == p["k"]]
    if name == "spanning_trees":
        edges = np.array(p["edges"])
        n = edges.max() + 1
        sets = [s for size in range(2, n) for s in combinations(range(n), size)]
        inside = np.array([np.isin(edges, s).all(axis=1) for s in sets], dtype=float)
        sizes = np.array([len(s) - 1.0 for s in sets])
        return [x >= 0, cp.sum(x) == n - 1, inside @ x <= sizes]
    if name == "flow":
        tail, head = np.array(p["edges"]).T
        n = max(tail.max(), head.max()) + 1
        leaves = np.eye(n)[tail].T - np.eye(n)[head].T
        return [x >= 0, leaves @ x == np.eye(n)[p["source"]] - np.eye(n)[p["target"]]]
    if name == "matchings":
        left, right = np.array(p["edges"]).T
        n = left.max() + 1
        return [x >= 0, np.eye(n)[left].T @ x == 1, np.eye(n)[right].T @ x == 1]
    if name == "matroid":
        flats = closed_sets(n_elements(p), subset_ranks(p))
        sets = np.array([np.isin(np.arange(n_elements(p)), s) for s in flats], dtype=float)
        bounds = np.array(list(flats.values()), dtype=float)
        return [x >= 0, cp.sum(x) == max(flats.values()), sets @ x <= bounds]
    if name == "birkhoff":
        X = matrix(p["n"], p["n"])
        return [x >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]
    if name == "hull":
        points = p["points"] if "points" in p else hull_points(**p)
        w = cp.Variable(len(points), nonneg=True)
        return [cp.sum(w) == 1, points.T @ w == x]
    if name in ("spectrahedron", "solid_spectrahedron"):
        X = matrix(p["n"], p["n"])
        total = cp.trace(X)
        return [X == X.T, X >> 0, total <= p["trace"] if p.get("solid") else total == p["trace"]]
    X = matrix(p["rows"], p["columns"])
    norm = cp.normNuc(X) if name == "nuclear_ball" else cp.sigma_max(X)
    return [norm <= p["radius"]]


def n_elements(p: dict[str, Any]) -> int:
    """Return the number of elements of a matroid."""
    return len(p["columns"]) if "columns" in p else int(p["m"])


def subset_ranks(p: dict[str, Any]) -> dict[tuple[int, ...], int]:
    """Return the rank of each subset of a matroid: of columns, or by its independence oracle."""
    m = n_elements(p)
    subsets = [s for size in range(1, m + 1) for s in combinations(range(m), size)]
    if "columns" in p:
        A = np.array(p["columns"], dtype=float).T
        return {s: int(np.linalg.matrix_rank(A[:, s])) for s in subsets}

    def greedy(elements: tuple[int, ...]) -> int:
        kept: list[int] = []
        for element in elements:
            if p["independent"](np.array([*kept, element])):
                kept.append(element)
        return len(kept)

    return {s: greedy(s) for s in subsets}


def closed_sets(m: int, ranks: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    """Return the subsets that no element joins without raising the rank, with their ranks.

    The constraints x(S) <= rank(S) of the other subsets follow: x >= 0, and S is part of a closed set
    of the same rank. Solvers fail on thousands of constraints that others imply.
    """

    def closed(s: tuple[int, ...]) -> bool:
        others = (e for e in range(m) if e not in s)
        return all(ranks[tuple(sorted((*s, e)))] > ranks[s] for e in others)

    return {s: rank for s, rank in ranks.items() if closed(s)}


@cache
def answer(instance: Instance) -> Reference:
    """Return the answer to an instance by Clarabel, with a bound on its error."""
    return answer_by(instance, "Clarabel")


@cache
def answer_osqp(instance: Instance) -> Reference:
    """Return OSQP's answer to an instance on a polyhedron, with a bound on its error.

    OSQP's point violates constraints by its tolerance: the nearest point of the domain is judged, since
    only the value of a feasible point bounds the optimum from above.

    Raises
    ------
    UnverifiedError
        If OSQP gives no answer, as on a domain that is no polyhedron, or if the bounds do not meet.
    """
    return answer_by(instance, "OSQP")


def answer_by(instance: Instance, solver: str) -> Reference:
    """Return the answer to an instance by a solver of `SOLVER_FUNCTIONS`."""
    import cvxpy as cp

    data = instance.data()
    if instance.family == "least_squares":
        A = data["A"].toarray() if sp.issparse(data["A"]) else data["A"]
        b = data["b"]
        x = cp.Variable(A.shape[1])
        objective = 0.5 * cp.sum_squares(A @ x - b)
        scale = float(b @ b)
    else:
        Q = data["Q"].toarray() if sp.issparse(data["Q"]) else data["Q"]
        x = cp.Variable(len(Q))
        objective = 0.5 * cp.quad_form(x, cp.psd_wrap(Q)) + data["c"] @ x
        scale = float(np.abs(Q).max())
    problem = cp.Problem(cp.Minimize(objective), constraints(*data["domain"], x))
    try:
        SOLVER_FUNCTIONS[solver](problem)
    except (SolverError, cp.SolverError) as error:
        raise UnverifiedError(f"{instance.name}: {solver} gives no answer: {error}") from error
    found = x.value
    if solver == "OSQP":
        moved = cp.Problem(cp.Minimize(cp.sum_squares(x - found)), constraints(*data["domain"], x))
        clarabel(moved)
        found = x.value
    if instance.family == "least_squares":
        residual = A @ found - b
        value, g = 0.5 * float(residual @ residual), A.T @ residual
    else:
        value, g = 0.5 * float(found @ Q @ found) + float(data["c"] @ found), Q @ found + data["c"]
    y = cp.Variable(len(found))
    least = clarabel(cp.Problem(cp.Minimize(g @ y), constraints(*data["domain"], y)))
    gap = abs(float(g @ found) - least)
    most = MAX_RELATIVE_GAP_OF_OSQP if solver == "OSQP" else MAX_RELATIVE_GAP
    slack = most * max(abs(value), 1e-2 * scale)
    if not gap <= slack:
        raise UnverifiedError(f"{instance.name}: gap {gap:.3g} at value {value:.6g}")
    return Reference(value, found, gap + 1e-9 * max(abs(value), 1e-2 * scale), solver, gap)


OTHER_FAMILIES.update(least_squares=answer, quadratic_program=answer)
OTHER_FAMILIES_BY_OSQP.update(least_squares=answer_osqp, quadratic_program=answer_osqp)


def violation(instance: Instance, at: np.ndarray) -> float:
    """Return the largest violation of the explicit constraints at a point."""
    import cvxpy as cp

    name, p = instance.data()["domain"]
    x = cp.Variable(len(at))
    rows = constraints(name, p, x)
    if name == "hull":  # the weights are sought
        distance = clarabel(cp.Problem(cp.Minimize(cp.norm1(x - at)), rows))
        return float(distance)
    x.value = at
    return max(float(np.max(row.violation())) for row in rows)
