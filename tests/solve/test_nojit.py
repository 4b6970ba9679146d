"""Without numba's compiler the same text gives the same answers."""

from __future__ import annotations

import json

import numpy as np

import qpsvm
from problems import INSTANCES
from qpsvm.gram.engine.formula import Exponential, Identity, Power, Tangent
from qpsvm.gram.engine.sweep import map_block
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


def mapped_values():
    """Return a block of products after each map, in either precision."""
    products, terms = np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.linspace(-0.5, 0.0, 4)
    found = []
    for kernel_map in (Exponential(), Tangent(), Power(3), Identity()):
        for dtype in (np.float32, np.float64):
            K = products.astype(dtype)
            map_block(K, 0.5, kernel_map, terms[:3], terms)
            found.append(K.tolist())
    return found


def test_same_values_of_maps(fresh_process):
    code = (
        "import json; from tests.solve.test_nojit import mapped_values as m; print(json.dumps(m()))"
    )
    plain = json.loads(fresh_process(code, NUMBA_DISABLE_JIT="1"))
    np.testing.assert_allclose(plain, mapped_values(), atol=1e-6)


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
