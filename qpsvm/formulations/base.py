"""The formulation: a declarative problem with its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified, Form
from qpsvm.canonical.margin import MarginProblem
from qpsvm.canonical.qp import QP
from qpsvm.domains import CappedSimplex
from qpsvm.errors import (
    InputError,
    check_choice,
    check_labels,
    check_penalty,
    check_points,
    check_vector,
)
from qpsvm.expansion import Expansion, Normal, kept_map
from qpsvm.gram import Gram, Linear
from qpsvm.gram.feature_map import Features, PointFeatures, features_of
from qpsvm.gram.translation import bias_of, level_at
from qpsvm.models import Hyperplane
from qpsvm.result import Model, Result


class Recovery(NamedTuple):
    """The answer in the user's terms."""

    x: NDArray[np.float64]
    dual: NDArray[np.float64] | None
    model: Any


def separation(qp: QP, certified: Certified) -> bool | None:
    """Return what the bounds of a squared distance prove: True that it is positive, False that it is 0.

    It is positive where the lower bound is, or where the least margin at w (see `proven_margin`)
    exceeds its roundoff. It is 0 within the roundoff of the data where the upper bound is below the
    certificate's floor; None where neither is proved. With a ridge it is positive.
    """
    bounds = certified.certificate
    if not qp.vanishing or bounds.lower > 0.0 or proven_margin(qp, certified) > 0.0:
        return True
    return False if abs(bounds.upper) <= bounds.floor else None


def proven_margin(qp: QP, certified: Certified) -> float:
    """Return the least margin at w of weights on simplices, rounded down; 0 where none is proved.

    With upper bounds, it is that of the reduced hulls, which points beyond the levels diminish.
    """
    bounds, level = certified.certificate, float(np.sum(certified.multipliers))
    if isinstance(qp.domain, CappedSimplex):
        level = qp.domain.least(certified.product)
    return max(level - bounds.roundoff, 0.0) if np.isfinite(bounds.gap) else 0.0


class Formulation(ABC, Generic[Model]):
    """A problem declared by its data; frozen, its arguments validated.

    `Model` is the type of `Result.model`.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import Formulation, MEBDual
    >>> isinstance(MEBDual(np.eye(2)), Formulation)
    True
    """

    def as_qp(self) -> QP | None:
        """Return the quadratic program, or None where there is none: see `forms`."""
        return None

    def as_margin(self) -> MarginProblem | None:
        """Return the problem in the margins, or None where there is none."""
        return None

    def forms(self) -> list[Form]:
        """Return its canonical forms, at least one: the QP first."""
        return [form for form in (self.as_qp(), self.as_margin()) if form is not None]

    @abstractmethod
    def recover(self, form: Any, certified: Certified) -> Recovery:
        """Return the variable, its dual and the model of a certified point of `form`."""

    def support(self, form: Any, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the points with a weight in a canonical x."""
        return np.flatnonzero(x != 0)

    def start(self, qp: Any, x0: Any) -> NDArray[np.float64]:
        """Return a starting point of the canonical form from an earlier result or an array."""
        x0 = x0.x if isinstance(x0, Result) else x0
        return check_vector("x0", x0, qp.m)

    def ray(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a canonical x as a direction in the declared variable, scaled: see `Result`."""
        raise NotImplementedError(f"{type(self).__name__} is never infeasible")

    def carried(self, earlier: Formulation, result: Result) -> Any:
        """Return a start from the answer to `earlier`, this problem with another parameter value."""
        return result


class WeightedFormulation(Formulation[Model]):
    """A formulation that omits points of penalty 0 from the solve and returns them with weight 0.

    A field C has the penalties; a subclass without it defines `kept` and `n_points`.
    """

    C: Any

    @property
    def kept(self) -> NDArray[np.int64]:
        """Indices of the points in the solve: those with a positive penalty."""
        return np.flatnonzero(self.C > 0)

    @property
    def n_points(self) -> int:
        """Number of points given."""
        return len(self.C)

    def start(self, qp: Any, x0: Any) -> NDArray[np.float64]:
        """Return the weights of the points in the solve."""
        x0 = x0.x if isinstance(x0, Result) else x0
        return check_vector("x0", x0, self.n_points)[self.kept]

    def support(self, form: Any, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices, among all points given, of those with a positive weight."""
        return self.kept[np.flatnonzero(x != 0)]

    def scatter(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of all points: x for the kept ones, 0 elsewhere."""
        if len(x) == self.n_points:
            return x.copy()
        full = np.zeros(self.n_points)
        full[self.kept] = x
        return full


def scaled_weights(
    x: NDArray[np.float64],
    before: NDArray[np.float64],
    now: NDArray[np.float64],
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weights for other upper bounds: at their bounds where they were, others kept, y'x = 0.

    The excess of the heavier side is scaled away. The projection would also give y'x = 0, but make every
    point a support vector.
    """
    full = (x >= before * (1.0 - 1e-9)) & (before > 0)
    x = np.where(full, now, np.minimum(x, now))
    excess = float(y @ x)
    heavy = (y * excess > 0) & (x > 0)  # the heavier side
    free = heavy & (x < now)
    some = free if float(np.sum(x[free])) > abs(excess) else heavy
    if some.any():
        x[some] *= max(1.0 - abs(excess) / float(np.sum(x[some])), 0.0)
    return x


class MarginFormulation(WeightedFormulation[Hyperplane]):
    """A formulation in w and b with a loss of the margins, of points or of a Gram.

    Its fields are X, y, C and bias; a subclass defines the loss and the penalty.
    """

    X: Any
    y: Any
    C: Any
    bias: bool
    loss: ClassVar[str] = "hinge"
    penalty: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        """Validate the arguments."""
        X = self.X if isinstance(self.X, Gram) else check_points("X", self.X)
        gram = X if isinstance(X, Gram) else Linear(X)
        C = check_penalty("C", self.C, gram.m)
        if np.isinf(C).any():
            raise InputError("C must be finite for every point; got infinity")
        check_choice("bias", self.bias, (True, False))
        for name, value in (("X", X), ("C", C), ("y", check_labels("y", self.y, gram.m))):
            object.__setattr__(self, name, value)

    @cached_property
    def gram(self) -> Gram:
        """The Gram that was given, or that of the points."""
        return self.X if isinstance(self.X, Gram) else Linear(self.X)

    def features(self, gram: Gram) -> Features:
        """Return the features that w belongs to, for a Gram of points of this problem."""
        return features_of(gram)

    @property
    def origin(self) -> NDArray[np.float64] | None:
        """Translation of the points in a solve, which the bias absorbs, or None."""
        return self.gram.origin if self.bias else None

    def as_margin(self) -> MarginProblem | None:
        """Return the problem in w and b; with a bias, linear points are centered first."""
        rows, y, C = self.kept, self.y, self.C
        gram = self.gram if self.origin is None else self.gram.centered()
        if len(rows) < gram.m:
            gram, y, C = gram.take(rows), y[rows], C[rows]
        features = self.features(gram)
        return MarginProblem(features, y, C, self.loss, self.penalty, self.bias, origin=self.origin)

    def start(self, form: Any, x0: Any) -> NDArray[np.float64]:
        """Return w, b and weights from an earlier result, or from (w, b) with no weights."""
        features = self.features(self.gram)
        a = np.zeros(self.n_points)
        if isinstance(x0, Result):
            a, x0 = (a if x0.dual is None else x0.dual), x0.x
        w, b = self.primal_point(features, x0)
        if isinstance(features, PointFeatures):
            b = level_at(w, b, self.origin)
        else:
            w = w[self.kept]
        return form.join(w, b, check_vector("x0", a, self.n_points)[self.kept])

    def carried(self, earlier: Formulation, result: Result) -> Any:
        """Return the answer to `earlier`; of a low-rank Gram w is recomputed in its own features."""
        features = self.features(self.gram)
        if not (isinstance(self.X, Gram) and isinstance(features, PointFeatures)):
            return result
        w = features.combine(self.y * result.dual)
        return replace(result, x=np.append(w, result.x[-1]) if self.bias else w)

    def primal_point(self, features: Features, x0: Any) -> tuple[NDArray[np.float64], float]:
        """Return w and b of a starting point given by the user."""
        name = "x0 (w, then b)" if self.bias else "x0 (w)"
        x = check_vector(name, x0, features.n + self.bias)
        return x[: features.n], float(x[-1]) if self.bias else 0.0

    def support(self, form: Any, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the points with a dual weight."""
        return super().support(form, form.split(x).a)

    def recover(self, form: Any, certified: Certified) -> Recovery:
        """Return (w, b) or w, the dual weights and the hyperplane."""
        w, b, a = form.split(certified.x)
        gram = self.gram
        expansion: Expansion | Normal
        if isinstance(form.features, PointFeatures):
            known = kept_map(gram)
            assert known is not None, "a Gram with a factor has features"
            expansion = Normal(known, w.copy())
            b = bias_of(w, b, form.origin)
        else:
            w = self.scatter(w)
            expansion = Expansion.of(gram, w)
        x = np.append(w, b) if self.bias else w.copy()
        return Recovery(x, self.scatter(a), Hyperplane(b, expansion, expansion.vector))
