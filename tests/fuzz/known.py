"""Failures of the fixed campaigns that are known and not mended, each with the reason.

A campaign prints them and does not count them. The list is to stay short: what can be mended is mended.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A failure that a campaign is expected to meet."""

    kinds: frozenset[str]
    reason: str


KNOWN_FAILURES: dict[tuple[int, int, int], Known] = {}
"""By seed, largest number of points and number of the problem."""
