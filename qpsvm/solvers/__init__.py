"""Solvers: one file per algorithm family, and METHODS, the table of contents."""

from __future__ import annotations

from functools import partial

from qpsvm.solvers.apg import ProjectedGradient
from qpsvm.solvers.base import Method, Reply, Solver, Stop
from qpsvm.solvers.core_set import CoreSet
from qpsvm.solvers.corrective import FullyCorrective
from qpsvm.solvers.crsvm import ConstraintReduced
from qpsvm.solvers.dcd import DualCoordinateDescent
from qpsvm.solvers.decomposition import Decomposition
from qpsvm.solvers.dicg import DecompositionInvariant
from qpsvm.solvers.face_newton import FaceNewton
from qpsvm.solvers.finite_newton import FiniteNewton
from qpsvm.solvers.frank_wolfe import FrankWolfe
from qpsvm.solvers.mnp import MinNormPoint
from qpsvm.solvers.nep import NearestFrankWolfe, StochasticFrankWolfe
from qpsvm.solvers.nesvm import NESVM, HomotopyNESVM
from qpsvm.solvers.pegasos import Pegasos
from qpsvm.solvers.smo import SMO
from qpsvm.solvers.vertex import VertexFrankWolfe

__all__ = [
    "METHODS",
    "SMO",
    "ConstraintReduced",
    "CoreSet",
    "Decomposition",
    "FrankWolfe",
    "Method",
    "MinNormPoint",
    "Reply",
    "Solver",
    "Stop",
]

METHODS: dict[str, Method] = {
    "fw": Method(
        partial(FrankWolfe, rule="toward"),
        "Frank-Wolfe with exact line search; on two simplices Gilbert's algorithm",
        "Frandi et al., Algorithm 2",
        gap=1e-2,
        budget=20_000_000,
        general=partial(VertexFrankWolfe, rule="toward"),
    ),
    "mfw": Method(
        partial(FrankWolfe, rule="away"),
        "Frank-Wolfe with away steps; linear convergence",
        "Frandi et al., Algorithm 3; Kumar and Yildirim, Algorithm 1",
        gap=1e-6,
        budget=5_000_000,
        general=partial(VertexFrankWolfe, rule="away"),
    ),
    "pfw": Method(
        partial(FrankWolfe, rule="pairwise"),
        "pairwise Frank-Wolfe: weight moves from the worst support point to the best vertex",
        "Lacoste-Julien and Jaggi (2015)",
        gap=1e-6,
        budget=5_000_000,
        general=partial(VertexFrankWolfe, rule="pairwise"),
    ),
    "bpfw": Method(
        partial(FrankWolfe, rule="blended"),
        "blended pairwise Frank-Wolfe: pairs inside the support, toward steps when they are steeper",
        "Tsuji, Tanaka and Pokutta (2022)",
        gap=1e-6,
        budget=5_000_000,
        general=partial(VertexFrankWolfe, rule="blended"),
    ),
    "swap": Method(
        partial(FrankWolfe, rule="swap"),
        "toward step or pair, whichever decreases the value more",
        "Allende, Frandi, Nanculef and Sartori (2013)",
        gap=1e-6,
        budget=5_000_000,
    ),
    "fcfw": Method(
        partial(CoreSet, inner_tol=1e-2),
        "fully corrective Frank-Wolfe: exact re-optimization over the vertices met so far",
        "Holloway (1974); Garber and Wolf, section 3",
        gap=1e-6,
        budget=2_000,
        general=FullyCorrective,
    ),
    "cvm": Method(
        partial(CoreSet, start="ball"),
        "core vector machine: re-optimization over a growing core set",
        "Frandi et al., Algorithm 1; Tsang, Kwok and Cheung (2005)",
        gap=1e-6,
        budget=2_000,
    ),
    "decomposition": Method(
        Decomposition,
        "working-set decomposition: hundreds of columns enter at once, SMO on the core in cache",
        "Joachims (1999); Wen et al. (2018)",
        gap=1e-6,
        budget=2_000,
    ),
    "face-newton": Method(
        FaceNewton,
        "Newton steps on the support that a low-rank Gram foretells, by conjugate directions",
        "Chapelle (2007); Keerthi and DeCoste (2005)",
        gap=1e-6,
        budget=200,
    ),
    "gilbert": Method(
        partial(FrankWolfe, rule="toward"),
        "fw under its name for two polytopes",
        "Gilbert (1966); Kumar and Yildirim, section 1",
        gap=1e-2,
        budget=20_000_000,
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
        budget=10_000_000,
    ),
    "mnp": Method(
        MinNormPoint,
        "minimum-norm point: active set with a Cholesky factor, exact to roundoff",
        "Wolfe (1976)",
        gap=1e-8,
        budget=1_000,
    ),
    "mfn": Method(
        FiniteNewton,
        "modified finite Newton: the linear L2-SVM by Newton steps in w",
        "Keerthi and DeCoste (2005); Mangasarian (2002)",
        gap=1e-8,
        budget=100,
    ),
    "nep-fw": Method(
        NearestFrankWolfe,
        "Frank-Wolfe with a nearest-extreme-point oracle",
        "Garber and Wolf, Algorithm 1",
        gap=1e-2,
        budget=100_000,
    ),
    "nep-fc": Method(
        partial(FullyCorrective, weight="adaptive", safe=True),
        "fully corrective Frank-Wolfe with a nearest-extreme-point oracle",
        "Garber and Wolf, Algorithm 2 and Theorem 6",
        gap=1e-6,
        budget=5_000,
    ),
    "nep-sfw": Method(
        StochasticFrankWolfe,
        "stochastic Frank-Wolfe with a nearest-extreme-point oracle, growing samples of rows",
        "Garber and Wolf, Algorithm 3",
        gap=1e-2,
        budget=100_000,
    ),
    "sfw": Method(
        partial(StochasticFrankWolfe, oracle="linear"),
        "stochastic Frank-Wolfe, growing samples of rows",
        "Hazan and Luo (2016); Garber and Wolf, section 2.3",
        gap=1e-2,
        budget=100_000,
    ),
    "dicg": Method(
        DecompositionInvariant,
        "decomposition-invariant conditional gradient: pairwise steps without an active set",
        "Garber and Meshi (2016)",
        gap=1e-6,
        budget=100_000,
    ),
    "apg": Method(
        ProjectedGradient,
        "accelerated projected gradient with adaptive restarts",
        "Beck and Teboulle (2009); O'Donoghue and Candes (2015)",
        gap=1e-6,
        budget=100_000,
    ),
    "crsvm": Method(
        ConstraintReduced,
        "predictor-corrector interior point method, its normal matrix from the rows that matter",
        "Jung, O'Leary and Tits, Algorithm 1",
        gap=1e-8,
        budget=60,
    ),
    "dcd": Method(
        DualCoordinateDescent,
        "dual coordinate descent with w maintained, then proximal Newton steps",
        "Hsieh et al. (2008), Algorithms 1 and 3",
        gap=1e-8,
        budget=200,
    ),
    "pegasos": Method(
        Pegasos,
        "stochastic subgradient steps on the primal, their frequencies as dual weights",
        "Shalev-Shwartz et al. (2011)",
        gap=3e-1,
        budget=10_000,
    ),
    "pdipm": Method(
        partial(ConstraintReduced, reduction=None),
        "the same interior point method with every row at every iteration",
        "Mehrotra (1992); Gertz and Griffin (2010)",
        gap=1e-8,
        budget=60,
    ),
    "nesvm": Method(
        NESVM,
        "accelerated gradient on the smoothed loss, by the primal",
        "Zhou, Tao and Wu, Algorithm 1",
        gap=1e-3,
        budget=200_000,
    ),
    "homotopy-nesvm": Method(
        HomotopyNESVM,
        "the same with decreasing smoothing, about a moving centre",
        "Zhou, Tao and Wu, Algorithm 2",
        gap=1e-4,
        budget=20_000,
    ),
}
