"""METHODS, the table of all methods: the functions that make their solvers, and their promises."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from qpsvm.solvers.base import Method, Solver


def solver_of(module: str, name: str, **settings: Any) -> Callable[..., Solver]:
    """Return a function that makes solvers and imports their module at its first call.

    To import every method with its compiled steps costs more than most solves.
    """

    def make(**options: Any) -> Solver:
        family = getattr(import_module(f"qpsvm.solvers.{module}"), name)
        return family(**(settings | options))

    return make


METHODS: dict[str, Method] = {
    "fw": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="toward"),
        "Frank-Wolfe with exact line search; on two simplices Gilbert's algorithm",
        "Frandi et al., Algorithm 2",
        gap=1e-2,
        budget=20_000_000,
        general=solver_of("frank_wolfe.general", "VertexFrankWolfe", rule="toward"),
    ),
    "mfw": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="away"),
        "Frank-Wolfe with away steps; linear convergence",
        "Frandi et al., Algorithm 3; Kumar and Yildirim, Algorithm 1",
        gap=1e-6,
        budget=5_000_000,
        general=solver_of("frank_wolfe.general", "VertexFrankWolfe", rule="away"),
    ),
    "pfw": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="pairwise"),
        "pairwise Frank-Wolfe: weight moves from the worst support point to the best vertex",
        "Lacoste-Julien and Jaggi (2015)",
        gap=1e-6,
        budget=5_000_000,
        general=solver_of("frank_wolfe.general", "VertexFrankWolfe", rule="pairwise"),
    ),
    "bpfw": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="blended"),
        "blended pairwise Frank-Wolfe: pairs inside the support, toward steps when they are steeper",
        "Tsuji, Tanaka and Pokutta (2022)",
        gap=1e-6,
        budget=5_000_000,
        general=solver_of("frank_wolfe.general", "VertexFrankWolfe", rule="blended"),
    ),
    "swap": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="swap"),
        "toward step or pair, whichever decreases the value more",
        "Allende, Frandi, Nanculef and Sartori (2013)",
        gap=1e-6,
        budget=5_000_000,
    ),
    "fcfw": Method(
        solver_of("working_set.core_set", "CoreSet", inner_tol=1e-2),
        "fully corrective Frank-Wolfe: exact re-optimization over the vertices met so far",
        "Holloway (1974); Garber and Wolf, section 2.2",
        gap=1e-6,
        budget=2_000,
        general=solver_of("frank_wolfe.fully_corrective", "FullyCorrective"),
    ),
    "cvm": Method(
        solver_of("working_set.core_set", "CoreSet", start="ball"),
        "core vector machine: re-optimization over a growing core set",
        "Frandi et al., Algorithm 1; Tsang, Kwok and Cheung (2005)",
        gap=1e-6,
        budget=2_000,
    ),
    "decomposition": Method(
        solver_of("working_set.decomposition", "Decomposition"),
        "working-set decomposition: hundreds of columns at once, SMO on the working set in cache",
        "Joachims (1999); Wen et al. (2018)",
        gap=1e-6,
        budget=2_000,
    ),
    "face-newton": Method(
        solver_of("newton.face_newton", "FaceNewton"),
        "Newton steps on the support that a low-rank Gram predicts, by conjugate directions",
        "Chapelle (2007); Keerthi and DeCoste (2005)",
        gap=1e-6,
        budget=200,
    ),
    "gilbert": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="toward"),
        "fw under its name for two polytopes",
        "Gilbert (1966); Kumar and Yildirim, section 3.1",
        gap=1e-2,
        budget=20_000_000,
        least_groups=2,
    ),
    "mdm": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="pairwise"),
        "pfw under its name for two polytopes: the steeper of the two sides moves",
        "Mitchell, Demyanov and Malozemov (1974); Kumar and Yildirim, section 3.1",
        gap=1e-6,
        budget=5_000_000,
        least_groups=2,
    ),
    "npa": Method(
        solver_of("frank_wolfe.simplex", "FrankWolfe", rule="triangle"),
        "nearest point algorithm: the best point of a triangle of toward and away steps",
        "Keerthi, Shevade, Bhattacharyya and Murthy (2000)",
        gap=1e-6,
        budget=5_000_000,
        least_groups=2,
    ),
    "smo": Method(
        solver_of("smo.smo", "SMO"),
        "pairs of coordinates by second-order working sets",
        "Fan, Chen and Lin, WSS 2",
        gap=1e-6,
        budget=10_000_000,
    ),
    "mnp": Method(
        solver_of("min_norm_point.mnp", "MinNormPoint"),
        "minimum-norm point: active set with a Cholesky factor, exact to roundoff",
        "Wolfe (1976)",
        gap=1e-8,
        budget=1_000,
    ),
    "mfn": Method(
        solver_of("newton.finite_newton", "FiniteNewton"),
        "modified finite Newton: linear machines with squared slacks by Newton steps in w",
        "Keerthi and DeCoste (2005); Mangasarian (2002)",
        gap=1e-8,
        budget=100,
    ),
    "nep-fw": Method(
        solver_of("frank_wolfe.nep", "NearestFrankWolfe"),
        "Frank-Wolfe with a nearest-extreme-point oracle",
        "Garber and Wolf, Algorithm 1",
        gap=1e-2,
        budget=100_000,
    ),
    "nep-fc": Method(
        solver_of("frank_wolfe.fully_corrective", "FullyCorrective", weight="adaptive", safe=True),
        "fully corrective Frank-Wolfe with a nearest-extreme-point oracle",
        "Garber and Wolf, Algorithm 2 and Theorem 6",
        gap=1e-6,
        budget=5_000,
    ),
    "nep-sfw": Method(
        solver_of("frank_wolfe.nep", "StochasticFrankWolfe"),
        "stochastic Frank-Wolfe with a nearest-extreme-point oracle, growing samples of rows",
        "Garber and Wolf, Algorithm 3",
        gap=1e-2,
        budget=100_000,
    ),
    "sfw": Method(
        solver_of("frank_wolfe.nep", "StochasticFrankWolfe", oracle="linear"),
        "stochastic Frank-Wolfe, growing samples of rows",
        "Hazan and Luo (2016); Garber and Wolf, section 2.3",
        gap=1e-2,
        budget=100_000,
    ),
    "dicg": Method(
        solver_of("frank_wolfe.dicg", "DecompositionInvariant"),
        "decomposition-invariant conditional gradient: pairwise steps without an active set",
        "Garber and Meshi (2016)",
        gap=1e-6,
        budget=100_000,
    ),
    "apg": Method(
        solver_of("frank_wolfe.projected_gradient", "ProjectedGradient"),
        "accelerated projected gradient with adaptive restarts",
        "Beck and Teboulle (2009); O'Donoghue and Candes (2015)",
        gap=1e-6,
        budget=100_000,
    ),
    "crsvm": Method(
        solver_of("interior_point.crsvm", "ConstraintReduced"),
        "predictor-corrector interior point method, its normal matrix from selected rows",
        "Jung, O'Leary and Tits, Algorithm 1",
        gap=1e-8,
        budget=60,
    ),
    "dcd": Method(
        solver_of("coordinate_descent.dcd", "DualCoordinateDescent"),
        "dual coordinate descent with w maintained, then, of absolute losses, proximal Newton steps",
        "Hsieh et al. (2008), Algorithms 1 and 3; Ho and Lin (2012)",
        gap=1e-8,
        budget=200,
        general=solver_of("coordinate_descent.dcd", "SquaredLossCoordinateDescent"),
        general_gap=1e-5,
    ),
    "pegasos": Method(
        solver_of("coordinate_descent.pegasos", "Pegasos"),
        "stochastic subgradient steps on the primal, their frequencies as dual weights",
        "Shalev-Shwartz et al. (2011)",
        gap=3e-1,
        budget=10_000,
    ),
    "pdipm": Method(
        solver_of("interior_point.crsvm", "ConstraintReduced", reduction=None),
        "the same with every row at every iteration; without a factor with the matrix of all points",
        "Mehrotra (1992); Gertz and Wright (2003); Gertz and Griffin (2010)",
        gap=1e-8,
        budget=60,
        general=solver_of("interior_point.dense", "DenseInteriorPoint"),
        general_gap=1e-6,
    ),
    "nesvm": Method(
        solver_of("smoothing.nesvm", "NESVM"),
        "accelerated gradient on the smoothed loss, by the primal",
        "Zhou, Tao and Wu, Algorithm 1",
        gap=1e-3,
        budget=200_000,
    ),
    "homotopy-nesvm": Method(
        solver_of("smoothing.nesvm", "HomotopyNESVM"),
        "the same with decreasing smoothing, about a moving center",
        "Zhou, Tao and Wu, Algorithm 2",
        gap=1e-4,
        budget=20_000,
    ),
}
