"""The progress bar of a fit: the gap now, and the time that is left by its decrease so far."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from qpsvm.result import Progress

BAR_FORMAT = "{percentage:3.0f}%|{bar:30}| {desc} [{elapsed}]"
"""Format of the progress bar."""

ESTIMATE_MARK = "~"
"""Prefix of a gap that is not proved."""

MIN_SECONDS_BETWEEN_DRAWINGS = 0.1
"""Least time from one drawing of the bar to the next."""

SHARE_OF_CHECKS = 0.5
"""Share of the checks, the last ones, that say how fast the gap falls."""

MIN_CHECKS = 4
"""Checks of finite gap from which the time that is left is estimated."""


def seconds_left(times: Sequence[float], gaps: Sequence[float], tol: float) -> float | None:
    """Return the seconds until the gap is `tol`, if its logarithm falls on as it did lately.

    Parameters
    ----------
    times : sequence of float
        Seconds of the checks, ascending.
    gaps : sequence of float
        Relative gaps, positive and finite.
    tol : float

    Returns
    -------
    float or None
        None where there are too few checks, or the gap does not fall.

    Examples
    --------
    >>> round(seconds_left([0.0, 1.0, 2.0, 3.0], [1.0, 0.1, 0.01, 0.001], 1e-5), 6)
    2.0
    """
    import numpy as np

    if len(times) < MIN_CHECKS:
        return None
    n = max(MIN_CHECKS, round(SHARE_OF_CHECKS * len(times)))
    t, logs = np.array(times[-n:]), np.log(gaps[-n:])
    centered = t - t.mean()
    square = float(centered @ centered)
    slope = float(centered @ logs) / square if square > 0 else 0.0
    if not slope < 0.0:
        return None
    return max(0.0, (math.log(tol) - float(logs[-1])) / slope)


def in_words(seconds: float | None) -> str:
    """Return a time that is left, as text."""
    if seconds is None or not seconds < 1e6:
        return "time left unknown"
    if seconds < 60:
        return f"about {seconds:.0f} s left"
    if seconds < 3600:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"


class GapBar:
    """A callback that draws the progress of one or more solves; nothing where stderr is no terminal.

    Parameters
    ----------
    quiet : bool
        Draw nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        from tqdm import tqdm

        columns, rows = shutil.get_terminal_size((100, 24))  # some terminals say that they have 0
        self._bar: Any = tqdm(
            total=100, disable=True if quiet else None, bar_format=BAR_FORMAT, leave=False,
            ncols=columns - 1, nrows=rows,
        )  # fmt: skip
        self._problem, self._drawn, self._last_time = 0, -math.inf, math.inf
        self._times: list[float] = []
        self._gaps: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._bar.close()

    def __call__(self, progress: Progress) -> None:
        """Take a check of a solve; a time before the last one begins another problem."""
        if progress.time < self._last_time:
            self._problem += 1
            self._times, self._gaps = [], []
        self._last_time = progress.time
        gap = progress.relative_gap
        if not 0.0 < gap < math.inf:
            return
        self._times.append(progress.time)
        self._gaps.append(gap)
        now = time.monotonic()
        if self._bar.disable or now < self._drawn + MIN_SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn = now
        about = ESTIMATE_MARK if progress.estimated else ""
        left = in_words(seconds_left(self._times, self._gaps, progress.tol))
        first = max(self._gaps[0], 10.0 * progress.tol)
        done = math.log(first / max(gap, progress.tol)) / math.log(first / progress.tol)
        self._bar.n = round(100 * min(max(done, 0.0), 1.0))
        self._bar.set_description_str(f"problem {self._problem}: gap {about}{gap:.1e}, {left}")
