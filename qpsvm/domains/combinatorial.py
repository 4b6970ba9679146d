"""Polytopes of subsets: k of m elements, spanning trees of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain
from qpsvm.errors import InputError, check_number

Vector = NDArray[np.float64]

MAX_NODES_FOR_FULL_CHECK = 12
"""Number of nodes up to which every constraint of the spanning-tree polytope is checked."""


@dataclass(frozen=True, eq=False)
class KSubset(OracleDomain):
    """The hypersimplex {0 <= x <= 1, sum x = k}; the vertices are the subsets of k elements.

    Parameters
    ----------
    m : int
    k : int

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import KSubset
    >>> KSubset(3, 2).linear_min(np.array([2.0, 0.0, 1.0])).tolist()
    [0.0, 1.0, 1.0]
    """

    m: int
    k: int
    zero_one = True
    constant_norm = True
    projectable = True
    has_face_oracle = True

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_number("m", self.m, low=1, integer=True)
        check_number("k", self.k, low=1, high=self.m, integer=True)

    def linear_min(self, g: Vector) -> Vector:
        """Return the k least entries; ties go to the first."""
        v = np.zeros(self.m)
        v[np.argsort(g, kind="stable")[: self.k]] = 1.0
        return v

    def face_vertex(self, g: Vector, x: Vector) -> Vector:
        """Keep the entries at 0 and 1, take the greatest of the others."""
        size = 1.0 + float(np.max(np.abs(g)))
        return self.linear_min(np.where(x <= 0.0, size, np.where(x >= 1.0, -size, -g)))

    def longest(self, x: Vector, d: Vector) -> float:
        """Return the largest t <= 1 with x + t d within [0, 1]."""
        rises = d > 0.0
        up = np.min((1.0 - x)[rises] / d[rises], initial=np.inf)
        return float(min(super().longest(x, d), up))

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the gap relative to the k-th least entry: a sum of nonnegative terms."""
        middle = float(np.partition(g, self.k - 1)[self.k - 1])
        above = np.maximum(g - middle, 0.0)
        below = np.maximum(middle - g, 0.0)
        return float(x @ above + (1.0 - x) @ below)

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_i, x_i - 1 and the error of the sum."""
        return float(max(0.0, -np.min(x), np.max(x) - 1.0, abs(np.sum(x) - self.k)))

    def project(self, x: Vector) -> Vector:
        """Return clip(x - t, 0, 1) with the sum k: t lies between two of the 2m breakpoints."""
        breaks = np.sort(np.concatenate([x, x - 1.0]))
        low, high = 0, len(breaks) - 1  # the sum falls from m to 0 as t passes the breakpoints
        while high - low > 1:
            middle = (low + high) // 2
            if np.sum(np.clip(x - breaks[middle], 0.0, 1.0)) >= self.k:
                low = middle
            else:
                high = middle
        inner = (x > breaks[low]) & (x - 1.0 <= breaks[low])
        excess = float(np.sum(np.clip(x - breaks[low], 0.0, 1.0))) - self.k
        t = breaks[low] + (excess / np.count_nonzero(inner) if inner.any() else 0.0)
        return np.clip(x - t, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class EdgeDomain(OracleDomain):
    """A domain whose variables are the edges of a graph, given as pairs of nodes 0 .. n - 1."""

    edges: Any
    zero_one = True
    constant_norm = True

    def __post_init__(self) -> None:
        """Check the pairs."""
        edges = np.array(self.edges, dtype=np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or len(edges) == 0 or edges.min() < 0:
            raise InputError(f"edges must be pairs of nodes, shape (m, 2); got {edges.shape}")
        object.__setattr__(self, "edges", edges)

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of edges."""
        return len(self.edges)

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes, of a bipartite graph on each side."""
        return int(self.edges.max()) + 1


@dataclass(frozen=True, eq=False)
class SpanningTrees(EdgeDomain):
    """Convex combinations of the spanning trees of a connected graph: x on the edges.

    {x >= 0, sum x = n - 1, sum of x inside each set S of nodes <= |S| - 1}.

    Parameters
    ----------
    edges : array_like of int, shape (m, 2)
        Pairs of different nodes 0 .. n - 1, none twice.

    Raises
    ------
    InputError
        If the graph is not simple or not connected.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import SpanningTrees
    >>> SpanningTrees([[0, 1], [1, 2], [0, 2]]).linear_min(np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 1.0, 0.0]
    """

    def __post_init__(self) -> None:
        """Check the graph."""
        super().__post_init__()
        self.edges.sort(axis=1)
        loops = self.edges[:, 0] == self.edges[:, 1]
        if np.any(loops) or len(np.unique(self.edges, axis=0)) < self.m:
            raise InputError(
                "edges must join different nodes, none twice; got a loop or a repeated edge"
            )
        if np.sum(self.linear_min(np.zeros(self.m))) != self.n_nodes - 1:
            raise InputError("edges must form a connected graph; got several components")

    def linear_min(self, g: Vector) -> Vector:
        """Return the minimum spanning tree with weights g; ties go to the first edge.

        Only the order of the weights matters: ranks are exact, positive and distinct.
        """
        from scipy.sparse.csgraph import minimum_spanning_tree

        rank = np.empty(self.m)
        rank[np.argsort(g, kind="stable")] = np.arange(1.0, self.m + 1.0)
        size = (self.n_nodes, self.n_nodes)
        graph = sp.csr_matrix((rank, (self.edges[:, 0], self.edges[:, 1])), shape=size)
        tree = minimum_spanning_tree(graph)
        v = np.zeros(self.m)
        v[np.argsort(rank)[tree.data.astype(np.int64) - 1]] = 1.0
        return v

    def violation(self, x: Vector) -> float:
        """Return the largest violation of a constraint.

        Above 12 nodes only sets S of two adjacent nodes or of all nodes but one are checked.
        """
        worst = max(0.0, -float(np.min(x)), abs(float(np.sum(x)) - (self.n_nodes - 1)))
        if self.n_nodes > MAX_NODES_FOR_FULL_CHECK:
            ends = np.bincount(self.edges.ravel(), np.repeat(x, 2), self.n_nodes)
            return float(max(worst, np.max(x) - 1.0, np.max(1.0 - ends)))
        for size in range(2, self.n_nodes):
            for nodes in combinations(range(self.n_nodes), size):
                inside = np.isin(self.edges, nodes).all(axis=1)
                worst = max(worst, float(np.sum(x[inside])) - (size - 1))
        return worst
