"""Domains: the feasible sets."""

from __future__ import annotations

from qpsvm.domains.base import Domain
from qpsvm.domains.box_hyperplane import BoxHyperplane
from qpsvm.domains.simplex import SimplexProduct, simplex

__all__ = ["BoxHyperplane", "Domain", "SimplexProduct", "simplex"]
