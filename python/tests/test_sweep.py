"""The results of a sweep in virtual time, and frames of them."""

import importlib.util
from collections.abc import Iterator

import pandas
import polars
import pytest

import thingbed as tb
from thingbed import frames


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tb.Result:
    """Two cells, two repeats."""
    payload = tmp_path_factory.mktemp("sweep")
    (payload / "reading.txt").write_text("20 degrees")
    impairment = tb.Impairment(delay="10 ms", loss=tb.axis("loss"))
    experiment = tb.Experiment(
        experiment="sweep",
        folder=payload,
        nodes={"gateway": tb.Group(), "meter": tb.Group(count=2)},
        networks={
            "field": tb.Network(
                attach=["gateway", "meter"],
                subnet="10.0.0.0/24",
                links={"meter": tb.Link(up=impairment)},
            )
        },
        models={"udp": tb.Model(down="udp/request-response", up="udp/request-response")},
        workloads=[
            tb.Interaction(
                source="gateway",
                sinks="meter",
                model="udp",
                payload="reading.txt",
                every="50 ms",
                count=40,
            ),
            tb.Command(
                name="ping",
                on="meter-1",
                run=["ping", "-c", 3, "-i", 0.2, "meter-2"],
                metrics={"rtt": tb.Metric(match="time=([0-9.]+)", unit="ms", optional=True)},
            ),
        ],
        matrix={"loss": ["0 %", "30 %"]},
        repeats=2,
        drain="1 s",
    )
    lines: list[str] = []
    result = experiment.run(
        clock="virtual", out=payload / "runs", progress=lines.append, check=False
    )
    assert any("[4/4]" in line for line in lines), lines
    return result


def test_a_sweep_has_a_result_for_each_run(sweep: tb.Result) -> None:
    assert (sweep.name, sweep.verdict, len(sweep.runs)) == ("sweep", "valid", 4)
    assert {(run.cell["loss"], run.repeat) for run in sweep.runs} == {
        (loss, repeat) for loss in ("0 %", "30 %") for repeat in (0, 1)
    }
    assert sweep.report.exists() and "VALID" in sweep.text
    assert sweep.figure("messages.sent", loss="0 %") == 40
    assert sweep.figure("messages.unanswered_pct", loss="0 %") == 0
    assert 5 < sweep.figure("messages.unanswered_pct", loss="30 %") < 60
    with pytest.raises(KeyError, match="name one cell"):
        sweep["messages.sent"]
    with pytest.raises(KeyError, match="similar: messages.sent"):
        sweep.runs[0]["message.sent"]
    assert "PING meter-2" in sweep.runs[0].output("meter-1")
    for node, program, problem in (
        ("meter", None, "no node `meter`"),
        ("meter-1", "pong", "it has ping"),
        ("meter-2", None, "meter-2 has 0 programs"),
    ):
        with pytest.raises(KeyError, match=problem):
            sweep.runs[0].output(node, program)


def test_results_can_be_read_later(sweep: tb.Result) -> None:
    again = tb.read(sweep.folder)
    assert [run.summary for run in again.runs] == [run.summary for run in sweep.runs]
    with pytest.raises(FileNotFoundError, match="not the folder of a sweep"):
        tb.read(sweep.folder.parent)


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    find = importlib.util.find_spec
    if request.param == "pandas":
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name: find(name) if name != "polars" else None,
        )
    yield request.param


def rows(frame: object, library: str) -> list[dict[str, object]]:
    if library == "polars":
        assert isinstance(frame, polars.DataFrame)
        return frame.to_dicts()
    assert isinstance(frame, pandas.DataFrame)
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def test_a_frame_has_a_row_for_each_node(sweep: tb.Result, library: str) -> None:
    found = rows(sweep.frame(), library)
    assert len(found) == 4 * 3
    assert list(found[0])[:5] == ["loss", "repeat", "verdict", "node", "group"]
    first = {str(row["node"]): row for row in found if (row["loss"], row["repeat"]) == ("0 %", 1)}
    assert set(first) == {"gateway", "meter-1", "meter-2"}
    assert (first["gateway"]["sent"], first["gateway"]["answered"]) == (40, 40)
    assert first["gateway"]["rtd_ms_p50"] == pytest.approx(10, abs=0.5)
    assert first["meter-1"]["ping.rtt"] == pytest.approx(20, abs=0.5)
    summary = next(run for run in sweep.runs if run.cell["loss"] == "0 %" and run.repeat == 1)
    assert first["gateway"]["tx_bytes"] >= summary["groups.gateway.tx_bytes"]
    # With an infinite CPU, programs take no time: there is no figure.
    assert first["gateway"].get("cpu_user_ms") is None


def test_frames_of_tables(sweep: tb.Result, library: str) -> None:
    summary = rows(sweep.frame("summary"), library)
    assert [row["messages.sent"] for row in summary] == [40] * 4
    messages = rows(sweep.frame("messages"), library)
    assert len(messages) == 4 * 40
    assert list(messages[0])[:4] == ["loss", "repeat", "verdict", "message"]
    assert {row["loss"] for row in messages} == {"0 %", "30 %"}
    with pytest.raises(KeyError, match="there are nodes, summary, .*messages"):
        sweep.frame("message")


def test_frames_without_a_library(sweep: tb.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"thingbed\[polars\]"):
        sweep.frame()
    assert sweep.runs[0].figures["messages.sent"] == 40


def test_numbers_of_axes_are_numbers() -> None:
    assert [frames.number(text) for text in ("5", "0.5", "1_0", "nan", "5 %", "007")] == [
        5,
        0.5,
        "1_0",
        "nan",
        "5 %",
        "007",
    ]


def test_results_are_shown_in_jupyter(sweep: tb.Result) -> None:
    shown = sweep._repr_html_()
    assert shown.count("<tr>") == 5 and ">valid</span>" in shown
    assert "<th>loss</th>" in shown and "<th>ping.rtt</th>" in shown


def test_an_axis_has_one_type(sweep: tb.Result) -> None:
    runs = [tb.Run(run.folder) for run in sweep.runs]
    for run, value in zip(runs, ("1", "8", "infinite", "0.5"), strict=True):
        run.summary["cell"] = {"cpu": value, "size": value.replace("infinite", "2")}
    found = frames.labels(runs).values()
    assert [row["cpu"] for row in found] == ["1", "8", "infinite", "0.5"]
    assert [row["size"] for row in found] == [1, 8, 2, 0.5]
