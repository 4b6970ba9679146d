"""qpsvm: quadratic programs of support vector machines, solved with a certified duality gap."""

from __future__ import annotations

from qpsvm import domains
from qpsvm.api import solve
from qpsvm.driver.selection import methods
from qpsvm.errors import InputError, Interrupted, MethodMismatchError
from qpsvm.formulations import (
    HingeDual,
    HingePrimal,
    L2SVMDual,
    LeastSquares,
    LPSVMPrimal,
    LSSVMPrimal,
    MEBDual,
    NuSVCDual,
    OneClassDual,
    PolytopeDistanceDual,
    QuadraticProgram,
    SVDDDual,
    SVRDual,
)
from qpsvm.gram import (
    RBF,
    Cached,
    CustomKernel,
    Laplacian,
    Linear,
    LowRank,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from qpsvm.path import solve_path
from qpsvm.result import Candidate, Certificate, History, Progress, Result, Status

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "Cached",
    "Candidate",
    "Certificate",
    "CustomKernel",
    "HingeDual",
    "HingePrimal",
    "History",
    "InputError",
    "Interrupted",
    "L2SVMDual",
    "LPSVMPrimal",
    "LSSVMPrimal",
    "Laplacian",
    "LeastSquares",
    "Linear",
    "LowRank",
    "MEBDual",
    "MethodMismatchError",
    "NuSVCDual",
    "OneClassDual",
    "Polynomial",
    "PolytopeDistanceDual",
    "Precomputed",
    "Progress",
    "QuadraticProgram",
    "Result",
    "SVDDDual",
    "SVRDual",
    "Sigmoid",
    "Status",
    "domains",
    "methods",
    "solve",
    "solve_path",
]
