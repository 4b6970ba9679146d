"""Jung, O'Leary and Tits: the sets of section 5.1, table 5.1 and figure 5.5.

Table 5.1 counts the support vectors at the optimum: an on-boundary one lies on the plane of its class, to
`PLANE_TOLERANCE` of its margin, and an off-boundary one beyond it. Of equal points on a plane some
may have no weight, and the paper's interior point method gives each a share of it: points are
counted by their margin. Figure 5.5 has rows and mu in each iteration of the printed form.

The normalization is (5.2). Letter has all 20,000 points with the attributes 0 to 15 as published, A
against the rest; waveform has 40 attributes, the first class against the rest; mushrooms have their 22
attributes numbered in alphabetical order; of isolet 1,560 points are at hand, the last letter against
the rest.
"""

from __future__ import annotations

from unittest import mock

import numpy as np

from docs.benchmarks.make.linear_svm import attributes
from docs.papers.make.runs import Case
from problems.clouds import two_clouds
from qpsvm import HingePrimal, solve
from qpsvm.data import load_libsvm
from qpsvm.errors import InputError
from qpsvm.solvers.interior_point import crsvm
from qpsvm.solvers.methods import METHODS

PAGE_TITLE = "Support vectors, and rows along a run"
GAP_TOLERANCE, PLANE_TOLERANCE = 1e-9, 1e-6
RUN_SHARES = (1.0, 0.8, 0.6, 0.4)
"""Values of q_U of figure 5.5, as shares of the points."""

LETTER_FILES = ("letter.scale", "letter.scale.t")
LETTER_UNIT = 7.5
"""The published attributes 0 to 15 are 7.5 (x + 1)."""

MAX_ITERATIONS = 200


def cases(quick: bool = False) -> list[Case]:
    """Return the sets of the table, and sets with their q_U of the figure."""
    if quick:
        return [
            {"item": "table 5.1", "set": "drawn"},
            {"item": "figure 5.5", "set": "drawn", "share": 1.0},
        ]
    table = [
        {"item": "table 5.1", "set": name} for name in ("mushrooms", "isolet", "waveform", "letter")
    ]
    return table + [
        {"item": "figure 5.5", "set": name, "share": share}
        for name in ("waveform", "letter")
        for share in (None, *RUN_SHARES)
    ]


def second_order(X: np.ndarray) -> np.ndarray:
    """Return the features of (x'z + 1)^2 but the constant one, (5.1)."""
    i, j = np.triu_indices(X.shape[1], 1)
    root = np.sqrt(2.0)
    return np.hstack([X**2, root * X[:, i] * X[:, j], root * X])


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return points, normalized by (5.2), and labels."""
    if name == "drawn":
        return two_clouds(400, 4, seed=1, distance=2.0)
    if name == "mushrooms":
        try:
            X, y = attributes()
        except (KeyError, FileNotFoundError) as error:
            raise InputError(f"there is no data set {name}: {error}") from None
    elif name == "letter":
        parts = [load_libsvm(file) for file in LETTER_FILES]
        X = np.rint(LETTER_UNIT * (np.vstack([part.toarray() for part, _ in parts]) + 1.0))
        y = np.where(np.concatenate([labels for _, labels in parts]) == 1, 1.0, -1.0)
    else:
        file, label = {"waveform": ("waveform40", 0), "isolet": ("isolet1560", 26)}[name]
        sparse, labels = load_libsvm(file)
        X, y = sparse.toarray(), np.where(labels == label, 1.0, -1.0)
    X = X if name == "isolet" else second_order(X)
    return X / np.abs(X).max(), y


def run(case: Case) -> Case:
    """Return sizes and counts, or rows and mu in each iteration."""
    X, y = data(case["set"])
    return counted(X, y) if case["item"] == "table 5.1" else followed(X, y, case["share"])


def counted(X: np.ndarray, y: np.ndarray) -> Case:
    """Return sizes, and support vectors together, of the positive and of the negative class."""
    result = solve(HingePrimal(X, y), "crsvm", tol=GAP_TOLERANCE)
    margin = y * (X @ result.x[:-1] + result.x[-1])
    on = np.abs(margin - 1.0) <= PLANE_TOLERANCE
    support = margin <= 1.0 + PLANE_TOLERANCE
    return {
        "points": classes(np.ones(len(y), np.bool_), y),
        "features": X.shape[1],
        "support": classes(support, y),
        "on": classes(on, y),
        "gap": float(f"{result.certificate.relative_gap:.1e}"),
    }


def classes(kept: np.ndarray, y: np.ndarray) -> list[int]:
    """Return how many points are marked: all, of the positive and of the negative class."""
    return [int(np.sum(kept & of)) for of in (np.abs(y) > 0, y > 0, y < 0)]


def followed(X: np.ndarray, y: np.ndarray, share: float | None) -> Case:
    """Return the rows of Q and mu before each iteration, as printed; None stands for no reduction."""
    qp = HingePrimal(X, y).as_qp()
    options: Case = (
        {"reduction": None} if share is None else {"q_upper": share, "reduction": "paper"}
    )
    solver = METHODS["crsvm"].maker(qp)(correctors=0, start="paper", sift=False, **options)
    state = solver.init(qp, None, np.random.default_rng(0))
    rows, mu, before = [], [], 0
    with mock.patch.object(crsvm, "ROW_GROWTH", 1.0):  # without the safeguard
        for _ in range(MAX_ITERATIONS):
            interior = state.interior
            mu.append(float(f"{interior.mu:.3g}"))
            if not solver.advance(qp, state, 1).steps:  # the crossover has found the optimum
                break
            rows.append(state.interior.n_rows - before)
            before = state.interior.n_rows
    return {"rows": rows, "mu": mu}


def check(case: Case, found: Case) -> None:
    """Fail where the smallest case has no support vectors, or does not end."""
    if case["item"] == "table 5.1":
        assert found["support"][0] >= found["on"][0] > 0
    else:
        assert found["mu"][-1] < 1e-3 * found["mu"][0] and len(found["rows"]) < MAX_ITERATIONS
