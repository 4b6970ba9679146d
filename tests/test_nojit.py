"""Without numba's compiler the same text gives the same answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import qpsvm
from problems import INSTANCES
from qpsvm.solvers import METHODS

SMALL = (
    "meb/two-points",
    "meb/identical",
    "l2_svm/two-points-hard-margin",
    "l2_svm/both-labels-on-one-point",
    "polytope_distance/boxes-corner-to-corner",
    "polytope_distance/two-points-chi",
    "polytope_distance/boxes-overlapping",
    "hinge/two-points-hard-margin",
    "hinge/all-zero",
    "hinge_primal/two-points",
)


def answers():
    """Return interval, status and x of each small instance by each method that fits."""
    found = {}
    for name in SMALL:
        problem = INSTANCES[name].declare()
        for method in qpsvm.methods(problem):
            r = qpsvm.solve(problem, method, tol=METHODS[method].gap, max_iter=500)
            interval = r.certificate.lower, r.certificate.upper
            found[f"{name} {method}"] = interval, r.status.name, r.x.tolist()
    return found


def test_same_answers(fresh_process):
    code = "import json; from tests.test_nojit import answers; print(json.dumps(answers()))"
    plain = json.loads(fresh_process(code, NUMBA_DISABLE_JIT="1"))
    compiled = answers()
    assert compiled.keys() == plain.keys() and {key.split()[0] for key in plain} == set(SMALL)
    for case, ((lower, upper), status, x) in compiled.items():
        (other_lower, other_upper), other_status, other_x = plain[case]
        assert status == other_status, case
        rounding = 1e-15 * max(abs(lower), abs(upper))
        assert max(lower, other_lower) <= min(upper, other_upper) + rounding, case
        assert x == pytest.approx(np.array(other_x), abs=1e-6), case
