"""The clock of a call: its time limit, Ctrl-C, and work that may be abandoned when one of them comes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Expired(Exception):
    """Raised by `poll` where a limit is met within work that may be abandoned."""


class _Interrupt:
    """Whether Ctrl-C was pressed, shared by all clocks of a call."""

    pressed = False


class Clock:
    """Seconds since a call, its time limit, and whether Ctrl-C was pressed.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    parent : Clock, optional
        The clock of a longer call: its limit and its interrupt hold too.
    """

    def __init__(self, time_limit: float | None = None, parent: Clock | None = None) -> None:
        self.begun = time.perf_counter()
        self._end = float("inf") if time_limit is None else self.begun + time_limit
        if parent is not None:
            self._end = min(self._end, parent._end)
        self._interrupt: _Interrupt = _Interrupt() if parent is None else parent._interrupt

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupt.pressed

    @property
    def timed_out(self) -> bool:
        """Whether the time limit is reached."""
        return time.perf_counter() >= self._end

    @property
    def expired(self) -> bool:
        """Whether the iterations are to end."""
        return self.interrupted or self.timed_out

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """Let `poll` raise Expired inside the ``with`` block: its work is thrown away then."""
        before = _active.set(self)
        try:
            yield
        finally:
            _active.reset(before)

    @contextmanager
    def ruling(self) -> Iterator[None]:
        """Let calls of `solve` inside the ``with`` block keep to this clock too."""
        before = _ruling.set(self)
        try:
            yield
        finally:
            _ruling.reset(before)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the first Ctrl-C, in the main thread only; a second one raises KeyboardInterrupt."""
        previous = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if not main or previous in (None, signal.SIG_IGN):  # a job that is to ignore Ctrl-C
            yield
            return

        def note(signum: int, frame: Any) -> None:
            if self._interrupt.pressed:
                raise KeyboardInterrupt
            self._interrupt.pressed = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


_active: ContextVar[Clock | None] = ContextVar("qpsvm_clock", default=None)


_ruling: ContextVar[Clock | None] = ContextVar("qpsvm_ruling_clock", default=None)


def call_clock() -> Clock | None:
    """Return the clock of the longer call that a solve is a part of, if there is one."""
    return _ruling.get()


def active() -> Clock | None:
    """Return the clock whose limits end the work at hand, or None where it is to be completed."""
    return _active.get()


def poll() -> None:
    """Raise Expired where the work at hand may be abandoned and a limit is met."""
    clock = _active.get()
    if clock is not None and clock.expired:
        raise Expired


@contextmanager
def completing() -> Iterator[None]:
    """Let the work inside the ``with`` block be completed, whatever limit is met."""
    before = _active.set(None)
    try:
        yield
    finally:
        _active.reset(before)
