"""Methods on random samples of the points: settings, draws, stopping.

Frandi et al., section 5.2.3: a step takes the best of a few points drawn at random instead of the best of
all m points; 59 draws contain one of the best 5 per cent with probability 0.95 (their Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qpsvm.domains import SimplexProduct
from qpsvm.errors import check_choice, check_number
from qpsvm.solvers.base import WithTargetGap

SAMPLED_PERIOD = 5000
"""Number of steps between two checks; a check with confirmation evaluates the gradient at all points."""

SAMPLES_PER_STEP = 8
"""Number of samples without a descent direction, or within the goal, that end a round of steps."""


@dataclass(frozen=True)
class OnSamples(WithTargetGap):
    """A method that may take the best of a sample instead of the best of all points.

    Parameters
    ----------
    sampling : int or None
        Number of points drawn at random instead of all points, 59 in the paper.
    confirm : bool
        With `sampling`: whether the gradient at all points is evaluated before the method stops. False
        stops on the samples alone, as the paper does; the result then has the status SAMPLED and no
        lower bound.
    target : float, optional
        With `sampling`: target relative gap, by default the tolerance of the solve. Eight consecutive
        samples with at most half of it end a round of steps.
    """

    sampling: int | None = None
    confirm: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if self.sampling is not None:
            check_number("sampling", self.sampling, low=1, integer=True)
        check_choice("confirm", self.confirm, (True, False) if self.sampling else (True,))

    @property
    def goal(self) -> float:
        """Relative gap over samples at which all points are worth evaluating."""
        return self.check_threshold * (self.target or 0.0)

    def for_tolerance(self, tol: float) -> Self:
        """Return the solver whose samples target this gap."""
        return self if self.sampling is None else super().for_tolerance(tol)

    def low_precision(self, problem: Any) -> bool:
        """Return whether steps use samples: kernel values in float32 take half the memory."""
        return self.sampling is not None

    def on_one_thread(self, problem: Any) -> tuple[bool, bool]:
        """Return true for numpy with samples, whose blocks of kernel values are small."""
        return False, self.sampling is not None

    @property
    def uses_full_gap(self) -> bool:  # type: ignore[override]
        """Whether all points are evaluated before the method stops."""
        return self.confirm

    def next_check(self, n_iter: int, period: int) -> int:
        """Return the number of the next check; with samples always a multiple of the period."""
        if self.sampling is None:
            return super().next_check(n_iter, period)
        return (n_iter // period + 1) * period


class Draws:
    """Random samples with an equal share of each simplex, from their own generator.

    Attributes
    ----------
    size : int
        Points of a sample: the number asked for, with the shares rounded up.
    """

    def __init__(self, domain: SimplexProduct, size: int, rng: np.random.Generator) -> None:
        self._members, self._rng = domain.members, rng
        self._share = -(-size // domain.n_groups)
        self.size = self._share * domain.n_groups

    def draw(self, n_samples: int) -> NDArray[np.int64]:
        """Return the points of the samples, one after the other, shape (n_samples * size,)."""
        shape = n_samples, self._share
        parts = [of[self._rng.integers(len(of), size=shape)] for of in self._members]
        return np.hstack(parts).reshape(-1)

    def worst(self, f: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the descent points of least gradient f, at most a share of each simplex."""
        found = []
        for of in self._members:
            below = of[f[of] < float(f[of] @ x[of])]
            if len(below) > self._share:
                below = below[np.argpartition(f[below], self._share)[: self._share]]
            found.append(below)
        return np.sort(np.concatenate(found))
