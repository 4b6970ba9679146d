"""Benchmarks: run by asv, over the instances of problems/ and the methods of qpsvm."""

import sys
from pathlib import Path

# asv imports this package without the root of the repository, where problems/ lies. The root
# goes last: put first, it would measure the working tree's qpsvm, not the installed commit's.
sys.path.append(str(Path(__file__).resolve().parent.parent))
