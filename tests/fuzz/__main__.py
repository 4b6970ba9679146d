"""A campaign: ``python -m tests.fuzz --problems 10000``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Outcome, Solver, drawn, summary


def main() -> int:
    """Run a campaign; return 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--problems", type=int, default=500, help="number of problems")
    parser.add_argument("--seed", type=int, default=0, help="seed of the problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="limit of the campaign")
    parser.add_argument("--largest", type=int, default=2000, help="largest number of points")
    parser.add_argument("--out", type=Path, help="file of the counts, in JSON")
    parser.add_argument("--scripts", type=Path, help="folder of scripts that show failures")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds of each solve")
    parser.add_argument("--open", action="store_true", help="list what could not be decided, too")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    begun, solver = time.monotonic(), Solver(options.time_limit)
    for problem in drawn(options.problems, options.seed, options.largest):
        outcome = solver.solve(problem)
        outcomes.append(outcome)
        for kind, message in outcome.failures:
            print(f"[{len(outcomes) - 1}] {kind}: {message}\n    {outcome.problem.describe()}")
        if (
            outcome.method
            and (outcome.enclosed is None or outcome.optimal is None)
            and options.open
        ):
            print(f"[{len(outcomes) - 1}] open: {outcome.status} {outcome.problem.describe()}")
        if options.open and outcome.status not in ("OPTIMAL", "refused"):
            print(
                f"[{len(outcomes) - 1}] {outcome.status}: {outcome.method} {outcome.problem.describe()}"
            )
        if outcome.failures and options.scripts is not None:
            from tests.fuzz.reproduce import write_script

            print(f"    {write_script(options.scripts, len(outcomes) - 1, outcome, solver)}")
        sys.stdout.flush()
        if time.monotonic() - begun > options.seconds:
            break
    solver.close()
    names = "seed", "largest", "time_limit"
    counts = {name: getattr(options, name) for name in names} | summary(outcomes)
    text = json.dumps(counts, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    return 1 if counts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
