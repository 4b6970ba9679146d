"""The catalogue: every instance that is tested, referenced, benchmarked and documented.

An instance is declared once, in the file of its family, and is found here by name or by tag::

    problems.INSTANCES["meb/two-points"].declare()
    problems.select(family="meb", exclude=("crawl",))
    problems.select(tag="stress")

The stress set (`problems.stress`) is kept apart: `select` returns it only when asked for its tag.
"""

from __future__ import annotations

from collections.abc import Iterable

from problems import (
    hinge,
    l2_svm,
    lp_svm,
    ls_svm,
    meb,
    one_class,
    polytope_distance,
    reduced_hulls,
    stress,
    svdd,
)
from problems.instance import FAMILIES, PRIMAL, Instance
from problems.regression import nu_svr, svr

__all__ = ["FAMILIES", "INSTANCES", "PRIMAL", "Instance", "select"]

FAMILY_MODULES = (
    meb,
    l2_svm,
    polytope_distance,
    hinge,
    lp_svm,
    ls_svm,
    one_class,
    svdd,
    reduced_hulls,
    svr,
    nu_svr,
)
"""One for each family, in the order of the catalogue."""

INSTANCES: dict[str, Instance] = {
    instance.name: instance for module in FAMILY_MODULES for instance in module.INSTANCES
}


def select(
    family: str | None = None, tag: str | None = None, exclude: Iterable[str] = ()
) -> list[Instance]:
    """Return the instances of a family that carry `tag` and none of the tags in `exclude`."""
    if family is not None and family not in FAMILIES:
        raise ValueError(f"family={family!r}; the families are {', '.join(FAMILIES)}")
    unwanted = frozenset([exclude] if isinstance(exclude, str) else exclude)
    catalogue = stress.INSTANCES if tag == "stress" else INSTANCES
    return [
        instance
        for instance in catalogue.values()
        if (family is None or instance.family == family)
        and (tag is None or tag in instance.tags)
        and not unwanted & instance.tags
    ]
