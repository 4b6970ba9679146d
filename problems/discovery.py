"""Find the modules of a package: a family is entered in the catalogue by its file alone."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """Import and return all modules below a package, in the order of their names."""
    path = import_module(package).__path__
    found = pkgutil.walk_packages(path, prefix=f"{package}.")
    return [import_module(name) for name in sorted(info.name for info in found)]
