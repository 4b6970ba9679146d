"""Pictures of results in the Display style of scikit-learn; each name is imported when it is asked for.

A class method such as `from_result` computes what is shown and draws it; the display holds the data,
and its `plot` draws them again on other axes. matplotlib is imported where something is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qpsvm.plot.ball import BallDisplay as BallDisplay
    from qpsvm.plot.closest_points import ClosestPointsDisplay as ClosestPointsDisplay
    from qpsvm.plot.convergence import ConvergenceDisplay as ConvergenceDisplay
    from qpsvm.plot.convergence import SupportGrowthDisplay as SupportGrowthDisplay
    from qpsvm.plot.one_class import OneClassDisplay as OneClassDisplay
    from qpsvm.plot.path import PathDisplay as PathDisplay
    from qpsvm.plot.regions import DecisionRegionDisplay as DecisionRegionDisplay
    from qpsvm.plot.search import SearchDisplay as SearchDisplay

_MODULE_OF_NAME = {
    "BallDisplay": "ball",
    "ClosestPointsDisplay": "closest_points",
    "ConvergenceDisplay": "convergence",
    "DecisionRegionDisplay": "regions",
    "OneClassDisplay": "one_class",
    "PathDisplay": "path",
    "SearchDisplay": "search",
    "SupportGrowthDisplay": "convergence",
}
"""The module of each public name."""

__all__ = sorted(_MODULE_OF_NAME)


def __getattr__(name: str) -> Any:
    """Import a display when it is first asked for."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(set(globals()) | set(_MODULE_OF_NAME))
