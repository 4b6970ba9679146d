"""Kernels: parameters, diagonal, and the map from inner products or distances to values."""

from __future__ import annotations

from qpsvm.gram.kernels.custom import CustomKernel
from qpsvm.gram.kernels.laplacian import Laplacian
from qpsvm.gram.kernels.linear import Linear
from qpsvm.gram.kernels.polynomial import Polynomial
from qpsvm.gram.kernels.rbf import RBF
from qpsvm.gram.kernels.sigmoid import Sigmoid

__all__ = ["RBF", "CustomKernel", "Laplacian", "Linear", "Polynomial", "Sigmoid"]
