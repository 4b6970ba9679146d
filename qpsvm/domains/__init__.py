"""Domains: the feasible sets."""

from __future__ import annotations

from qpsvm.domains.ball import L1Ball, L2Ball, ScaledSimplex
from qpsvm.domains.base import Domain, OracleDomain
from qpsvm.domains.box import Box, PenaltyBox, hypercube, linf_ball
from qpsvm.domains.box_hyperplane import BoxHyperplane
from qpsvm.domains.capped_simplex import CappedSimplex
from qpsvm.domains.combinatorial import KSubset, SpanningTrees
from qpsvm.domains.flow import FlowPolytope
from qpsvm.domains.hull import Hull
from qpsvm.domains.matching import PerfectMatchings
from qpsvm.domains.matrix import Birkhoff, NuclearBall, Spectrahedron, SpectralBall
from qpsvm.domains.matroid import MatroidBases
from qpsvm.domains.orthant import Orthant
from qpsvm.domains.simplex import SimplexProduct, simplex

__all__ = [
    "Birkhoff",
    "Box",
    "BoxHyperplane",
    "CappedSimplex",
    "Domain",
    "FlowPolytope",
    "Hull",
    "KSubset",
    "L1Ball",
    "L2Ball",
    "MatroidBases",
    "NuclearBall",
    "OracleDomain",
    "Orthant",
    "PenaltyBox",
    "PerfectMatchings",
    "ScaledSimplex",
    "SimplexProduct",
    "SpanningTrees",
    "Spectrahedron",
    "SpectralBall",
    "hypercube",
    "linf_ball",
    "simplex",
]
