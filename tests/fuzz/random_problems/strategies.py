"""The random problems as a strategy of hypothesis, which varies and shrinks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.problem import Problem
from tests.fuzz.random_problems.generator import Item, problem_of


class HypothesisChoices:
    """Choices that hypothesis makes."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def one_of(self, options: Sequence[Item]) -> Item:
        """Return one of the options."""
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return self.draw(st.integers(low, high))

    def boolean(self) -> bool:
        """Return yes or no."""
        return self.draw(st.booleans())

    def some_of(self, options: Sequence[Item], at_most: int) -> list[Item]:
        """Return some of the options, each once at most."""
        return self.draw(st.lists(st.sampled_from(options), max_size=at_most, unique=True))


@st.composite
def problems(draw: Any, largest: int = 2000) -> Problem:
    """Draw a problem of at most `largest` points, and a number that picks one of its methods."""
    return problem_of(HypothesisChoices(draw), largest)
