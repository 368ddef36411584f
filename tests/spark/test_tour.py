"""The tour runs: the cells of the notebook in order, with this session and without Jupyter."""

from __future__ import annotations

import json
import linecache
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark.helpers import ROOT, since, with_patience
from spark.notebooks import Shell

NOTEBOOK = ROOT / "demo" / "tour.ipynb"


def cells() -> list[str]:
    """The code of the notebook."""
    found = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def execute(shell: Shell, number: int, cell: str) -> None:
    """Runs a cell as IPython does: the first line may be a magic."""
    first, _, rest = cell.partition("\n")
    if first.startswith("%load_ext "):
        shell.load(first.removeprefix("%load_ext "))
    elif first.startswith("%%"):
        name, _, line = first.removeprefix("%%").partition(" ")
        shell.magics[name](line, rest)
    else:
        where = f"{NOTEBOOK.name}, cell {number}"
        linecache.cache[where] = len(cell), None, cell.splitlines(keepends=True), where
        exec(compile(cell, where, "exec"), shell.user_ns)


@since(4, 2)
def test_the_tour_from_a_file_to_a_model(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # other tests use the session
    variables: dict[str, Any] = {"__name__": "__main__"}
    shell = Shell(**variables)
    for number, cell in enumerate(cells()):
        with_patience(partial(execute, shell, number, cell))
    assert shell.user_ns["right"].mean() > 0.9


def test_the_notebook_has_no_results() -> None:
    """They would be those of one machine; and differences of the file show what changed."""
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
