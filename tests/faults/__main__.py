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
    options = parser.parse_args()
    ends, failures = campaign(options.interrupts, options.seed)
    for method, counts in ends.items():
        print(f"{method}: {dict(counts)}")
    print(f"all: {dict(sum(ends.values(), Counter()))}, {len(failures)} failures")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
