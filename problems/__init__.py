"""The catalogue: every instance that is tested, referenced, benchmarked and documented.

An instance is declared once, in the file of its family, and is found here by name or by tag::

    problems.INSTANCES["meb/two-points"].declare()
    problems.select(family="meb", exclude=("ill-conditioned",))
    problems.select(tag="stress")

The stress set (`problems.stress`) is kept apart: `select` returns it only when asked for its tag.
"""

from __future__ import annotations

from collections.abc import Iterable

from problems import stress
from problems.discovery import modules_of
from problems.instance import FAMILY_DECLARATIONS, PRIMAL_FAMILIES, Instance

__all__ = ["FAMILY_NAMES", "INSTANCES", "PRIMAL_FAMILIES", "Instance", "select"]

MODULES_APART = ("problems.stress", "problems.programs.general", "problems.programs.smooth")
"""Modules whose instances are not in the catalogue: they are asked for by themselves."""

INSTANCES: dict[str, Instance] = {
    instance.name: instance
    for module in modules_of("problems")
    if module.__name__ not in MODULES_APART
    for instance in getattr(module, "INSTANCES", ())
}

FAMILY_NAMES = tuple(FAMILY_DECLARATIONS)
"""Names of the families, by `problems.instance.family`."""


def select(
    family: str | None = None, tag: str | None = None, exclude: Iterable[str] = ()
) -> list[Instance]:
    """Return the instances of a family that carry `tag` and none of the tags in `exclude`."""
    if family is not None and family not in FAMILY_NAMES:
        raise ValueError(f"family={family!r}; the families are {', '.join(FAMILY_NAMES)}")
    unwanted = frozenset([exclude] if isinstance(exclude, str) else exclude)
    catalogue = stress.INSTANCES if tag == "stress" else INSTANCES
    return [
        instance
        for instance in catalogue.values()
        if (family is None or instance.family == family)
        and (tag is None or tag in instance.tags)
        and not unwanted & instance.tags
    ]
