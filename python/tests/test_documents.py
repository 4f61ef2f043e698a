"""The examples of the documents, and the example notebook, are run."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient
from test_search import program

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def blocks(path: Path) -> list[tuple[int, str]]:
    text = path.read_text()
    return [(text[: found.start()].count("\n") + 2, found[1]) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("name", ["docs/python.md", "python/README.md"])
def test_the_examples_of_a_document_run(name: str, tmp_path: Path) -> None:
    """One after the other, in one namespace. Blocks with tests are only compiled."""
    found = blocks(ROOT / name)
    assert found
    write_files(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    for line, code in found:
        code = "\n" * (line - 1) + code.replace('"python3"', f'"{sys.executable}"')
        compiled = compile(code, name, "exec")
        if "def test_" not in code:
            exec(compiled, names)


#: A link of 64 kbit/s to all meters, each of which gets 154 B five times a second: ten have room.
GATEWAY = """\
experiment: gateway
nodes: {gateway: {}, meter: {count: '${meters}'}}
networks:
  field:
    attach: [gateway, meter]
    subnet: 10.0.0.0/24
    links: {gateway: {up: {rate: 64 kbit/s}}}
models: {udp: {down: udp/request-response, up: udp/request-response, every: 0.2 s}}
workloads: [{interaction: {source: gateway, sinks: meter, model: udp, payload: reading.txt}}]
matrix: {meters: [4]}
duration: 4 s
drain: 1 s
"""


def write_files(folder: Path) -> None:
    """The files that the documents name."""
    (folder / "first.yaml").write_text(experiment_in("README.md", "first"))
    (folder / "builds.yaml").write_text(experiment_in("docs/compare.md", "builds"))
    (folder / "gateway.yaml").write_text(GATEWAY)
    (folder / "reading.txt").write_text("x" * 100)
    for name in ("old", "new"):
        program(folder, name, 100)


def experiment_in(document: str, name: str) -> str:
    """The experiment file of this name in a document."""
    text = (ROOT / document).read_text()
    found = re.search(rf"```yaml\n(experiment: {name}\n.*?)```", text, re.S)
    assert found is not None
    return found[1]


def test_the_notebook_runs(tmp_path: Path) -> None:
    path = ROOT / "python" / "examples" / "loss.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    pages = [output.get("data", {}).get("text/html", "") for output in outputs]
    # The experiment, its result, the frame, and the nodes of the lab.
    assert any("<pre>experiment: notebook" in page for page in pages)
    assert any(">valid</span>" in page for page in pages)
    assert any("dataframe" in page for page in pages)
    assert any("10.0.0.2" in page for page in pages)
