"""Live labs in real time, and what is left of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import thingbed as tb
from thingbed import tool


def gone(pid: int, seconds: float = 60) -> bool:
    limit = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists() and not is_zombie(pid):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def is_zombie(pid: int) -> bool:
    """A process that no other waits for, in a container whose process 1 does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_programs_in_nodes(two: tb.Experiment) -> None:
    with two.up() as lab:
        near = lab.node("near")
        assert "1 received" in near.exec("ping", "-c", 1, "far").stdout
        assert near.exec("cat", input="a reading").stdout == "a reading"
        assert near.exec("sh", "-c", "echo $LEVEL; pwd", env={"LEVEL": "3"}, cwd="/tmp").stdout == (
            "3\n/tmp\n"
        )
        done = near.exec("sh", "-c", "echo bad >&2; exit 1", check=False)
        assert (done.status, done.stderr) == (1, "bad\n")
        with pytest.raises(tb.ProgramError, match="in near ended with status 3:\nbad") as error:
            near.exec("sh", "-c", "echo bad >&2; exit 3")
        assert error.value.status == 3
        with pytest.raises(tb.ToolError, match="could not run no-such-program in near"):
            near.exec("no-such-program", check=False)
        with pytest.raises(tb.ToolError, match="no group has the name `moon`"):
            lab.node("moon").exec("true")
        with pytest.raises(subprocess.TimeoutExpired):
            near.exec("sleep", 1234, timeout=0.5)
        assert "sleep 1234" not in near.exec("ps", "axo", "args").stdout
        with near.popen("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cat:
            assert cat.communicate("hello")[0] == "hello"
        assert "near" in lab._repr_html_()
        assert [one.pid for one in tb.labs() if one.name == lab.name] == [lab.pid]
    assert not lab.running and gone(lab.pid)
    assert lab.pid not in [one.pid for one in tb.labs()]


def test_links_of_a_lab(two: tb.Experiment) -> None:
    with two.up() as lab:
        link = lab.link("far", way="up")
        assert link.show()[0].settings == {"delay": "5 ms"}
        link.set(loss="10 %", delay="20 ms")
        assert link.show()[0].settings == {"delay": "20 ms", "loss": "10 %"}
        link.set(loss=None, gilbert_elliott=tb.Gilbert(p="1 %", r="20 %"), keep_order=True)
        settings = link.show()[0].settings
        assert "loss" not in settings and settings["gilbert_elliott"]["p"] == "1 %"
        link.set(tb.Impairment(delay="80 ms"), over="10 min")
        assert (link.show()[0].target or {})["delay"] == "80 ms"
        with pytest.raises(tb.InputError, match="has no unit"):
            link.set(delay=80)
        with pytest.raises(tb.InputError, match="did you mean `loss`"):
            link.set(los="1 %")
        lab.link("near").down()
        assert [one.down for one in lab.links("near")] == [True, True]
        lab.link("near").up()
        assert not any(one.down for one in lab.links())
        with pytest.raises(tb.ToolError, match="not attached to a network `moon`"):
            lab.link("near", network="moon").set(loss="1 %")


def test_nodes_of_a_lab(two: tb.Experiment, tmp_path: Path) -> None:
    script = "echo ready; exec sleep 1000"
    two.nodes = {
        "near": tb.Group(run=["sh", "-c", script], ready=tb.Ready(log="ready")),
        "far": tb.Group(),
    }
    with two.up() as lab:
        near = lab.node("near")
        assert (near.state().state, near.state().addresses) == ("running", ("10.0.0.1",))
        assert near.logs().endswith("ready\n")
        near.pause()
        assert near.state().state == "paused"
        near.resume()
        near.kill()
        near.start()
        (copy,) = lab.node("far").clone()
        assert copy.name == "far-2" and len(lab.nodes()) == 3
        assert "1 received" in copy.exec("ping", "-c", 1, "near").stdout
        copy.destroy()
        assert len(lab.nodes()) == 2
        near.set(mtu="600 B")
        with pytest.raises(tb.InputError):
            near.set(mtu=600)
        (tmp_path / "a.txt").write_text("a")
        near.put(tmp_path / "a.txt", str(tmp_path / "b.txt"))
        near.get(str(tmp_path / "b.txt"), tmp_path / "c.txt")
        assert (tmp_path / "c.txt").read_text() == "a"
        with lab.capture(tmp_path / "frames.pcapng", "near", filter="icmp"):
            near.exec("ping", "-c", 2, "-i", 0.2, "far")
        assert len((tmp_path / "frames.pcapng").read_bytes()) > 400


def test_a_lab_that_cannot_come_up(two: tb.Experiment) -> None:
    failing = ["sh", "-c", "echo address in use >&2; exit 1"]
    two.nodes = {"near": tb.Group(run=failing, ready=tb.Ready(tcp=1883)), "far": tb.Group()}
    with pytest.raises(tb.ToolError, match="address in use"):
        two.up()


def test_an_exception_takes_the_lab_down(two: tb.Experiment) -> None:
    with pytest.raises(ZeroDivisionError), two.up() as lab:
        init = lab.nodes()[0].pid
        raise ZeroDivisionError
    assert not lab.running and gone(lab.pid) and gone(init)


PROGRAM = """
import sys, threading, time, thingbed as tb
from pathlib import Path
lab = tb.up(sys.argv[1])
print(lab.pid, lab.nodes()[0].pid, flush=True)
with lab:
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_python_is_killed(two: tb.Experiment, number: signal.Signals) -> None:
    two.save("lab.yaml")
    command = [sys.executable, "-c", PROGRAM, "lab.yaml"]
    python = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert python.stdout is not None
    tool, init = map(int, python.stdout.readline().split())
    os.kill(python.pid, number)
    python.communicate(timeout=60)
    assert gone(tool) and gone(init)
    assert tool not in [lab.pid for lab in tb.labs()]
    # The lab had time to remove its control group and its socket: `thingbed gc` finds nothing.
    done = subprocess.run(
        [os.environ["THINGBED_BIN"], "gc"], capture_output=True, text=True, check=True
    )
    assert str(tool) not in done.stdout + done.stderr


def test_a_lab_of_a_thread_outlives_the_thread(two: tb.Experiment) -> None:
    async def start() -> tb.Lab:
        return await asyncio.to_thread(two.up)

    with asyncio.run(start()) as lab:
        assert lab.node("near").exec("hostname").stdout == "near\n"


def test_labs_and_runs_of_asyncio(two: tb.Experiment) -> None:
    async def work() -> int:
        async with two.up_async() as lab:
            near = lab.node("near")
            both = await asyncio.gather(near.exec("hostname"), lab.node("far").exec("hostname"))
            assert [one.stdout for one in both] == ["near\n", "far\n"]
            await lab.link("far", way="up").set(loss="100 %")
            done = await near.exec("ping", "-c", 1, "-W", 1, "far", check=False)
            assert "100% packet loss" in done.stdout
            with pytest.raises(TimeoutError):
                await near.exec("sleep", 1234, timeout=0.3)
            sleeping = asyncio.create_task(near.exec("sleep", 4321))
            await asyncio.sleep(0.3)
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping
            programs = (await near.exec("ps", "axo", "args")).stdout
            assert "sleep 1234" not in programs and "sleep 4321" not in programs
            assert len(await lab.nodes()) == 2 and len(await lab.links()) == 4
            assert (await near.state()).name == "near"
            return lab.pid

    assert gone(asyncio.run(work()))


def test_cancelling_stops_a_lab_and_a_run(two: tb.Experiment, pings: tb.Experiment) -> None:
    pids: list[int] = []
    pings.experiment = f"pings-{os.getpid()}"

    async def stay() -> None:
        async with two.up_async() as lab:
            pids.append(lab.pid)
            await asyncio.sleep(1000)

    async def work() -> None:
        task = asyncio.create_task(stay())
        while not pids:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await pings.run_async(progress=False)

    asyncio.run(work())
    assert gone(pids[0])
    assert not [lab for lab in tb.labs() if lab.name in (pings.experiment, two.experiment)]


def test_runs_of_asyncio_go_on_at_once(pings: tb.Experiment) -> None:
    async def work() -> list[tb.Result]:
        runs = (pings.run_async(clock="virtual", seed=seed, progress=False) for seed in (1, 2))
        return list(await asyncio.gather(*runs))

    first, second = asyncio.run(work())
    assert (first.verdict, second.verdict) == ("valid", "valid")
    assert first.runs[0].summary["seed"] == 1 and second.runs[0].summary["seed"] == 2


def test_a_lab_that_does_not_answer_is_listed_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        {"pid": 7, "answers": False},
        {"pid": 8, "answers": True, "experiment": "farm", "folder": "/runs/farm"},
    ]
    monkeypatch.setattr(tool, "call", lambda words: json.dumps(listed))
    silent, other = tb.labs()
    assert (silent.pid, silent.answers, silent.name) == (7, False, "")
    assert (other.pid, other.answers, other.name) == (8, True, "farm")
