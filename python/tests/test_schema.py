"""The classes of the experiment file, against the schema and the tool."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import ROOT

import thingbed as tb
from thingbed import tool, yaml
from thingbed.part import decode

EXPERIMENTS = sorted((ROOT / "experiments").glob("*.yaml"))


def test_the_classes_are_up_to_date() -> None:
    generator = ROOT / "python" / "generate.py"
    done = subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_schema_is_that_of_the_tool() -> None:
    schema = json.loads((ROOT / "schema" / "experiment.schema.json").read_text())
    assert json.loads(tool.call(["schema"])) == schema


def test_there_are_experiments() -> None:
    assert len(EXPERIMENTS) > 10


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_file_survives_reading_and_writing(path: Path) -> None:
    """All keys of all experiments: data, classes, data, YAML, data."""
    data = without_nulls(yaml.load(path))
    experiment = tb.Experiment.from_data(data)
    assert experiment.to_data() == data
    written = experiment.save("written.yaml")
    assert yaml.load(written) == data


def without_nulls(data: object) -> dict[str, object]:
    """The tool takes a key without a value as one that is not there."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items() if inner is not None}
        return [clean(inner) for inner in value] if isinstance(value, list) else value

    cleaned = clean(data)
    assert isinstance(cleaned, dict)
    return cleaned


def test_a_file_and_its_copy_have_the_same_plan() -> None:
    path = ROOT / "experiments" / "demo.yaml"
    experiment = tb.Experiment.read(path)
    assert experiment.folder == path.parent
    assert experiment.plan() == json.loads(tool.call(["plan", "--json", str(path)]))


def test_nested_parts_are_objects() -> None:
    experiment = tb.Experiment.read(ROOT / "experiments" / "demo.yaml")
    assert experiment.networks and experiment.profiles
    assert isinstance(next(iter(experiment.networks.values())), tb.Network)
    lossy = experiment.profiles["lossy"]
    assert isinstance(lossy, tb.Profile) and lossy.links
    assert isinstance(next(iter(lossy.links.values())), tb.Link)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "null",
        "10",
        "1_0",
        "- a",
        "a: b",
        "a #b",
        "",
        " a ",
        "${loss}",
        'it\'s "so"',
        "line\nline",
        "\x85\u2028\x7f",
        "ünï 🎈",
        "{}",
        "10 ms",
        "1e3",
        "0x10",
        "2026-01-01",
        "~",
        "[a]",
        "a, b",
        "<<",
        "/usr/bin/x",
        "-c",
        "12:30",
        "!!str",
    ],
)
def test_every_text_survives_yaml(text: str) -> None:
    data = {"experiment": text, "nodes": {text or "x": {"run": [text, 1, 2.5, True]}}}
    Path("text.yaml").write_text(yaml.dump(data), encoding="utf-8")
    assert yaml.load(Path("text.yaml")) == data


def test_values_are_converted() -> None:
    group = tb.Group(run=[Path("/bin/sh"), "-c", 5], clock_offset=timedelta(milliseconds=1500))
    assert group.to_data() == {"run": ["/bin/sh", "-c", 5], "clock_offset": "1500000 us"}
    assert tb.Metric(from_="stderr", match="x").to_data() == {"from": "stderr", "match": "x"}
    assert tb.Capture().to_data() == {}
    gilbert = tb.Gilbert(p="1 %", one_minus_h="50 %")
    assert gilbert.to_data() == {"p": "1 %", "1-h": "50 %"}
    assert tb.axis("loss") == "${loss}"
    with pytest.raises(TypeError, match="cannot contain"):
        tb.Group(run=[b"bytes"]).to_data()  # type: ignore[list-item]


def test_mistakes_in_python_are_type_errors() -> None:
    with pytest.raises(TypeError, match="los"):
        tb.Impairment(los="1 %")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="los"):
        tb.two_nodes(["true"], ["true"], los="1 %")


def test_mistakes_in_data_name_their_place() -> None:
    with pytest.raises(tb.InputError, match=r"x\.links\.far\.up: unknown key `los`"):
        decode(tb.Network, {"links": {"far": {"up": {"los": "1 %"}}}}, "x")
    with pytest.raises(tb.InputError, match="a workload has one key of interaction, mqtt"):
        tb.Experiment.from_data({"experiment": "x", "nodes": {}, "workloads": [{"what": {}}]})


def test_mistakes_in_an_experiment_have_the_words_of_the_tool() -> None:
    experiment = tb.two_nodes(["true"], ["true"], delay="30")
    with pytest.raises(tb.InputError) as error:
        experiment.check()
    assert "`30` has no unit; write for example `30 ms`" in str(error.value)
    assert "delay:" in str(error.value)
    with pytest.raises(tb.InputError, match="has no unit"):
        experiment.run(progress=False)
    with pytest.raises(tb.InputError, match="has no unit"):
        experiment.up()
    Path("bad.yaml").write_text("experiment: x\nnods: {}\n")
    with pytest.raises(tb.InputError, match="did you mean `nodes`"):
        tb.Experiment.read("bad.yaml")
    with pytest.raises(tb.ThingbedError, match="missing.yaml"):
        tb.Experiment.read("missing.yaml")


def test_a_program_that_is_not_there() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THINGBED_BIN", "/no/thingbed")
        with pytest.raises(tb.ToolNotFoundError, match="THINGBED_BIN=/no/thingbed"):
            tool.find()
        patch.delenv("THINGBED_BIN")
        patch.setenv("PATH", "/no")
        with pytest.raises(tb.ToolNotFoundError, match="not in PATH"):
            tb.labs()


def test_experiments_are_shown_in_jupyter() -> None:
    shown = tb.two_nodes(["echo", "<b>"], ["true"])._repr_html_()
    assert shown.startswith("<pre>experiment: two-nodes") and "&lt;b&gt;" in shown
