"""Without numba's compiler the same text gives the same answers."""

from __future__ import annotations

import json

import qpsvm
from problems import INSTANCES
from qpsvm.solvers.methods import METHODS

SMALL_INSTANCES = (
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
    "one_class/ruler",
    "svdd/line-all-at-bounds",
)


def answers():
    """Return the status and the bounds of each small instance by each method that fits."""
    found = {}
    for name in SMALL_INSTANCES:
        problem = INSTANCES[name].declare()
        for method in qpsvm.methods(problem):
            r = qpsvm.solve(problem, method, tol=METHODS[method].gap, max_iter=3000)
            found[f"{name} {method}"] = r.status.name, r.certificate.lower, r.certificate.upper
    return found


def test_same_answers(fresh_process):
    code = "import json; from tests.solve.test_nojit import answers; print(json.dumps(answers()))"
    plain = json.loads(fresh_process(code, NUMBA_DISABLE_JIT="1"))
    compiled = answers()
    assert compiled.keys() == plain.keys() and {key.split()[0] for key in plain} == set(
        SMALL_INSTANCES
    )
    for case, (status, lower, upper) in compiled.items():
        other_status, other_lower, other_upper = plain[case]
        assert status == other_status, case
        rounding = 1e-15 * max(1.0, abs(lower), abs(upper))
        assert max(lower, other_lower) <= min(upper, other_upper) + rounding, case
