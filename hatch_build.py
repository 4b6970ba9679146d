"""Machine code made while the package is built, so that the first solve need not compile.

An installation from a checkout makes it for its own processor, for what ``method="auto"`` needs.
``QPSVM_BUILD_LEVELS`` names others, such as "x86-64-v2 x86-64-v3 x86-64-v4" for a wheel that is to be
published, and "none" leaves it out. Where it cannot be made the package is as good; it compiles later.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCodeHook(BuildHookInterface):
    """Runs `qpsvm.precompile` on the sources that are being built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fill qpsvm/machine_code, which the wheel takes along."""
        levels = os.environ.get("QPSVM_BUILD_LEVELS", "native").split()
        if levels == ["none"]:
            return
        command = [sys.executable, "-m", "qpsvm.precompile", "--levels", *levels]
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        done = subprocess.run(command, cwd=self.root, env={**os.environ, "PYTHONPATH": path})
        if done.returncode:
            self.app.display_warning(
                "no machine code is carried: functions compile when first used"
            )
