"""Interrupts at random times: ``python -m tests.faults --interrupts 1000``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.faults.interrupts import campaign


def main() -> int:
    """Interrupt solves; return 1 where something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--interrupts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="*", default=(), help="by default all")
    options = parser.parse_args()
    found = campaign(options.interrupts, options.seed, options.methods)
    for method, counts in found.ends.items():
        print(f"{method}: {dict(counts)}")
    print(f"all: {dict(sum(found.ends.values(), Counter()))}, {len(found.failures)} failures")
    print(f"interrupted in: {dict(found.phases)}")
    print("\n".join(found.failures))
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
