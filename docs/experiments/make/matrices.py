"""Matrix completion over the nuclear-norm ball and least squares over the Birkhoff polytope.

python -m docs.experiments.make.matrices
"""

from __future__ import annotations

import numpy as np
import scipy.sparse.linalg as sla

import qpsvm
from qpsvm import LeastSquares
from qpsvm.domains import Birkhoff, NuclearBall


def completion(n: int = 1000, rank: int = 3, share: float = 0.2, seed: int = 0) -> LeastSquares:
    """Return the completion of a noisy n x n matrix of low rank from a share of its entries."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, n, rank))
    seen = np.sort(rng.choice(n * n, size=int(share * n * n), replace=False))
    rows, columns = np.divmod(seen, n)
    b = np.einsum("ij,ij->i", U[rows], V[columns]) + 0.1 * rng.standard_normal(len(seen))

    def scatter(r: np.ndarray) -> np.ndarray:
        x = np.zeros(n * n)
        x[seen] = np.ravel(r)
        return x

    pick = sla.LinearOperator(
        (len(seen), n * n), matvec=lambda x: np.ravel(x)[seen], rmatvec=scatter, dtype=np.float64
    )
    radius = 0.8 * float(np.linalg.svd(U @ V.T, compute_uv=False).sum())
    return LeastSquares(pick, b, NuclearBall(n, n, radius), smoothness=1.0)


def matching(n: int = 200, seed: int = 0) -> LeastSquares:
    """Return the projection of a noisy mixture of permutations on the Birkhoff polytope."""
    rng = np.random.default_rng(seed)
    X = sum(w * np.eye(n)[rng.permutation(n)] for w in (0.5, 0.3, 0.2))
    b = (X + 0.02 * rng.standard_normal((n, n))).ravel()
    one = sla.LinearOperator((n * n, n * n), matvec=np.ravel, rmatvec=np.ravel, dtype=np.float64)
    return LeastSquares(one, b, Birkhoff(n), smoothness=1.0)


def main() -> None:
    """Print a table of certified gaps."""
    print("| problem | method | value | certified gap | relative gap | iterations | seconds |")
    print("|---|---" + "|---:" * 5 + "|")
    runs = (
        ("completion", completion(), ("fw", "nep-fw", "fcfw", "apg"), 30.0),
        ("Birkhoff", matching(), ("fw", "bpfw", "nep-fw", "nep-fc", "fcfw", "dicg"), 30.0),
    )
    for name, problem, methods, seconds in runs:
        for method in methods:
            r = qpsvm.solve(problem, method, tol=1e-2, max_iter=1000, time_limit=seconds)
            c = r.certificate
            print(
                f"| {name} | `{method}` | {c.upper:.6g} | {c.gap:.2g} | {c.relative_gap:.1e} "
                f"| {r.n_iter} | {r.timings['total']:.1f} |"
            )


if __name__ == "__main__":
    main()
