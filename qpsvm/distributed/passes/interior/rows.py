"""Row states of an interior point of the hinge machine, and their part of its steps.

A row has a weight alpha, its distance u = C - alpha from the upper bound, a slack s of its margin, and a
hinge loss xi, all positive. With h = w'z + b the residual of its constraint is rs = y h + xi - 1 - s. For
targets s alpha + e -> 0 and xi u + f -> 0 a step (dw, db) with dh = z'dw + db eliminates to

    rO = rs + s - xi + e / alpha - f / u,    d = 1 / (s / alpha + xi / u),    dalpha = -d (rO + y dh),
    ds = -s - (e + s dalpha) / alpha,        dxi = -xi - (f - xi dalpha) / u,    du = -dalpha.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class RowStates(NamedTuple):
    """Positive variables of rows, or changes of them; each of shape (n,)."""

    alpha: Vector
    u: Vector
    s: Vector
    xi: Vector

    def at(self, rows: slice) -> RowStates:
        """Return views of some rows."""
        return RowStates(*[values[rows] for values in self])

    @property
    def elimination(self) -> Vector:
        """The weights d of the rows in the normal matrix."""
        return np.asarray(1.0 / (self.s / self.alpha + self.xi / self.u))

    @property
    def complementarity(self) -> float:
        """Return s'alpha + xi'u."""
        return float(self.s @ self.alpha + self.xi @ self.u)

    def residual(self, y: Vector, h: Vector) -> Vector:
        """Return rs + s - xi, the part of rO without targets: s and xi cancel against those of rs."""
        return np.asarray(y * h - 1.0)

    def targets(self, e: Vector | float, f: Vector | float) -> Vector:
        """Return the part of rO of the targets."""
        return np.asarray(e / self.alpha - f / self.u)

    def step(self, y: Vector, h: Vector, dh: Vector, e: Vector, f: Vector) -> RowStates:
        """Return the changes of the variables by a step."""
        eliminated = self.residual(y, h) + self.targets(e, f)
        dalpha = -self.elimination * (eliminated + y * dh)
        ds = -self.s - (e + self.s * dalpha) / self.alpha
        dxi = -self.xi - (f - self.xi * dalpha) / self.u
        return RowStates(dalpha, -dalpha, ds, dxi)

    def longest_step(self, change: RowStates) -> float:
        """Return the length of a step at which the first variable becomes 0; infinite where none does."""
        longest = np.inf
        for values, moves in zip(self, change, strict=True):
            falls = moves < 0.0
            if np.any(falls):
                longest = min(longest, float(np.min(values[falls] / -moves[falls])))
        return longest

    def move(self, change: RowStates, length: float) -> None:
        """Move all variables."""
        for values, moves in zip(self, change, strict=True):
            values += length * moves


def warm_states(C: Vector, q: Vector, width: float) -> RowStates:
    """Return states without residual at q = 1 - y h; the products s alpha and xi u of a row are equal."""
    xi = np.maximum(q, 0.0) + width
    s = np.maximum(-q, 0.0) + width
    alpha = C * (xi / (s + xi))
    return RowStates(alpha, C * (s / (s + xi)), s, xi)
