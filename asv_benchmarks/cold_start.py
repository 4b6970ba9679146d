"""Cold start: what a fresh process waits for before its first answer."""

from __future__ import annotations

import subprocess
import sys

FIRST_SOLVE = "qpsvm.solve(qpsvm.MEBDual(qpsvm.Linear(X)), 'mfw')"
BEFORE = "import numpy, qpsvm; X = numpy.random.default_rng(0).standard_normal((100, 3))"
EMPTY_CACHE = "import os, tempfile; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp()"


class ColdStart:
    """Seconds in a fresh process; the interpreter's own start is not counted."""

    number = 1
    timeout = 120

    def setup(self):
        # fill the cache, in a process of its own as all that is measured here
        subprocess.run([sys.executable, "-c", f"{BEFORE}; {FIRST_SOLVE}"], check=True)

    def timeraw_import(self):
        return "import qpsvm"

    def timeraw_first_solve_cached(self):
        return FIRST_SOLVE, BEFORE

    def timeraw_first_solve_uncached(self):
        return FIRST_SOLVE, f"{EMPTY_CACHE}; {BEFORE}"
