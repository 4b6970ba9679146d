"""The L1-hinge SVM with a free bias or without: its dual and its primal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.canonical.base import Certified, centering_noise
from qpsvm.canonical.margin import MarginProblem
from qpsvm.canonical.primal_point import HingePoint
from qpsvm.canonical.qp import QP
from qpsvm.domains import BoxHyperplane, PenaltyBox
from qpsvm.errors import InputError, check_choice, check_labels, check_penalty
from qpsvm.expansion import Expansion
from qpsvm.formulations.base import (
    Formulation,
    MarginFormulation,
    Recovery,
    WeightedFormulation,
    scaled_weights,
)
from qpsvm.gram import Gram, Linear, SignedGram, as_gram
from qpsvm.gram.feature_map import features_of
from qpsvm.gram.translation import level_at
from qpsvm.models import Hyperplane
from qpsvm.result import Result


def _check_uniform(C: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = C[C > 0]
    if np.isinf(positive).any() and not np.isinf(positive).all():
        raise InputError("C must be infinite for every point or for none; got a mixture")
    return C


@dataclass(frozen=True, eq=False)
class HingeDual(WeightedFormulation[Hyperplane]):
    r"""Minimize :math:`\tfrac12 a'Qa - \sum_i a_i`, :math:`0 \le a_i \le C_i`, :math:`y'a = 0`.

    .. math:: Q_{ij} = y_i y_j k_{ij}

    It is the dual of: minimize 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b)), whose
    optimal value is the negative of this one.

    Parameters
    ----------
    K : Gram or array_like of shape (m, m)
    y : array_like of shape (m,)
        Labels -1 and +1. With one class alone a = 0 is the answer.
    C : float or array_like of shape (m,)
        Penalty, > 0; infinite for every point (hard margin) or for none. Per point, 0 omits the
        point. A hard margin without a separating hyperplane ends as ``Status.INFEASIBLE``, with the proof
        in ``Result.direction``.
    bias : bool
        Whether the hyperplane has a bias; without one b = 0 and there is no constraint y'a = 0.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Examples
    --------
    >>> from qpsvm import HingeDual, Linear, solve
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]], [-1, -1, 1, 1]
    >>> model = solve(HingeDual(Linear(X), y, C=10.0), tol=1e-6).model
    >>> model.predict([[1.5, 1.0], [2.5, 1.0]]).tolist()
    [-1.0, 1.0]
    """

    K: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the arguments."""
        K = as_gram(self.K)
        object.__setattr__(self, "K", K)
        object.__setattr__(self, "y", check_labels("y", self.y, K.m))
        object.__setattr__(self, "C", _check_uniform(check_penalty("C", self.C, K.m)))
        check_choice("bias", self.bias, (True, False))

    def as_qp(self) -> QP:
        """Return the QP on the box, with a hyperplane where there is a bias.

        Linear points are centered first where a bias absorbs the translation.
        """
        rows = self.kept
        gram: Gram = self.K.centered() if self.bias else self.K
        y, C = self.y, self.C
        if len(rows) < gram.m:
            gram, y, C = gram.take(rows), y[rows], C[rows]
        domain = BoxHyperplane(C, y) if self.bias else PenaltyBox(C)
        noise = centering_noise(self.K) if self.bias else 0.0
        signed = SignedGram(gram, y, np.zeros(len(y)))
        primal = HingePoint(self.K.origin if self.bias else None)
        return QP(signed, -np.ones(len(y)), domain, noise=noise, primal=primal)

    def carried(self, earlier: Formulation, result: Result) -> Any:
        """Return weights at their bounds where they were, the others kept or scaled to y'a = 0."""
        assert isinstance(earlier, HingeDual)
        if np.isinf(self.C).any() or np.isinf(earlier.C).any():
            return result
        return scaled_weights(result.x, earlier.C, self.C, self.y)

    def ray(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights as convex combinations: of each class, or without bias of all points."""
        return self.scatter(x * ((2.0 if self.bias else 1.0) / float(np.sum(x))))

    def hyperplane(self, qp: QP, certified: Certified) -> Hyperplane:
        """Return w = sum a_i y_i phi(x_i) with its exact best bias.

        The pair is scaled up until every margin is at least 1 where that gives the better bound; with
        infinite C it always is.
        """
        bias, blow_up = certified.multipliers
        separable: bool | None = bool(np.isfinite(blow_up))
        if not separable and not qp.refuted(certified.x, certified.product):
            separable = None
        signed = self.scatter(qp.gram.sign * certified.x) * (blow_up if separable else 1.0)
        point = certified.primal or qp.primal_point(certified.x, certified.multipliers)
        if point is None:  # w is given by its coefficients
            expansion, b = Expansion.of(self.K, signed), float(bias)
        else:
            expansion, b = Expansion.of(self.K, signed, point.w), point.b
        return Hyperplane(b if self.bias else 0.0, expansion, expansion.vector, separable)

    def recover(self, qp: QP, certified: Certified) -> Recovery:
        """Return the weights, the bias if there is one, and the hyperplane."""
        model = self.hyperplane(qp, certified)
        multipliers = np.array([model.b] if self.bias else [])
        return Recovery(self.scatter(certified.x), multipliers, model)


@dataclass(frozen=True, eq=False)
class HingePrimal(MarginFormulation):
    r"""Minimize :math:`\tfrac12 |w|^2 + \sum_i C_i \max(0, 1 - y_i (x_i'w + b))` over w and b.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (m, d), or Gram
        Points, float32 or float64; kept by reference and never written. Or a Gram of m points in
        their place: w then is sum c_j phi(x_j), represented by c.
    y : array_like of shape (m,)
        Labels -1 and +1.
    C : float or array_like of shape (m,)
        Penalty, as in `HingeDual`.
    bias : bool
        Whether there is a b; otherwise it is 0.

    Raises
    ------
    InputError
        If an argument is malformed; the message names it.

    Notes
    -----
    The variable x of the answer is w followed by b, shape (d + 1,), without bias w alone; its dual
    holds the weights a, shape (m,), with w = sum a_i y_i x_i. Of a Gram, c of shape (m,) represents
    w; of one with a factor, such as `LowRank`, w is in the space of the factor's rows.

    Examples
    --------
    >>> from qpsvm import HingePrimal, solve
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]], [-1, -1, 1, 1]
    >>> solve(HingePrimal(X, y, C=10.0), tol=1e-8).model.w.round(3).tolist()
    [1.0, 0.0]
    """

    X: Any
    y: Any
    C: Any = 1.0
    bias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the arguments."""
        gram = self.X if isinstance(self.X, Gram) else Linear(self.X)
        X = self.X if isinstance(self.X, Gram) else gram.factor()
        dual = HingeDual(gram, self.y, self.C, bias=self.bias)
        for name, value in (("X", X), ("y", dual.y), ("C", dual.C), ("_dual", dual)):
            object.__setattr__(self, name, value)

    def as_qp(self) -> QP:
        """Return the dual QP, its value negated."""
        return replace(self._dual.as_qp(), negated=True)  # type: ignore[attr-defined]

    def as_margin(self) -> MarginProblem | None:
        """Return the problem in w and b; there is none with infinite C."""
        return None if np.isinf(self.C).any() else super().as_margin()

    def start(self, form: Any, x0: Any) -> NDArray[np.float64]:
        """Return dual weights from an earlier result, or from (w, b): C_i where the margin is < 1."""
        if isinstance(form, MarginProblem):
            return super().start(form, x0)
        dual: HingeDual = self._dual  # type: ignore[attr-defined]
        if isinstance(x0, Result):
            return dual.start(form, x0.dual)
        gram = self.gram if self.origin is None else self.gram.centered()
        features = features_of(gram)
        w, b = self.primal_point(features, x0)
        if self.origin is not None:
            b = level_at(w, b, self.origin)
        margin = dual.y * (features.values(w) + b)
        return dual.start(form, np.where(margin < 1, np.where(np.isinf(dual.C), 1.0, dual.C), 0.0))

    def ray(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of the dual as convex combinations."""
        return self._dual.ray(x)  # type: ignore[attr-defined]

    def support(self, form: Any, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the support vectors."""
        if isinstance(form, MarginProblem):
            return super().support(form, x)
        return self._dual.support(form, x)  # type: ignore[attr-defined]

    def recover(self, form: Any, certified: Certified) -> Recovery:
        """Return (w, b) or w, the dual weights and the hyperplane."""
        if isinstance(form, MarginProblem):
            return super().recover(form, certified)
        dual: HingeDual = self._dual  # type: ignore[attr-defined]
        model = dual.hyperplane(form, certified)
        assert isinstance(model.expansion, Expansion)
        w = model.expansion.features
        if w is None:
            w = np.zeros(self.n_points)
            w[model.expansion.indices] = model.expansion.coef
        x = np.append(w, model.b) if self.bias else w
        return Recovery(x, dual.scatter(certified.x), model)
