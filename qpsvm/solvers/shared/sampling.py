"""What methods on samples share: their settings, the samples, and when these have seen enough.

Frandi et al., section 5.2.3: instead of the best of all m points a step takes the best of a few drawn at
random; 59 draws hold one of the best 5 per cent with probability 0.95 (their Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import Solver

SAMPLED_PERIOD = 5000
"""Steps between two checks: one with confirmation evaluates the gradient at all points."""

SAMPLES_PER_STEP = 8
"""Samples without a way down after which there is none; samples within the goal after which it is met."""


@dataclass(frozen=True)
class OnSamples(Solver):
    """A method that may take the best of a sample in place of the best of all points.

    Parameters
    ----------
    sampling : int or None
        Points drawn at random in place of all points, 59 in the paper.
    confirm : bool
        With `sampling`: whether the gradient at all points is evaluated before it ends. False stops on
        the samples alone, as the paper does; the answer then has the status SAMPLED and no lower bound.
    target : float, optional
        With `sampling`: relative gap that is asked for; the tolerance of the solve by default. Eight
        samples in a row that see no more than half of it end a round of steps.
    """

    sampling: int | None = None
    confirm: bool = True
    target: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.sampling is not None:
            check_number("sampling", self.sampling, low=1, integer=True)
        check_choice("confirm", self.confirm, (True, False) if self.sampling else (True,))
        if self.target is not None:
            check_number("target", self.target, low=0.0)

    @property
    def goal(self) -> float:
        """Relative gap over samples at which it is worth while to look at all points."""
        return self.check_threshold * (self.target or 0.0)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver whose samples seek this gap."""
        known = self.sampling is None or self.target is not None
        return self if known else replace(self, target=tol)

    def low_precision(self, problem: Any) -> bool:
        """Return whether steps are on samples: kernel values in float32 take half of the memory."""
        return self.sampling is not None

    def on_one_thread(self, problem: Any) -> tuple[bool, bool]:
        """Return true for numpy on samples: their blocks of kernel values are small."""
        return False, self.sampling is not None

    @property
    def uses_full_gap(self) -> bool:  # type: ignore[override]
        """Whether all points are looked at before it ends."""
        return self.confirm

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the number of the next check; on samples a multiple of the period from the start."""
        if self.sampling is None:
            return super().next_check(n_iter, period)
        return (n_iter // period + 1) * period


class Draws:
    """Samples of an equal share of each simplex, from a generator of their own.

    Attributes
    ----------
    size : int
        Points of a sample: as many as asked for, or a few more, where the shares round up.
    """

    def __init__(self, domain: SimplexProduct, size: int, rng: np.random.Generator) -> None:
        self._members, self._rng = domain.members, rng
        self._share = -(-size // domain.n_groups)
        self.size = self._share * domain.n_groups

    def draw(self, n_samples: int) -> NDArray[np.int64]:
        """Return points, sample after sample, shape (n_samples * size,)."""
        shape = n_samples, self._share
        parts = [of[self._rng.integers(len(of), size=shape)] for of in self._members]
        return np.hstack(parts).reshape(-1)

    def worst(self, f: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the points of least gradient f, a share of each simplex: those that descend."""
        found = []
        for of in self._members:
            below = of[f[of] < float(f[of] @ x[of])]
            if len(below) > self._share:
                below = below[np.argpartition(f[below], self._share)[: self._share]]
            found.append(below)
        return np.sort(np.concatenate(found))
