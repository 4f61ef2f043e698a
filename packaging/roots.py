"""Clean root folders of Debian, and commands in them."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
PACKAGES = HOME / "target/packages"
ROOTS = HOME / "target/roots"
MIRROR = os.environ.get("MIRROR", "http://deb.debian.org/debian")
# Options of a user without any right, as in an unprivileged container.
USER = [
    "setpriv",
    "--reuid=1000",
    "--regid=1000",
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps=-all",
    "--bounding-set=-all",
]


def root(suite: str) -> Path:
    """Makes the root folder of a suite."""
    folder = ROOTS / suite
    if folder.exists():
        shutil.rmtree(folder)
    ROOTS.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", suite, str(folder), MIRROR], check=True
    )
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    (folder / "tmp/user").mkdir()
    os.chown(folder / "tmp/user", 1000, 1000)
    return folder


def inside(
    folder: Path, command: list[str], user: bool = False, limit: float = 300
) -> tuple[str, float]:
    """Runs a command in a root folder, in new namespaces; returns output and seconds."""
    setup = (
        'mount -t proc proc "$1/proc"; mkdir -p "$1/dev/shm"; mount -t tmpfs tmpfs "$1/dev/shm"; '
        'root=$1; shift; exec chroot "$root" "$@"'
    )
    words = [
        *(USER if user else []),
        "env",
        "-i",
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME=/tmp/user",
        "DEBIAN_FRONTEND=noninteractive",
        "sh",
        "-c",
        f"cd /tmp/user && {shlex.join(command)}",
    ]
    before = time.monotonic()
    done = subprocess.run(
        ["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", setup, "sh", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    took = time.monotonic() - before
    if done.returncode != 0:
        what = f"exit status {done.returncode} of {shlex.join(command)} in {folder}"
        sys.exit(f"error: {what}\n{done.stdout}")
    return done.stdout, took
