"""The action file and the GitLab template: valid by their schemas, and their shell steps run."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from ruamel.yaml import YAML

ACTION = ROOT / "action.yml"
GITLAB = ROOT / "ci" / "gitlab.yml"
FILE = """\
experiment: ci
nodes: {a: {}, b: {}}
networks: {field: {attach: [a, b], subnet: 10.0.0.0/24}}
workloads:
- command:
    name: client
    on: a
    run: [sh, -c, "echo value 5"]
    metrics: {value: {match: "value ([0-9]+)"}}
duration: 1 s
expect: [{say: the value is small, metric: programs.client.value.mean, is: below, value: LIMIT}]
"""


@pytest.mark.parametrize(
    ("schema", "path"),
    [("github-actions", ACTION), ("gitlab-ci", GITLAB)],
    ids=["action", "gitlab"],
)
def test_the_file_is_valid(schema: str, path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def run(script: str, variables: dict[str, str]) -> int:
    """Run a shell step, as the services do."""
    path = f"{Path(os.environ['THINGBED_BIN']).parent}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, env=os.environ | variables | {"PATH": path}, check=False, timeout=120
    ).returncode


def steps() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = YAML(typ="safe").load(ACTION)
    return action, action["runs"]["steps"]


def junit(path: Path) -> tuple[int, int]:
    """Number of tests and of failures."""
    suites = ET.parse(path).getroot()
    return int(suites.attrib["tests"]), int(suites.attrib["failures"])


@pytest.mark.parametrize(
    ("limit", "status", "word", "failures"), [(6, 0, "passed", 0), (4, 4, "failed", 1)]
)
def test_the_action_runs_an_experiment(
    tmp_path: Path, limit: int, status: int, word: str, failures: int
) -> None:
    (tmp_path / "ci.yaml").write_text(FILE.replace("LIMIT", str(limit)))
    action, all_steps = steps()
    [step] = [step for step in all_steps if step.get("id") == "run"]
    inputs = {name: given.get("default", "") for name, given in action["inputs"].items()}
    inputs["experiment"] = "ci.yaml"
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in step["env"].items()
    }
    files = {
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "page"),
    }
    assert run(step["run"], variables | files) == status
    assert (tmp_path / "output").read_text() == f"status={word}\n"
    assert "ci" in (tmp_path / "page").read_text()
    assert junit(tmp_path / "thingbed.xml") == (2, failures)


def test_a_wrong_file_is_an_error_and_options_are_words(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text("experiment: [")
    [step] = [step for step in steps()[1] if step.get("id") == "run"]
    variables = {
        "EXPERIMENT": "ci.yaml",
        "RESULTS": "runs",
        "JUNIT": "x.xml",
        "GITHUB_OUTPUT": "out",
    }
    assert run(step["run"], variables | {"OPTIONS": "--clock virtual --only *"}) == 2
    assert (tmp_path / "out").read_text() == "status=error\n"


def test_the_action_installs_only_the_named_package(tmp_path: Path) -> None:
    """With programs in place of apt-get and sudo."""
    for name in ("apt-get", "sudo"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\n[ "${0##*/}" = apt-get ] || exec "$@"\necho "$@" >called\n')
        program.chmod(0o755)
    [step] = [step for step in steps()[1] if step["name"].startswith("Install")]
    script = f'PATH="{tmp_path}:$PATH"\n' + step["run"]
    assert run(script, {"PACKAGE": "a b.deb"}) == 0
    assert (tmp_path / "called").read_text() == "install -y --no-install-recommends ./a b.deb\n"


def test_the_gitlab_template_runs_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(FILE.replace("LIMIT", "6"))
    job = YAML(typ="safe").load(GITLAB)[".thingbed"]
    assert run("\n".join(job["script"]), job["variables"] | {"EXPERIMENT": "ci.yaml"}) == 0
    assert junit(tmp_path / "thingbed.xml") == (2, 0)
    assert list(tmp_path.glob("runs/ci/*/report.html"))
