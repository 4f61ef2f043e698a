"""An ordinary user needs no root: runs in virtual time, and labs by user namespaces."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import ruamel.yaml

import thingbed

ORDINARY = 65534
SCRIPT = """
import os, thingbed as tb
experiment = tb.two_nodes(["sleep", 100], ["ping", "-c", 2, "server"], delay="30 ms")
result = experiment.run(clock="virtual", progress=False)
with experiment.up() as lab:
    print(os.geteuid(), result.verdict, lab.node("client").exec("hostname").stdout.strip())
"""


def python_of_others() -> str | None:
    """A Python that other users may execute; that of a venv may be in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            command = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if (
                subprocess.run(command, user=ORDINARY, group=ORDINARY, extra_groups=[]).returncode
                == 0
            ):
                return python
        except OSError:
            continue
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_needs_no_root() -> None:
    python = python_of_others()
    if python is None:
        pytest.skip("other users may execute no Python 3.11 here")
    tool = Path(os.environ["THINGBED_BIN"])
    kernel = Path(os.environ.get("THINGBED_KERNEL", tool.parents[1] / "thingbed-linux"))
    # Copies, because clones and the folders of pytest may be private to root.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, ORDINARY, ORDINARY)
        for file in (tool, tool.with_name("thingbed-workload"), kernel):
            shutil.copy(file, folder)
        for module in (thingbed, ruamel.yaml):
            source = Path(str(module.__file__)).parent
            target = folder / "lib" / Path(*module.__name__.split("."))
            shutil.copytree(source, target)
        done = subprocess.run(
            [python, "-c", SCRIPT],
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=[],
            cwd=folder,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": name,
                "PYTHONPATH": str(folder / "lib"),
                "THINGBED_BIN": str(folder / tool.name),
                "THINGBED_KERNEL": str(folder / kernel.name),
            },
            capture_output=True,
            text=True,
        )
    assert done.stdout == f"{ORDINARY} valid client\n", done.stdout + done.stderr
