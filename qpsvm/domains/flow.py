"""The flow polytope: convex combinations of the paths between two nodes of an acyclic graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains.base import OracleDomain
from qpsvm.errors import InputError

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FlowPolytope(OracleDomain):
    """{x >= 0 on the edges, one unit leaves the source, reaches the target, and is conserved}.

    Its vertices are the paths, with entries 0 and 1. The linear minimizer is a shortest path, by
    levels of the topological order; costs may be negative. Paths may have unequal lengths, so the
    nearest vertex uses the rule for entries 0 and 1 (Garber and Wolf, section 1.2).

    Parameters
    ----------
    tail, head : array_like of int, shape (m,)
        Ends of each edge: nodes 0, 1, ...
    source, target : int

    Raises
    ------
    InputError
        If the graph has a cycle or no path from source to target.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm.domains import FlowPolytope
    >>> paths = FlowPolytope([0, 1, 0], [1, 2, 2], source=0, target=2)
    >>> paths.linear_min(np.array([1.0, 1.0, 3.0])).tolist()
    [1.0, 1.0, 0.0]
    """

    tail: Any
    head: Any
    source: int
    target: int
    zero_one = True
    has_face_oracle = True

    def __post_init__(self) -> None:
        """Check the graph."""
        tail, head = (np.array(end, dtype=np.int64) for end in (self.tail, self.head))
        if tail.ndim != 1 or tail.shape != head.shape or len(tail) == 0:
            raise InputError(
                f"tail and head must have the same shape (m,); got {tail.shape}, {head.shape}"
            )
        if min(tail.min(), head.min()) < 0:
            raise InputError("tail and head must be >= 0; got a negative node")
        object.__setattr__(self, "tail", tail)
        object.__setattr__(self, "head", head)
        if not np.isfinite(self._distances(np.zeros(self.m))[self.target]):
            raise InputError(f"there must be a path from {self.source} to {self.target}; got none")

    @property
    def m(self) -> int:  # type: ignore[override]
        """Number of edges."""
        return len(self.tail)

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(max(self.tail.max(), self.head.max(), self.source, self.target)) + 1

    @cached_property
    def _levels(self) -> list[tuple[Indices, Indices, Indices]]:
        """Edges by the level of their head: (edges sorted by head, where heads begin, heads)."""
        level = np.zeros(self.n_nodes, np.int64)
        for _ in range(self.n_nodes + 1):
            raised = level.copy()
            np.maximum.at(raised, self.head, level[self.tail] + 1)
            if np.array_equal(raised, level):
                break
            level = raised
        else:
            raise InputError("tail and head must form a graph without cycles; got a cycle")
        edges_by_level = []
        of_edge = level[self.head]
        for k in range(1, int(level.max()) + 1):
            edges = np.flatnonzero(of_edge == k)
            edges = edges[np.argsort(self.head[edges], kind="stable")]
            heads, begins = np.unique(self.head[edges], return_index=True)
            edges_by_level.append((edges, begins, heads))
        return edges_by_level

    @cached_property
    def _entering(self) -> list[Indices]:
        """Edges that enter each node."""
        order = np.argsort(self.head, kind="stable")
        counts = np.bincount(self.head, minlength=self.n_nodes)
        return np.split(order, np.cumsum(counts)[:-1])

    def _distances(self, cost: Vector) -> Vector:
        """Return the length of the shortest path from the source to each node."""
        distance = np.full(self.n_nodes, np.inf)
        distance[self.source] = 0.0
        for edges, begins, heads in self._levels:
            lengths = np.minimum.reduceat(distance[self.tail[edges]] + cost[edges], begins)
            distance[heads] = np.minimum(distance[heads], lengths)
        return distance

    def linear_min(self, g: Vector) -> Vector:
        """Return the shortest path with edge lengths g; ties go to the first edge."""
        distance = self._distances(g)
        v = np.zeros(self.m)
        node = self.target
        while node != self.source:
            edges = self._entering[node]
            edge = int(edges[np.argmin(distance[self.tail[edges]] + g[edges])])
            v[edge] = 1.0
            node = int(self.tail[edge])
        return v

    def linear_gap(self, x: Vector, g: Vector) -> float:
        """Return the flow times the reduced cost of each edge: a sum of nonnegative terms.

        With distances p, g'x - min g'v = sum x_e (g_e + p_tail - p_head).
        """
        distance = self._distances(g)
        used = np.flatnonzero(x)
        used = used[np.isfinite(distance[self.tail[used]])]
        reduced = g[used] + distance[self.tail[used]] - distance[self.head[used]]
        return float(np.maximum(x[used], 0.0) @ np.maximum(reduced, 0.0))

    def violation(self, x: Vector) -> float:
        """Return the largest of -x_e and the imbalance of a node."""
        balance = np.bincount(self.tail, x, self.n_nodes) - np.bincount(self.head, x, self.n_nodes)
        balance[self.source] -= 1.0
        balance[self.target] += 1.0
        return float(max(0.0, -np.min(x), np.max(np.abs(balance))))


def layered_graph(sizes: Any, density: float, seed: int) -> tuple[Indices, Indices, int, int]:
    """Return (tail, head, source, target) of a random layered graph, for instances and examples.

    Parameters
    ----------
    sizes : sequence of int
        Nodes of each layer.
    density : float
        Probability of an edge between nodes of consecutive layers. Each node has at least one edge to
        the layer before and after, so that it lies on a path.
    seed : int
    """
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])
    target = int(starts[-1])
    tails = [np.zeros(sizes[0], np.int64)]
    heads = [np.arange(1, 1 + sizes[0])]
    for k in range(len(sizes) - 1):
        n, p = sizes[k], sizes[k + 1]
        edges = rng.random((n, p)) < density
        steps = np.arange(max(n, p))
        edges[steps % n, steps % p] = True
        i, j = np.nonzero(edges)
        tails.append(starts[k] + i)
        heads.append(starts[k + 1] + j)
    tails.append(starts[-2] + np.arange(sizes[-1]))
    heads.append(np.full(sizes[-1], target))
    return np.concatenate(tails), np.concatenate(heads), 0, target
