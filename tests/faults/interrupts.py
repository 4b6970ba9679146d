"""Ctrl-C at random times of a solve, by method, and what must hold of what comes back."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import qpsvm
from qpsvm import Status

MAX_SECONDS = 0.3
"""Limit of a solve that nothing interrupts."""

MAX_SECONDS_TO_STOP = 5.0
"""Seconds after a signal in which a solve has ended, on a machine with other work."""

TIGHT_TOLERANCE = 1e-12
"""What is asked for, so that most solves are interrupted before they end."""

RNG = np.random.default_rng(5)
TRAINING_POINTS = RNG.standard_normal((250, 4))
TRAINING_LABELS = np.where(TRAINING_POINTS[:, 0] + 0.5 * RNG.standard_normal(250) > 0, 1.0, -1.0)


def _hinge(**options: Any) -> Any:
    return qpsvm.HingeDual(qpsvm.RBF(TRAINING_POINTS, 0.3), TRAINING_LABELS, C=10.0, **options)


def _squared() -> Any:
    return qpsvm.L2SVMDual(qpsvm.RBF(TRAINING_POINTS, 0.3), TRAINING_LABELS, C=10.0)


def _linear(**options: Any) -> Any:
    return qpsvm.HingePrimal(TRAINING_POINTS, TRAINING_LABELS, C=10.0, **options)


PROBLEMS_OF_METHODS = {
    "fw": _squared, "mfw": _squared, "pfw": _squared, "bpfw": _squared, "fcfw": _squared,
    "swap": _squared, "mnp": _squared, "face-newton": _squared, "cvm": _squared,
    "smo": _hinge, "decomposition": _hinge, "pdipm": _hinge, "crsvm": _linear, "dcd": _linear,
    "nesvm": lambda: qpsvm.LSSVMPrimal(qpsvm.RBF(TRAINING_POINTS, 0.3), TRAINING_LABELS),
    "homotopy-nesvm": lambda: qpsvm.LPSVMPrimal(TRAINING_POINTS, TRAINING_LABELS),
    "pegasos": lambda: qpsvm.HingeDual(qpsvm.Linear(TRAINING_POINTS), TRAINING_LABELS, bias=False),
    "mfn": lambda: qpsvm.L2SVMDual(qpsvm.Linear(TRAINING_POINTS), TRAINING_LABELS, C=10.0),
    "mdm": lambda: qpsvm.PolytopeDistanceDual(qpsvm.RBF(TRAINING_POINTS, 0.3), TRAINING_LABELS),
    "gilbert": lambda: qpsvm.PolytopeDistanceDual(qpsvm.RBF(TRAINING_POINTS, 0.3), TRAINING_LABELS),
}  # fmt: skip
"""A problem that each method is interrupted on."""


@dataclass
class Trial:
    """A method on its problem: its answer without an interrupt, and the optimum."""

    method: str
    problem: Any = None
    optimum: float = np.nan
    slack: float = 0.0
    seconds: float = 0.0
    bits: bytes = b""
    failures: list[str] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.problem = PROBLEMS_OF_METHODS[self.method]()
        best = qpsvm.solve(self.problem, tol=1e-9)
        self.optimum, self.slack = best.value, 2.0 * best.certificate.gap
        qpsvm.solve(self.problem, self.method, max_iter=2)  # compile
        begun = time.perf_counter()
        qpsvm.solve(self.problem, self.method, tol=TIGHT_TOLERANCE, time_limit=MAX_SECONDS)
        self.seconds = time.perf_counter() - begun
        self.bits = self.short()

    def short(self) -> bytes:
        """Return the bits of a short solve, which an interrupt before it must not change."""
        return qpsvm.solve(self.problem, self.method, tol=1e-3, max_iter=20).x.tobytes()

    def interrupted(self, seconds: float) -> str:
        """Press Ctrl-C after some seconds; return how the solve ended, and note what does not hold."""
        before = signal.getsignal(signal.SIGINT)
        options = {"tol": TIGHT_TOLERANCE, "time_limit": 20 * MAX_SECONDS}
        begun = time.perf_counter()
        result = None
        try:
            with pressing_after(seconds, self.phases):
                result = qpsvm.solve(self.problem, self.method, **options)
        except KeyboardInterrupt:  # before the solve listened, or after its end
            signal.signal(signal.SIGINT, before)
        took = time.perf_counter() - begun
        if signal.getsignal(signal.SIGINT) is not before:
            self.failures.append(f"{self.method} at {seconds:.4f} s: another handler of SIGINT")
            signal.signal(signal.SIGINT, before)
        if took > seconds + MAX_SECONDS_TO_STOP:
            self.failures.append(f"{self.method} at {seconds:.4f} s: ended after {took:.2f} s")
        if result is None:
            return "raised"
        self._judge(result, seconds)
        return str(result.status.name)

    def _judge(self, result: Any, seconds: float) -> None:
        c = result.certificate
        allowed = Status.INTERRUPTED, Status.OPTIMAL, Status.STALLED, Status.MAX_ITER
        holds = {
            "the status": result.status in allowed,
            "x is finite": bool(np.isfinite(result.x).all()),
            "the bounds": c.lower - self.slack <= self.optimum <= c.upper + self.slack,
            "the gap": c.gap >= max(c.upper - self.optimum - self.slack, c.roundoff),
            "feasibility": c.violation <= 1e-9,
        }
        self.failures += [
            f"{self.method} at {seconds:.4f} s: {name} of {result.status.name} {c}"
            for name, is_met in holds.items()
            if not is_met
        ]


PHASES_OF_SOLVE = {
    "compilation": lambda file, name: "/numba/" in file or "/llvmlite/" in file,
    "certificate": lambda file, name: file.endswith("driver/certificate.py"),
    "iteration": lambda file, name: "/qpsvm/solvers/" in file and name == "advance",
    "set-up or recovery": lambda file, name: "/qpsvm/" in file,
}
"""Where a process is, by file and name of a function that runs or waits; the first that holds."""


def phase_of_main_thread() -> str:
    """Return in which phase of a solve the main thread is."""
    frame, frames = sys._current_frames().get(threading.main_thread().ident or 0), []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    found = (
        phase for phase, holds in PHASES_OF_SOLVE.items() if any(holds(*one) for one in frames)
    )
    return next(found, "outside")


@contextmanager
def pressing_after(seconds: float, phases: Counter[str] | None = None) -> Iterator[None]:
    """Send SIGINT to this process after some seconds, unless the block has ended before.

    In `phases` the phase that is interrupted is counted.
    """

    def press() -> None:
        if phases is not None:
            phases[phase_of_main_thread()] += 1
        os.kill(os.getpid(), signal.SIGINT)

    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, press)
    timer.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what comes from here on is late
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, outside)


class Interrupts(NamedTuple):
    """How interrupted solves ended, by method, in which phases they were, and what did not hold."""

    ends: dict[str, Counter[str]]
    phases: Counter[str]
    failures: list[str]


def campaign(n: int, seed: int, methods: Sequence[str] = ()) -> Interrupts:
    """Interrupt methods in turn, `n` times in all; by default all that have a problem."""
    rng, found = np.random.default_rng(seed), Interrupts({}, Counter(), [])
    names = list(methods or PROBLEMS_OF_METHODS)
    for k, method in enumerate(names):
        trial, ends = Trial(method), found.ends.setdefault(method, Counter())
        for _ in range(k, n, len(names)):
            ends[trial.interrupted(trial.seconds * rng.random())] += 1
        if trial.short() != trial.bits:
            found.failures.append(f"{method}: other bits after interrupts")
        found.failures.extend(trial.failures)
        found.phases.update(trial.phases)
    return found
