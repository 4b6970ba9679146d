"""Perfect matchings of a bipartite graph that need not be complete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.domains.combinatorial import EdgeDomain
from qpsvm.errors import InputError

Vector = NDArray[np.float64]

MAX_DENSE_SIDE = 500
"""Number of nodes of a side up to which the assignment is solved on a dense matrix."""


@dataclass(frozen=True, eq=False)
class PerfectMatchings(EdgeDomain):
    """Convex combinations of the perfect matchings of a bipartite graph: x on the edges.

    {x >= 0, the sum of x at each node is 1}. `Birkhoff` is the case of a complete graph.

    Parameters
    ----------
    edges : array_like of int, shape (m, 2)
        Pairs of a left and a right node, each numbered 0 .. n - 1; none twice.

    Raises
    ------
    InputError
        If an edge is repeated, or if the graph has no perfect matching.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import PerfectMatchings
    >>> square = PerfectMatchings([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> square.linear_min(np.array([1.0, 0.0, 0.0, 3.0])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    has_face_oracle = True

    def __post_init__(self) -> None:
        """Check the graph."""
        super().__post_init__()
        edges = self.edges
        if len(np.unique(edges, axis=0)) < len(edges):
            raise InputError("edges must be different pairs; got a repeated edge")
        graph = sp.csr_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])))
        from scipy.sparse.csgraph import maximum_bipartite_matching

        matched = np.count_nonzero(maximum_bipartite_matching(graph, perm_type="column") >= 0)
        if graph.shape != (matched, matched):
            raise InputError(
                f"edges must have a perfect matching; got {graph.shape[0]} left and "
                f"{graph.shape[1]} right nodes, of which {matched} pairs match"
            )

    @cached_property
    def _edge_of(self) -> sp.csr_matrix:
        """The number of each edge, from 1 on, at its pair of nodes."""
        size = (self.n_nodes, self.n_nodes)
        numbers = np.arange(1, self.m + 1)
        return sp.csr_matrix((numbers, (self.edges[:, 0], self.edges[:, 1])), shape=size)

    def linear_min(self, g: Vector) -> Vector:
        """Solve the assignment problem with costs g on the edges."""
        left, right = self.edges.T
        v = np.zeros(self.m)
        if self.n_nodes <= MAX_DENSE_SIDE:
            from scipy.optimize import linear_sum_assignment

            costs = np.full((self.n_nodes, self.n_nodes), np.inf)
            costs[left, right] = g
            rows, columns = linear_sum_assignment(costs)
        else:
            from scipy.sparse.csgraph import min_weight_full_bipartite_matching

            low = float(np.min(g))  # a zero would be no edge; all matchings have n edges
            shift = max(float(np.max(g)) - low, abs(low), np.finfo(float).tiny) - low
            costs = sp.csr_matrix((g + shift, (left, right)), shape=self._edge_of.shape)
            rows, columns = min_weight_full_bipartite_matching(costs)
        v[np.asarray(self._edge_of[rows, columns]).ravel() - 1] = 1.0
        return v

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_e and the errors of the sums at the nodes."""
        sums = [np.bincount(side, x, self.n_nodes) for side in self.edges.T]
        return float(max(0.0, -np.min(x), np.max(np.abs(np.concatenate(sums) - 1.0))))
