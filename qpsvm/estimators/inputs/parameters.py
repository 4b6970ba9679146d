"""Allowed values of constructor parameters, and the errors that name them in scikit-learn's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from qpsvm.errors import InputError


class Allowed(NamedTuple):
    """One kind of allowed values: its description and its test."""

    text: str
    holds: Callable[[Any], bool]


def number(
    low: float, high: float = math.inf, ends: str = "[)", *, integer: bool = False
) -> Allowed:
    """Allow numbers of an interval; `ends` are its brackets."""

    def holds(value: Any) -> bool:
        kind = Integral if integer else Real
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
            return False
        x: Any = value
        above = x >= low if ends[0] == "[" else x > low
        return bool(above and (x <= high if ends[1] == "]" else x < high))

    shown = (int(x) if integer and math.isfinite(x) else float(x) for x in (low, high))
    text = ", ".join(str(x) for x in shown)
    return Allowed(
        f"{'an int' if integer else 'a float'} in the range {ends[0]}{text}{ends[1]}", holds
    )


def among(*names: str) -> Allowed:
    """Allow some strings."""
    text = ", ".join(repr(name) for name in sorted(names))
    return Allowed(
        f"a str among {{{text}}}", lambda value: isinstance(value, str) and value in names
    )


def instance(kind: type | tuple[type, ...], text: str) -> Allowed:
    """Allow instances of a type."""
    return Allowed(text, lambda value: isinstance(value, kind))


NO_VALUE = Allowed("None", lambda value: value is None)
"""None itself."""

ANY_CALLABLE = Allowed("a callable", callable)
"""Functions, and what is called as one."""

TRUE_OR_FALSE = instance((bool, np.bool_), "an instance of 'bool'")
"""True and False."""

RANDOM_STATES = (
    number(0, 2**32 - 1, "[]", integer=True),
    instance(np.random.RandomState, "an instance of 'numpy.random.mtrand.RandomState'"),
    NO_VALUE,
)
"""What scikit-learn takes as `random_state`."""

Rules = dict[str, tuple[Allowed, ...]]

SOLVER_RULES: Rules = {
    "tol": (number(0.0, 1.0, "(]"),),
    "max_iter": (number(-1, integer=True),),
    "verbose": (number(0, integer=True), TRUE_OR_FALSE, among("table")),
    "random_state": RANDOM_STATES,
    "cache_size": (number(0.0, ends="()"),),
    "method": (instance(str, "an instance of 'str'"),),
    "time_limit": (number(0.0), NO_VALUE),
    "n_jobs": (instance(Integral, "an instance of 'int'"), NO_VALUE),
    "warm_start": (TRUE_OR_FALSE,),
    "callback": (ANY_CALLABLE, NO_VALUE),
}
"""Parameters that all estimators hand on to the solver."""

KERNEL_RULES: Rules = {
    "kernel": (
        among("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"),
        ANY_CALLABLE,
    ),
    "degree": (number(1, integer=True),),
    "gamma": (among("scale", "auto"), number(0.0, ends="()")),
    "coef0": (number(-math.inf, ends="()"),),
}
"""Parameters of the kernel."""

CLASS_RULES: Rules = {
    "C": (number(0.0, ends="(]"),),
    "class_weight": (among("balanced"), instance(dict, "an instance of 'dict'"), NO_VALUE),
}
"""The penalty, and its factors by class."""

SHAPE_RULES: Rules = {
    "multi_class": (among("ovo", "ovr", "dag"),),
    "decision_function_shape": (among("ovo", "ovr"),),
    "break_ties": (TRUE_OR_FALSE,),
}
"""How binary machines are combined."""


def check_parameters(estimator: Any, rules: Rules) -> None:
    """Raise InputError for the first parameter that no rule allows."""
    for name, allowed in rules.items():
        value = getattr(estimator, name)
        if any(one.holds(value) for one in allowed):
            continue
        texts = [one.text for one in allowed]
        choices = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
        raise InputError(
            f"The {name!r} parameter of {type(estimator).__name__} must be {choices}. "
            f"Got {value!r} instead."
        )
