"""Cold start: what a fresh process waits for before its first answer."""

from __future__ import annotations

import subprocess
import sys

FIRST_SOLVE = "qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), 'mfw')"
FIRST_MACHINE = "qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X), numpy.sign(X[:, 0])))"
SETUP_CODE = "import numpy, qpsvm; X = numpy.random.default_rng(0).standard_normal(({}, 3))"
POINT_COUNTS = 100, 3000
"""Points; of the machines the first is solved by `smo` and the second by `decomposition`."""
EMPTY_CACHE = "import os, tempfile; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp()"


class ColdStart:
    """Seconds in a fresh process; the interpreter's own start is not counted."""

    number = 1
    timeout = 120

    params = POINT_COUNTS
    param_names = ["points"]

    def setup(self, m):
        # fill the cache, in a process of its own as all that is measured here
        for first in (FIRST_SOLVE, FIRST_MACHINE):
            subprocess.run([sys.executable, "-c", f"{SETUP_CODE.format(m)}; {first}"], check=True)

    def timeraw_import(self, m):
        return "import qpsvm"

    def timeraw_first_solve_cached(self, m):
        return FIRST_SOLVE, SETUP_CODE.format(m)

    def timeraw_first_solve_uncached(self, m):
        return FIRST_SOLVE, f"{EMPTY_CACHE}; {SETUP_CODE.format(m)}"

    def timeraw_first_machine_cached(self, m):
        return FIRST_MACHINE, SETUP_CODE.format(m)

    def timeraw_first_machine_uncached(self, m):
        return FIRST_MACHINE, f"{EMPTY_CACHE}; {SETUP_CODE.format(m)}"


BEFORE_PROBLEM = """
import numpy, qpsvm
rng = numpy.random.default_rng(0)
X = rng.standard_normal(({}, 10))
y = numpy.where(X[:, 0] + 0.3 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
"""
PROBLEM_CASES = {
    "hinge-rbf": "qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X, 0.1), y))",
    "hinge-linear": "qpsvm.solve(qpsvm.HingeDual(qpsvm.Linear(X), y))",
    "one-class": "qpsvm.solve(qpsvm.OneClassDual(qpsvm.RBF(X, 0.1)))",
    "ball": "qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)))",
    "ball-rbf-mfw": "qpsvm.solve(qpsvm.MEBDual(qpsvm.RBF(X, 0.1)), 'mfw')",
    "distance": "qpsvm.solve(qpsvm.PolytopeDistanceDual(qpsvm.Linear(X + 3 * y[:, None]), y))",
}
NOTHING_CARRIED = EMPTY_CACHE + "; os.environ['QPSVM_MACHINE_CODE'] = os.environ['NUMBA_CACHE_DIR']"


class FirstSolve:
    """Seconds in a fresh process with an empty cache; imports count, the start of Python does not.

    ``installed``: with the code that the installation carries. ``compiled``: without it.
    """

    number = 1
    timeout = 300

    params = (list(PROBLEM_CASES), [300, 3000])
    param_names = ["problem", "points"]

    def timeraw_first_solve_installed(self, problem, m):
        return BEFORE_PROBLEM.format(m) + PROBLEM_CASES[problem], EMPTY_CACHE

    def timeraw_first_solve_compiled(self, problem, m):
        return BEFORE_PROBLEM.format(m) + PROBLEM_CASES[problem], NOTHING_CARRIED
