"""A campaign: ``python -m tests.fuzz --problems 10000``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Outcome, Solver, solved_side_by_side, summary
from tests.fuzz.known import KNOWN_FAILURES
from tests.fuzz.random_problems.generator import problems_of_seed

STATUSES_NOT_LISTED = "OPTIMAL", "refused"
"""Statuses that ``--open`` does not list."""


def main() -> int:
    """Run a campaign; return 1 where a promise was broken."""
    options = _parser().parse_args()
    outcomes: dict[int, Outcome] = {}
    begun = time.monotonic()
    solvers = [Solver(options.time_limit) for _ in range(options.processes)]

    def problems():
        for problem in problems_of_seed(options.problems, options.seed, options.largest):
            if time.monotonic() - begun > options.seconds:
                return
            yield problem

    known = {}
    for number, outcome, solver in solved_side_by_side(problems(), solvers):
        outcomes[number] = outcome
        expected = KNOWN_FAILURES.get((options.seed, options.largest, number))
        if expected is not None:
            known[number] = bool(outcome.failures)
            print(f"[{number}] known: {expected.reason}")
            if outcome.kinds <= expected.kinds:
                outcome.failures.clear()
        _tell(number, outcome, options.open)
        if outcome.failures and options.scripts is not None:
            from tests.fuzz.reproduce import write_script

            print(f"    {write_script(options.scripts, number, outcome, solver)}")
        sys.stdout.flush()
    for solver in solvers:
        solver.close()
    for number, failed in known.items():
        if not failed:
            print(f"[{number}] no longer fails: to be taken from tests/fuzz/known.py")
    names = "seed", "largest", "time_limit"
    counts = {name: getattr(options, name) for name in names}
    counts |= {"known failures": sum(known.values())} | summary(list(outcomes.values()))
    text = json.dumps(counts, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    return 1 if counts["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--problems", type=int, default=500, help="number of problems")
    parser.add_argument("--seed", type=int, default=0, help="seed of the problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="limit of the campaign")
    parser.add_argument("--largest", type=int, default=2000, help="largest number of points")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that solve")
    parser.add_argument("--out", type=Path, help="file of the counts, in JSON")
    parser.add_argument("--scripts", type=Path, help="folder of scripts that show failures")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds of each solve")
    parser.add_argument("--open", action="store_true", help="list what could not be decided, too")
    return parser


def _tell(number: int, outcome: Outcome, with_open: bool) -> None:
    """Print failures and, where asked for, what is open or not optimal."""
    about = outcome.problem.describe()
    for kind, message in outcome.failures:
        print(f"[{number}] {kind}: {message}\n    {about}")
    if not with_open:
        return
    if outcome.method and (outcome.enclosed is None or outcome.optimal is None):
        print(f"[{number}] open: {outcome.status} {about}")
    if outcome.status not in STATUSES_NOT_LISTED:
        print(f"[{number}] {outcome.status}: {outcome.method} {about}")


if __name__ == "__main__":
    sys.exit(main())
