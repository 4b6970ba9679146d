"""Solvers: one file per algorithm family, and METHODS, the table of contents."""

from __future__ import annotations

from functools import partial

from qpsvm.solvers.base import Method, Reply, Solver, Stop
from qpsvm.solvers.frank_wolfe import FrankWolfe
from qpsvm.solvers.smo import SMO

__all__ = ["METHODS", "FrankWolfe", "Method", "Reply", "SMO", "Solver", "Stop"]

METHODS: dict[str, Method] = {
    "fw": Method(
        partial(FrankWolfe, rule="toward"),
        "Frank-Wolfe with exact line search; on two simplices Gilbert's algorithm",
        "Frandi et al., Algorithm 2",
        gap=1e-2,
        budget=200_000,
    ),
    "mfw": Method(
        partial(FrankWolfe, rule="away"),
        "Frank-Wolfe with away steps; linear convergence",
        "Frandi et al., Algorithm 3; Kumar and Yildirim, Algorithm 1",
        gap=1e-6,
        budget=5_000_000,
    ),
    "smo": Method(
        SMO,
        "pairs of coordinates by second-order working sets",
        "Fan, Chen and Lin, WSS 2",
        gap=1e-6,
        budget=1_000_000,
    ),
}
