"""The clock of a call: its time limit, Ctrl-C, and work that may be abandoned at either."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any


class Expired(BaseException):
    """Raised by `poll` where a limit is met within work that may be abandoned.

    Like KeyboardInterrupt it is not an Exception: numba's type inference would treat an Exception as one
    of its own errors.
    """


class CompilationStopped(Expired):
    """Raised while a function is compiled; the next call compiles the function again."""


class Interrupt:
    """When Ctrl-C was pressed, shared by all clocks of a call."""

    pressed_at = float("inf")


class Clock:
    """Start of a call, its time limit, and whether Ctrl-C was pressed.

    A limit is met from `end` on, and from `grace` seconds after ``interrupt.pressed_at`` on.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    parent : Clock, optional
        The clock of an enclosing call: its limit and its interrupt apply too.
    grace : float
        Seconds for which work continues after Ctrl-C.
    """

    def __init__(
        self, time_limit: float | None = None, parent: Clock | None = None, grace: float = 0.0
    ) -> None:
        self.begun, self.grace = time.perf_counter(), grace
        self.end = float("inf") if time_limit is None else self.begun + time_limit
        if parent is not None:
            self.end = min(self.end, parent.end)
        self.interrupt: Interrupt = Interrupt() if parent is None else parent.interrupt

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.interrupt.pressed_at < float("inf")

    def after_interrupt(self, seconds: float) -> Clock:
        """Return a clock that expires this many seconds after Ctrl-C is pressed, and at no time limit."""
        clock = Clock(grace=seconds)
        clock.interrupt = self.interrupt
        return clock

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the time limit, at least 0; None without one."""
        left = self.end - time.perf_counter()
        return None if left == float("inf") else max(left, 0.0)

    @property
    def expired(self) -> bool:
        """Whether a limit is met, so that the iterations end."""
        return time.perf_counter() >= min(self.end, self.interrupt.pressed_at + self.grace)

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """Let `poll` raise Expired inside the ``with`` block, whose work is then discarded."""
        with _bound(active_clock, self), self.compiling():
            yield

    def compiling(self) -> AbstractContextManager[None]:
        """Let compilation inside the ``with`` block end at a limit, by CompilationStopped.

        In a subproblem of a method the clock of the call applies.
        """
        return _bound(_compiling, _compiling.get() or self)

    def limiting_calls(self) -> AbstractContextManager[None]:
        """Apply this clock to the calls of `solve` inside the ``with`` block too."""
        return _bound(_enclosing, self)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record the first Ctrl-C, in the main thread only; a second one raises KeyboardInterrupt."""
        previous = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if not main or previous in (None, signal.SIG_IGN):  # a job that ignores Ctrl-C
            yield
            return

        def record(signum: int, frame: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupt.pressed_at = time.perf_counter()

        signal.signal(signal.SIGINT, record)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


active_clock: ContextVar[Clock | None] = ContextVar("qpsvm_clock", default=None)
"""The clock whose limits end the current work; None where it must be completed."""

_compiling: ContextVar[Clock | None] = ContextVar("qpsvm_compiling_clock", default=None)
_enclosing: ContextVar[Clock | None] = ContextVar("qpsvm_enclosing_clock", default=None)


@contextmanager
def _bound(variable: ContextVar[Clock | None], clock: Clock | None) -> Iterator[None]:
    """Set a context variable inside the ``with`` block."""
    before = variable.set(clock)
    try:
        yield
    finally:
        variable.reset(before)


def call_clock() -> Clock | None:
    """Return the clock of the enclosing call of a solve, if there is one."""
    return _enclosing.get()


def poll() -> None:
    """Raise Expired where the current work may be abandoned and a limit is met."""
    clock = active_clock.get()
    if clock is not None and clock.expired:
        raise Expired


def poll_compilation() -> None:
    """Raise CompilationStopped where a limit is met; called between the passes of the compiler."""
    clock = _compiling.get()
    if clock is not None and clock.expired:
        raise CompilationStopped


def completing() -> AbstractContextManager[None]:
    """Complete the work inside the ``with`` block, even if a limit is met."""
    return _bound(active_clock, None)


@contextmanager
def undivided() -> Iterator[None]:
    """Complete the work inside the ``with`` block, compilation included, even if a limit is met."""
    with completing(), _bound(_compiling, None):
        yield
