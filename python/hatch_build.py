"""Puts programs into the wheel: those in the folder THINGBED_WHEEL_BINARIES, as `make wheel` does.

Without the variable, the wheel is pure Python and uses an installed `thingbed`.
THINGBED_WHEEL_PLATFORM is the platform in the wheel's name; the default is that of this system,
which PyPI refuses.
"""

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The last one, the guest kernel for virtual time, may be missing.
PROGRAMS = ("thingbed", "thingbed-workload", "thingbed-linux")


class Programs(BuildHookInterface):
    """Adds the programs, and the platform to the wheel's name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling calls this before it writes the wheel."""
        folder = os.environ.get("THINGBED_WHEEL_BINARIES")
        if not folder or version == "editable":
            return
        for name in PROGRAMS:
            path = Path(folder) / name
            if path.exists():
                build_data["shared_scripts"][str(path)] = name
            elif name != PROGRAMS[-1]:
                raise FileNotFoundError(f"THINGBED_WHEEL_BINARIES: there is no {path}")
        platform = os.environ.get("THINGBED_WHEEL_PLATFORM") or sysconfig.get_platform()
        platform = platform.replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
