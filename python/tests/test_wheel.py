"""Wheels: pure Python, and with programs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import ruamel.yaml as ruamel_yaml
from conftest import ROOT


def wheel(folder: Path, programs: Path | None = None, platform: str | None = None) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    variables = {name: value for name, value in os.environ.items() if "WHEEL" not in name}
    if programs is not None:
        variables["THINGBED_WHEEL_BINARIES"] = str(programs)
    if platform is not None:
        variables["THINGBED_WHEEL_PLATFORM"] = platform
    subprocess.run(
        [*command, "--directory", str(folder)], cwd=ROOT / "python", env=variables, check=True
    )
    (found,) = folder.glob("*.whl")
    return found


def test_a_wheel_of_python_alone(tmp_path: Path) -> None:
    built = wheel(tmp_path / "dist")
    assert built.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(built).namelist()
    assert {"thingbed/py.typed", "thingbed/guard.py", "thingbed/schema.py"} <= set(names)
    assert not [name for name in names if "scripts" in name]


def test_a_wheel_with_programs(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("thingbed", "thingbed-workload"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} $*\n")
        (programs / name).chmod(0o755)
    built = wheel(tmp_path / "dist", programs)
    assert built.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    named = wheel(tmp_path / "named", programs, platform="manylinux_2_34_x86_64")
    assert named.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", str(built)], check=True)
    # The command of a user, and what the package itself uses.
    for program in (environment / "bin" / "thingbed", found_by(python)):
        done = subprocess.run([program, "up"], capture_output=True, text=True, check=True)
        assert done.stdout == "thingbed up\n"


def found_by(python: Path) -> Path:
    """The program that the package finds, without the environment's folder in PATH."""
    ruamel = Path(str(ruamel_yaml.__file__)).parents[2]
    done = subprocess.run(
        [python, "-c", "from thingbed import tool; print(tool.find())"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ruamel)},
        capture_output=True,
        text=True,
        check=True,
    )
    path = Path(done.stdout.strip())
    assert path == python.with_name("thingbed")
    return path
