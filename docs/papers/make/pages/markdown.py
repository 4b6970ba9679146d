"""Lines of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator


def row(*cells: object) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def head(n_words: int, *names: str) -> Iterator[str]:
    """Yield the heading, the first columns being words."""
    yield row(*names)
    yield "|" + "---|" * n_words + "---:|" * (len(names) - n_words)
