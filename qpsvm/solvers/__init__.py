"""Solvers: one file per algorithm family, and METHODS, the table of contents."""

from __future__ import annotations

from functools import partial

from qpsvm.solvers.base import Method, Reply, Solver, Stop
from qpsvm.solvers.core_set import CoreSet
from qpsvm.solvers.frank_wolfe import FrankWolfe
from qpsvm.solvers.smo import SMO

__all__ = ["METHODS", "CoreSet", "FrankWolfe", "Method", "Reply", "SMO", "Solver", "Stop"]

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
    "pfw": Method(
        partial(FrankWolfe, rule="pairwise"),
        "pairwise Frank-Wolfe: weight moves from the worst support point to the best vertex",
        "Lacoste-Julien and Jaggi (2015)",
        gap=1e-6,
        budget=5_000_000,
    ),
    "bpfw": Method(
        partial(FrankWolfe, rule="blended"),
        "blended pairwise Frank-Wolfe: pairs inside the support, toward steps when they are steeper",
        "Tsuji, Tanaka and Pokutta (2022)",
        gap=1e-6,
        budget=5_000_000,
    ),
    "swap": Method(
        partial(FrankWolfe, rule="swap"),
        "toward step or pair, whichever decreases the value more",
        "Allende, Frandi, Nanculef and Sartori (2013)",
        gap=1e-6,
        budget=5_000_000,
    ),
    "fcfw": Method(
        partial(CoreSet, inner_tol=1e-3, start="two-point"),
        "fully corrective Frank-Wolfe: exact re-optimization over the vertices met so far",
        "Holloway (1974); Garber and Wolf, section 3",
        gap=1e-6,
        budget=2_000,
    ),
    "cvm": Method(
        CoreSet,
        "core vector machine: re-optimization over a growing core set",
        "Frandi et al., Algorithm 1; Tsang, Kwok and Cheung (2005)",
        gap=1e-6,
        budget=2_000,
    ),
    "gilbert": Method(
        partial(FrankWolfe, rule="toward"),
        "fw under its name for two polytopes",
        "Gilbert (1966); Kumar and Yildirim, section 1",
        gap=1e-2,
        budget=200_000,
        least_groups=2,
    ),
    "mdm": Method(
        partial(FrankWolfe, rule="pairwise"),
        "pfw under its name for two polytopes: the steeper of the two sides moves",
        "Mitchell, Demyanov and Malozemov (1974); Kumar and Yildirim, section 1",
        gap=1e-6,
        budget=5_000_000,
        least_groups=2,
    ),
    "npa": Method(
        partial(FrankWolfe, rule="triangle"),
        "nearest point algorithm: the best point of a triangle of toward and away steps",
        "Keerthi, Shevade, Bhattacharyya and Murthy (2000)",
        gap=1e-6,
        budget=5_000_000,
        least_groups=2,
    ),
    "smo": Method(
        SMO,
        "pairs of coordinates by second-order working sets",
        "Fan, Chen and Lin, WSS 2",
        gap=1e-6,
        budget=1_000_000,
    ),
}
