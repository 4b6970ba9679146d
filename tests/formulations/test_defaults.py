"""Default values of formulations, and that their objects are constants compared by identity."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import qpsvm
from qpsvm.domains import hypercube, simplex
from tests.formulations.points import TARGET_VALUES, X, Y

MACHINE_DEFAULTS = {"C": 1.0, "bias": True}
DEFAULTS_OF_CLASS = {
    "HingeDual": MACHINE_DEFAULTS,
    "HingePrimal": MACHINE_DEFAULTS,
    "L2SVMDual": MACHINE_DEFAULTS,
    "LPSVMPrimal": MACHINE_DEFAULTS,
    "LSSVMPrimal": MACHINE_DEFAULTS,
    "SVRDual": {"C": 1.0, "epsilon": 0.1, "bias": True},
    "L2SVRDual": {"C": 1.0, "epsilon": 0.1, "bias": True},
    "NuSVRDual": {"C": 1.0, "nu": 0.5},
    "NuSVCDual": {"nu": 0.5, "sample_weight": None},
    "OneClassDual": {"nu": 0.5, "sample_weight": None},
    "PolytopeDistanceDual": {"chi": None},
    "SVDDDual": {"C": 1.0},
    "MEBDual": {},
    "LeastSquares": {"smoothness": None},
    "QuadraticProgram": {"smoothness": None},
    "SmoothProgram": {"sample": None, "precision": 1e-13},
}
every_class = pytest.mark.parametrize("name", DEFAULTS_OF_CLASS)


def declared(name):
    """Return a problem with the defaults of its class."""
    kind, K = getattr(qpsvm, name), qpsvm.Linear(X)
    if name == "LeastSquares":
        return kind(np.eye(3), np.ones(3), hypercube(3))
    if name == "QuadraticProgram":
        return kind(np.eye(3), np.ones(3), simplex(3))
    if name == "SmoothProgram":
        return kind(lambda x: float(x @ x), lambda x: 2.0 * x, simplex(3), 2.0)
    if "SVR" in name:
        return kind(K, TARGET_VALUES)
    if name in ("OneClassDual", "MEBDual", "SVDDDual"):
        return kind(K)
    return kind(X if "Primal" in name else K, Y)


@every_class
def test_defaults_are_those_that_the_documentation_states(name):
    parameters = inspect.signature(getattr(qpsvm, name)).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert defaults == DEFAULTS_OF_CLASS[name]
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == [
        key for key in defaults if key == "bias"
    ]


@every_class
def test_a_problem_is_constant_and_compared_by_identity(name):
    problem, other = declared(name), declared(name)
    assert problem == problem and problem != other
    assert len({problem, other, problem}) == 2
    field = next(iter(inspect.signature(type(problem)).parameters))
    with pytest.raises(FrozenInstanceError):
        setattr(problem, field, None)
