#!/usr/bin/env python3
"""Tries the packages of `make dist` in clean root folders of Debian.

`sudo packaging/try.py [SUITE...]`: for each suite (default: trixie) it makes the smallest root
with mmdebstrap, and in it: unpacks the archive and runs `doctor` and `demo` as an ordinary user;
installs the Debian package, runs both again, and removes it; installs the wheel; executes the steps
of the Containerfile. Each step is timed. No capability of the host's root remains in `demo`.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from roots import PACKAGES, inside, root


def demo(folder: Path, program: str, where: str) -> None:
    """Runs the demo as an ordinary user, and asks for valid results."""
    output, took = inside(folder, [program, "demo", "--quiet", where], user=True)
    if "VALID" not in output or "virtual time" not in output:
        sys.exit(f"error: the demo has no valid result in virtual time\n{output}")
    print(f"  {program} demo: valid, in {took:.0f} s")


def archive(folder: Path) -> None:
    """The archive, unpacked by a user who is not root."""
    [path] = PACKAGES.glob("*.tar.gz")
    subprocess.run(["tar", "xzf", path, "-C", folder / "tmp"], check=True)
    program = f"/tmp/{path.name.removesuffix('.tar.gz')}/bin/thingbed"
    output, _ = inside(folder, ["sh", "-c", f"{program} doctor || true"], user=True)
    print(f"  {program} doctor: {output.strip().splitlines()[-1]}")
    demo(folder, program, "from-archive")


def package(folder: Path) -> None:
    """The Debian package."""
    [path] = PACKAGES.glob("*.deb")
    shutil.copy(path, folder / "tmp")
    _, took = inside(folder, ["dpkg", "-i", f"/tmp/{path.name}"])
    print(f"  dpkg -i {path.name}: {took:.1f} s")
    output, _ = inside(folder, ["sh", "-c", "thingbed doctor || true"])
    print(f"  thingbed doctor: {output.strip().splitlines()[-1]}")
    demo(folder, "thingbed", "from-package")
    inside(folder, ["dpkg", "--purge", "thingbed"])
    left = [path for path in folder.glob("usr/**/*thingbed*")]
    if left:
        sys.exit(f"error: after the removal of the package these are left: {left}")
    print("  dpkg --purge thingbed: nothing is left")


def wheel(folder: Path) -> None:
    """The wheel, in a virtual environment of the user."""
    paths = list(PACKAGES.glob("*.whl"))
    if not paths:
        print("  no wheel: `make dist` had no pip")
        return
    shutil.copy(paths[0], folder / "tmp")
    install = "apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv"
    inside(folder, ["sh", "-c", install])
    pip = f"python3 -m venv v && v/bin/pip install --no-index --no-deps /tmp/{paths[0].name}"
    _, took = inside(folder, ["sh", "-c", pip], user=True)
    print(f"  pip install {paths[0].name}: {took:.1f} s, with a new environment")
    demo(folder, "v/bin/thingbed", "from-wheel")


def container(folder: Path, suite: str) -> None:
    """The steps of the Containerfile: COPY, RUN, WORKDIR, ENTRYPOINT and CMD."""
    text = (PACKAGES / "Containerfile").read_text().replace("\\\n", " ")
    if f"FROM debian:{suite}" not in text:
        print(f"  NOT RUN: the Containerfile, which is for another suite than {suite}")
        return
    entry: list[str] = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "" | "#" | "FROM":
                pass
            case "COPY":
                pattern, to = rest.split()
                for path in PACKAGES.glob(pattern):
                    shutil.copy(path, folder / to.strip("/"))
            case "RUN":
                _, took = inside(folder, ["sh", "-c", rest])
                print(f"  RUN of the Containerfile: {took:.0f} s")
            case "WORKDIR":
                (folder / rest.strip("/")).mkdir(exist_ok=True)
            case "ENTRYPOINT":
                entry = [word.strip('", ') for word in rest.strip("[]").split(",")]
            case "CMD":
                pass
            case _:
                sys.exit(f"error: this program does not know the step {word} of the Containerfile")
    demo(folder, *entry, "from-container")


def main() -> None:
    """Tries all packages in all suites."""
    for suite in sys.argv[1:] or ["trixie"]:
        print(f"Debian {suite}:", flush=True)
        folder = root(suite)
        try:
            archive(folder)
            package(folder)
            wheel(folder)
            container(folder, suite)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
