"""The tests of section 5.6 of Frandi et al. on tables of values by data set and method.

    python -m docs.papers.make.statistics       # print the table of docs/papers/frandi.md

Signed ranks keep the zeros when ranks are given and drop them afterwards (Pratt), with exact p-values
over all signs, as the paper says; Friedman's test has the correction of Iman and Davenport.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from docs.papers.make.printed import (
    P_VALUES,
    TABLE_METHODS,
    TEST_ACCURACIES,
    TEST_VALUES,
    TRAINING_SECONDS,
)

METHOD_PAIRS = ("fw, cvm", "mfw, cvm", "fw, mfw")
"""Columns that are compared; the difference is the first less the second."""

N_DIGITS = 10
"""Decimals to which differences are rounded, so that equal ones tie."""


class SignedRanks(NamedTuple):
    """The smaller sum of ranks, and exact probabilities."""

    statistic: float
    less: float
    two_tails: float


def differences(values: np.ndarray, pair: str) -> np.ndarray:
    """Return the differences of two columns."""
    one, other = (TABLE_METHODS.index(name) for name in pair.split(", "))
    return np.round(values[:, one] - values[:, other], N_DIGITS)


def signed_ranks(values: np.ndarray, pair: str) -> SignedRanks:
    """Return Wilcoxon's statistic; its distribution is that of all signs of the ranks."""
    d = differences(values, pair)
    ranks = stats.rankdata(np.abs(d))[d != 0.0]
    doubled = np.rint(2.0 * ranks).astype(int)  # ties have halves
    count = np.zeros(doubled.sum() + 1)
    count[0] = 1.0
    for rank in doubled:
        shifted = count.copy()
        shifted[rank:] += count[: len(count) - rank]
        count = shifted
    share = count / count.sum()
    w = int(doubled[d[d != 0.0] > 0.0].sum())
    less, greater = float(share[: w + 1].sum()), float(share[w:].sum())
    smaller = min(w, int(doubled.sum()) - w) / 2.0
    return SignedRanks(smaller, less, min(1.0, 2.0 * min(less, greater)))


def friedman(values: np.ndarray) -> tuple[float, float]:
    """Return F of the mean ranks and its tail."""
    n, k = values.shape
    mean = stats.rankdata(values, axis=1).mean(axis=0)
    chi = 12.0 * n / (k * (k + 1.0)) * (float(mean @ mean) - k * (k + 1.0) ** 2 / 4.0)
    statistic = (n - 1.0) * chi / (n * (k - 1.0) - chi)
    return statistic, float(stats.f.sf(statistic, k - 1, (k - 1) * (n - 1)))


def sign_test(values: np.ndarray, pair: str) -> tuple[int, int, float]:
    """Return on how many sets the first is less, on how many greater, and the two tails."""
    d = differences(values, pair)
    less, greater = int(np.sum(d < 0.0)), int(np.sum(d > 0.0))
    return less, greater, float(stats.binomtest(less, less + greater).pvalue)


def table() -> str:
    """Return printed and recomputed values in Markdown."""
    lines = [
        "| Values | Compared | statistic, printed | ours | p, printed | ours | signs | sign test p |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for what, source in (("time", TRAINING_SECONDS), ("accuracy", TEST_ACCURACIES)):
        values = np.array(list(source.values()))
        for pair in METHOD_PAIRS:
            found = signed_ranks(values, pair)
            p = found.two_tails if (what, pair) == ("time", "fw, mfw") else found.less
            less, greater, sign = sign_test(values, pair)
            printed = (
                f"{TEST_VALUES[what][pair]:g} | {found.statistic:g} | {P_VALUES[what][pair]:.3e}"
            )
            lines.append(
                f"| {what} | {pair} | {printed} | {p:.3e} | {less}, {greater} | {sign:.1e} |"
            )
        statistic, p = friedman(values)
        printed = f"{TEST_VALUES[what]['all']} | {statistic:.3f} | {P_VALUES[what]['all']:.2e}"
        lines.append(f"| {what} | all three | {printed} | {p:.2e} | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
