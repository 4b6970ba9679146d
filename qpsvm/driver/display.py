"""Progress bar and iteration table: ordinary callbacks."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qpsvm.errors import InputError
from qpsvm.result import Progress

Callback = Callable[[Progress], Any]


@contextmanager
def shown(verbose: bool | str, callback: Callback | None, title: str) -> Iterator[Callback | None]:
    """Yield the callback that displays the progress and then calls the user's own."""
    if verbose is False:
        yield callback
    elif verbose is True:
        from tqdm.auto import tqdm

        with tqdm(total=100, desc=title, bar_format=BAR_FORMAT, leave=True) as bar:
            yield _chain(_Bar(bar), callback)
    elif verbose == "table":
        sys.stdout.write(
            f"{'iteration':>10} {'seconds':>9} {'upper':>15} {'lower':>15} {'gap':>9}\n"
        )
        yield _chain(_row, callback)
    else:
        raise InputError(f'verbose must be True, False or "table"; got {verbose!r}')


ESTIMATE_MARK = "~"
"""Prefix of a gap that is not proved."""

BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {postfix} [{elapsed}]"
"""Format of the progress bar."""


def _chain(display: Callback, callback: Callback | None) -> Callback:
    def both(progress: Progress) -> Any:
        display(progress)
        return callback(progress) if callback is not None else None

    return both


class _Bar:
    """Progress on a logarithmic scale from the first finite gap to the tolerance."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._first = bar, math.nan

    def __call__(self, progress: Progress) -> None:
        gap = progress.relative_gap
        if math.isnan(self._first) and 0 < gap < math.inf:
            self._first = max(gap, 10 * progress.tol)
        if not math.isnan(self._first):
            done = math.log(self._first / max(gap, 0.5 * progress.tol))
            share = done / math.log(self._first / (0.5 * progress.tol))
            self._bar.n = max(self._bar.n, round(100 * min(max(share, 0.0), 1.0)))
        about = ESTIMATE_MARK if progress.estimated else ""
        self._bar.set_postfix_str(f"gap {about}{gap:.1e}, iteration {progress.iteration:,}")


def _row(progress: Progress) -> None:
    p = progress
    gap = f"{ESTIMATE_MARK if p.estimated else ''}{p.relative_gap:.2g}"
    sys.stdout.write(
        f"{p.iteration:>10} {p.time:>9.3f} {p.upper:>15.8g} {p.lower:>15.8g} {gap:>9}\n"
    )
