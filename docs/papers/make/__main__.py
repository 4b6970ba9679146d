"""Run the studies of the papers, or their smallest cases.

python -m docs.papers.make                   # what is missing in docs/papers/results
python -m docs.papers.make polytopes rows    # of these studies
python -m docs.papers.make --quick           # the smallest case of each; nothing is written
"""

from __future__ import annotations

import sys
from importlib import import_module

from docs.papers.make.runs import carry_out

STUDY_MODULES = (
    "polytopes",
    "polynomial",
    "supports",
    "rows",
    "lowrank",
    "nesvm_times",
    "machines",
    "figures",
)
"""Modules of this folder."""


def main(arguments: list[str]) -> None:
    """Run the named studies, all without a name."""
    quick = "--quick" in arguments
    for name in [each for each in arguments if not each.startswith("--")] or STUDY_MODULES:
        study = import_module(f"docs.papers.make.{name}")
        if not quick:
            carry_out(name, study.cases(), study.run)
            continue
        for case in study.cases(quick=True):
            found = study.run(case)
            study.check(case, found)
            print(f"{name}: {case}: {found}")


if __name__ == "__main__":
    main(sys.argv[1:])
