"""``python -m qpsvm``: the command ``qpsvm`` where its script is not on the path."""

from __future__ import annotations

import sys

from qpsvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
