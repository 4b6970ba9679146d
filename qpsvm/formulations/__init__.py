"""Formulations: declarative problems with their data."""

from __future__ import annotations

from qpsvm.formulations.base import Formulation
from qpsvm.formulations.hinge import HingeDual, HingePrimal
from qpsvm.formulations.l2_svm import L2SVMDual
from qpsvm.formulations.l2_svr import L2SVRDual
from qpsvm.formulations.lp_svm import LPSVMPrimal
from qpsvm.formulations.ls_svm import LSSVMPrimal
from qpsvm.formulations.meb import MEBDual
from qpsvm.formulations.nu_svr import NuSVRDual
from qpsvm.formulations.one_class import OneClassDual
from qpsvm.formulations.polytope_distance import PolytopeDistanceDual
from qpsvm.formulations.quadratic import LeastSquares, QuadraticProgram, SmoothProgram
from qpsvm.formulations.reduced_hulls import NuSVCDual
from qpsvm.formulations.svdd import SVDDDual
from qpsvm.formulations.svr import SVRDual

__all__ = [
    "Formulation",
    "HingeDual",
    "HingePrimal",
    "L2SVMDual",
    "L2SVRDual",
    "LPSVMPrimal",
    "LSSVMPrimal",
    "LeastSquares",
    "MEBDual",
    "NuSVCDual",
    "NuSVRDual",
    "OneClassDual",
    "PolytopeDistanceDual",
    "QuadraticProgram",
    "SVDDDual",
    "SVRDual",
    "SmoothProgram",
]
