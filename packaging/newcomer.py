#!/usr/bin/env python3
"""Does what a new user does, in a clean root folder of Debian, and prints the time of each step.

`sudo packaging/newcomer.py [FOLDER]`, after `make dist`: an ordinary user without any right
installs the wheel, runs `demo`, sweeps a Python program over loss with its 99th percentile as
figure, tests another with pytest (which must find a planted fault), has JUnit read by junitparser,
and imports and runs a compose file with a broker and two clients. The results of the sweep go to
FOLDER (default: `target/newcomer`). Needs root, mmdebstrap and the network.
"""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from roots import HOME, MIRROR, PACKAGES, inside, root

FILES = HOME / "packaging/newcomer"
EXAMPLES = HOME / "python/examples"
# Needed by no program of Thingbed, but by this user's.
TOOLS = "pytest junitparser ruamel.yaml>=0.18"


def step(folder: Path, what: str, command: str, marks: list[str], status: int = 0) -> str:
    """Runs a command of the user, whose output must contain all marks."""
    line = f"({command}) 2>&1; [ $? -eq {status} ]"
    output, took = inside(folder, ["bash", "-c", line], user=True, limit=900)
    missing = [mark for mark in marks if mark not in output]
    if missing:
        sys.exit(f"error: the output of `{command}` lacks {missing}\n{output}")
    print(f"| {what} | {took:.1f} s |", flush=True)
    return output


def image(archive: Path, name: str) -> None:
    """Makes an image with Mosquitto, as `docker save` writes it."""
    layer = archive.with_suffix(".layer")
    packages = "--include=mosquitto,mosquitto-clients"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", packages, "--format=tar", "trixie"]
    subprocess.run([*command, str(layer), MIRROR], check=True)
    data = layer.read_bytes()
    layer.unlink()
    layers = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": layers}).encode()
    digest = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{digest}.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        f"{digest}.json": config,
        "layer.tar": data,
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(archive, "w") as out:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))


def try_all(folder: Path, results: Path) -> None:
    """All steps, in this order."""
    user = folder / "tmp/user"
    [wheel] = PACKAGES.glob("*.whl")
    shutil.copy(wheel, folder / "tmp")
    for path in [*FILES.iterdir(), EXAMPLES / "server.py", EXAMPLES / "client.py"]:
        if path.is_file():
            shutil.copy(path, user)
    packages = "apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv"
    _, took = inside(folder, ["sh", "-c", packages])
    print(f"| `apt-get install python3-venv`, which a desktop has | {took:.1f} s |", flush=True)
    # Fetched outside, as a certificate authority of this machine is unknown in the root.
    version = inside(folder, ["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    fetch = ["pip", "download", "-q", "--only-binary=:all:", "--python-version", version[0].strip()]
    fetch = [sys.executable, "-m", *fetch, "-d", str(user / "wheels"), *TOOLS.split()]
    subprocess.run(fetch, check=True)
    options = "-q --no-index --find-links wheels"
    names = f"{wheel.name} pytest junitparser"
    install = f"python3 -m venv v && v/bin/pip install {options} /tmp/{names}"
    step(folder, f"`pip install {names}`, with a new environment", install, [])
    step(folder, "`thingbed demo`: first valid result", "v/bin/thingbed demo -q first", ["VALID"])
    sweep = "v/bin/thingbed run sweep.yaml -q --junit junit.xml"
    what = "a sweep of 15 runs: 99th percentile of a Python program by loss"
    print(step(folder, what, sweep, ["15 valid", "p99"]), file=sys.stderr)
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    shutil.copytree(next((user / "runs/own-program").iterdir()), results / "sweep")
    read = (
        'from junitparser import JUnitXml; suites = JUnitXml.fromfile("junit.xml"); '
        'print(sum(len(list(suite)) for suite in suites), "cases", suites.failures)'
    )
    step(folder, "JUnit file read by junitparser", f"v/bin/python -c '{read}'", ["15 cases 0"])
    marks = ["1 failed, 1 passed", "confirmed"]
    what = "pytest: one test passes, and one with a planted fault fails"
    step(folder, what, "v/bin/pytest -q test_meter.py", marks, status=1)
    image(user / "debian-mosquitto-13.tar", "debian-mosquitto:13")
    name = "v/bin/thingbed import compose.yaml -o broker.yaml"
    step(folder, "`thingbed import` of a compose file", name, ["3 groups of nodes"])
    run = "v/bin/thingbed run broker.yaml --clock virtual -q && cat runs/*/*/programs/reader*.out"
    what = "its broker and two clients run with an image of 126 MB"
    output = step(folder, what, run, ["1 valid", "\n100\n"])
    print(output, file=sys.stderr)


def main() -> None:
    """Tries all in Debian 13."""
    results = Path(sys.argv[1]) if sys.argv[1:] else HOME / "target/newcomer"
    folder = root("trixie")
    print("| step | time |\n| --- | --- |")
    try:
        try_all(folder, results)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"report: {results}/sweep", file=sys.stderr)


if __name__ == "__main__":
    main()
