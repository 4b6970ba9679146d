"""Formulations: declarative problems with their data."""

from __future__ import annotations

from qpsvm.formulations.base import Formulation
from qpsvm.formulations.hinge import HingeDual, HingePrimal
from qpsvm.formulations.l2_svm import L2SVMDual
from qpsvm.formulations.meb import MEBDual
from qpsvm.formulations.polytope_distance import PolytopeDistanceDual
from qpsvm.formulations.quadratic import LeastSquares, QuadraticProgram

__all__ = [
    "Formulation",
    "HingeDual",
    "HingePrimal",
    "L2SVMDual",
    "LeastSquares",
    "MEBDual",
    "PolytopeDistanceDual",
    "QuadraticProgram",
]
