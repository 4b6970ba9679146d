"""The formulation: a declarative problem with its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.certificate import Certified
from qpsvm.errors import check_vector
from qpsvm.forms import QP
from qpsvm.result import Result


class Recovery(NamedTuple):
    """The answer in the user's terms."""

    x: NDArray[np.float64]
    dual: NDArray[np.float64] | None
    model: Any


class Formulation(ABC):
    """A problem declared by its data; frozen, validated at the door."""

    @abstractmethod
    def as_qp(self) -> QP:
        """Return the canonical form."""

    @abstractmethod
    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the variable, its dual and the model of a certified point."""

    def support(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the points with a positive weight in a canonical x."""
        return np.flatnonzero(x)

    def start(self, qp: QP, x0: Any) -> NDArray[np.float64]:
        """Return a starting point of the canonical form from an earlier result or an array."""
        x0 = x0.x if isinstance(x0, Result) else x0
        return check_vector("x0", x0, qp.m)

    def carried(self, earlier: Formulation, result: Result) -> Any:
        """Return a start from the answer to `earlier`: this problem under another parameter."""
        return result


class WeightedFormulation(Formulation):
    """A formulation whose points of weight zero are left out and come back with weight 0."""

    @property
    @abstractmethod
    def kept(self) -> NDArray[np.int64]:
        """Indices of the points that take part."""

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Number of points given."""

    def start(self, qp: QP, x0: Any) -> NDArray[np.float64]:
        """Return the weights of the points that take part."""
        x0 = x0.x if isinstance(x0, Result) else x0
        return check_vector("x0", x0, self.n_points)[self.kept]

    def support(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices, among all points given, of those with a positive weight."""
        return self.kept[np.flatnonzero(x)]

    def spread(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of all points: those of the kept ones, 0 elsewhere."""
        full = np.zeros(self.n_points)
        full[self.kept] = x
        return full
