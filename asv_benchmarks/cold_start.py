"""Cold start: what a fresh process waits for before its first answer."""

from __future__ import annotations

import subprocess
import sys

FIRST_SOLVE = "qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), 'mfw')"
FIRST_MACHINE = "qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X), numpy.sign(X[:, 0])))"
BEFORE = "import numpy, qpsvm; X = numpy.random.default_rng(0).standard_normal(({}, 3))"
SIZES = 100, 3000
"""Points; of the machines the first is solved by `smo` and the second by `decomposition`."""
EMPTY_CACHE = "import os, tempfile; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp()"


class ColdStart:
    """Seconds in a fresh process; the interpreter's own start is not counted."""

    number = 1
    timeout = 120

    params = SIZES
    param_names = ["points"]

    def setup(self, m):
        # fill the cache, in a process of its own as all that is measured here
        for first in (FIRST_SOLVE, FIRST_MACHINE):
            subprocess.run([sys.executable, "-c", f"{BEFORE.format(m)}; {first}"], check=True)

    def timeraw_import(self, m):
        return "import qpsvm"

    def timeraw_first_solve_cached(self, m):
        return FIRST_SOLVE, BEFORE.format(m)

    def timeraw_first_solve_uncached(self, m):
        return FIRST_SOLVE, f"{EMPTY_CACHE}; {BEFORE.format(m)}"

    def timeraw_first_machine_cached(self, m):
        return FIRST_MACHINE, BEFORE.format(m)

    def timeraw_first_machine_uncached(self, m):
        return FIRST_MACHINE, f"{EMPTY_CACHE}; {BEFORE.format(m)}"
