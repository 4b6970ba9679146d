"""A result as an object: it compares, hashes, prints on one screen, and its model has a type."""

from __future__ import annotations

import pickle
import textwrap
import typing

import numpy as np
import pytest

from qpsvm import formulations, solve
from qpsvm.cli.upkeep import examples
from qpsvm.formulations import Formulation
from qpsvm.result import Certificate, History, Result

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 40))
Y = np.sign(X[:, 0])
PROBLEM_CASES = {name: problems[-1] for name, problems in examples().items()}
EXPORTED_NAMES = [name for name in formulations.__all__ if name != "Formulation"]


@pytest.fixture(scope="module")
def result():
    return solve(formulations.HingeDual(X @ X.T, Y), "smo", tol=1e-6)


@pytest.mark.parametrize("part", ["whole", "history", "certificate"])
def test_compares_and_hashes(part, result):
    again = pickle.loads(pickle.dumps(result))
    one, other = (r if part == "whole" else getattr(r, part) for r in (result, again))
    assert one == one and hash(one) == hash(one)
    assert (one == other) is (part == "certificate")
    assert len({one, one, other}) == (1 if part == "certificate" else 2)
    assert one != 3


@pytest.mark.parametrize("name", EXPORTED_NAMES)
def test_repr_is_one_screen_and_names_every_field(name, result):
    found = result if name == "HingeDual" else solve(PROBLEM_CASES[name])
    said = repr(found)
    lines = [part for line in said.splitlines() for part in textwrap.wrap(line, 100) or [""]]
    assert len(lines) <= 24 and len(said) <= 2400
    for field in typing.get_type_hints(Result):
        assert f"    {field}=" in said
    assert "array([" not in said


def test_repr_of_a_history_is_short(result):
    assert repr(result.history) == f"<History of {len(result.history):,} checks>"


def test_a_bound_that_is_no_number_is_infinite():
    nan = float("nan")
    found = Certificate(nan, nan, nan, 0.0, nan, 0.0, 1e-3, "none")
    assert (found.upper, found.lower, found.gap, found.roundoff) == (
        np.inf,
        -np.inf,
        np.inf,
        np.inf,
    )
    assert not found.passed and found.relative_gap == np.inf


def model_type(kind):
    """Return what a class of formulations says of its model, through its bases."""
    for base in getattr(kind, "__orig_bases__", ()):
        origin, arguments = typing.get_origin(base), typing.get_args(base)
        if origin and issubclass(origin, Formulation) and isinstance(arguments[0], type):
            return arguments[0]
    return next(filter(None, map(model_type, kind.__bases__)), None)


@pytest.mark.parametrize("name", EXPORTED_NAMES)
def test_model_has_the_type_that_the_formulation_declares(name):
    declared = model_type(getattr(formulations, name))
    assert declared is not None and type(solve(PROBLEM_CASES[name]).model) is declared


def test_model_is_typed_by_the_formulation():
    model = typing.get_type_hints(Result)["model"]
    assert isinstance(model, typing.TypeVar)
    given, returned = (typing.get_type_hints(solve)[key] for key in ("problem", "return"))
    assert typing.get_args(given) == typing.get_args(returned) == (model,)
    assert typing.get_type_hints(Result)["history"] is History
