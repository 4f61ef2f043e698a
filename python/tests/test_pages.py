"""The tutorial's commands run, and the table of contents lists all pages."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from conftest import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<kind>\w+)\n(?P<text>.*?)^```", re.M | re.S)


# Sections of the tutorial whose runs only repeat what other tests cover.
LONG = ("thingbed demo", "--repeat 5", "thingbed compare")
# Labs of other tests must not be visible: commands without `--lab` would fail.
ALONE = """
folder=/run/thingbed
[ $(id -u) != 0 ] || { mkdir -p -m 700 $folder; mount -t tmpfs -o mode=700 none $folder; }
trap 'status=$?; thingbed gc >/dev/null 2>&1 || true; exit $status' EXIT
"""


def words(text: str) -> str:
    return " ".join(text.split())


def shell(text: str, folder: Path, runtime: str) -> tuple[int, str]:
    """Run commands as a reader does; returns exit status and output."""
    path = f"{Path(os.environ['THINGBED_BIN']).parent}:{os.environ['PATH']}"
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*alone, "bash", "-eo", "pipefail", "-c", ALONE + text],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "120", "XDG_RUNTIME_DIR": runtime},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_tutorial_runs(tmp_path: Path) -> None:
    """Files are saved under their names; commands run; what the page shows is in the output."""
    output: str | None = ""
    shown = 0
    for block in BLOCK.finditer((DOCS / "tutorial.md").read_text()):
        text = block["text"]
        match block["kind"]:
            case "python" | "yaml":
                [name] = re.findall(r"[Ss]ave .*as `([\w.]+)`", block["before"])
                (tmp_path / name).write_text(text)
            case "sh" if not any(long in text for long in LONG):
                status_found = re.search(r"# exit status (\d+)", text)
                expected = int(status_found[1]) if status_found else 0
                # A short path, because sockets are in it.
                with tempfile.TemporaryDirectory() as runtime:
                    status, shell_output = shell(text, tmp_path, runtime)
                output = words(shell_output)
                assert status == expected, f"{text}\n{shell_output}"
            case "sh":
                output = None
            case "text" if output is not None:
                for line in text.splitlines():
                    assert line == "..." or words(line) in output, f"{line!r} is not in {output}"
                    shown += 1
            case "text":
                pass
            case kind:
                raise AssertionError(f"the test does not know blocks of {kind}")
    assert shown > 5


def test_the_contents_list_all_pages_and_links_exist() -> None:
    folders = ["", "how-to/", "experiment-file/"]
    pages = {path for folder in folders for path in DOCS.glob(f"{folder}*.md")}
    listed = re.findall(r"\]\(([^)]+)\)", (DOCS / "SUMMARY.md").read_text())
    assert {DOCS / name for name in listed} == pages - {DOCS / "SUMMARY.md"}
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).resolve().exists(), f"{page}: {link}"
