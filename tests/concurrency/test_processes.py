"""Several processes change one table in all ways at once, ours and the reference's mixed.

Every acknowledged change names its version. So the table is replayed, version by version, on a
dict of rows: each version must be what its one change makes of the version before. What is lost,
doubled or mixed up would show.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from explore.setting import EXPLORES
from guard import GUARD_SECONDS

import pilum

ROOT = Path(__file__).parents[2]
CHANGES = 30 if EXPLORES else 6
"""Of each process."""


def run_workers(
    path: Path, libraries: list[str], seed: int, options: dict[str, str]
) -> list[dict[str, Any]]:
    """What all workers have told; the options are for ours."""
    script = str(Path(__file__).with_name("worker.py"))
    of_library = {"pilum": json.dumps(options), "lance": "{}"}
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, script, library, path, str(seed), str(number)),
                *(str(CHANGES), of_library[library]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number, library in enumerate(libraries, 1)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told: list[dict[str, Any]] = []
    for process in processes:
        out, _ = process.communicate(timeout=GUARD_SECONDS)
        assert process.returncode == 0
        told += map(json.loads, out.splitlines())
    return told


class Model:
    """The table as a dict."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, int | None]] = {}
        self.columns = {"id", "v"}

    def apply(self, change: dict[str, Any]) -> None:
        if change["do"] == "overwrite":
            self.rows, self.columns = {}, {"id", "v"}
        if change["do"] in {"append", "overwrite"}:
            assert self.rows.keys().isdisjoint(change["ids"])
        if change["do"] in {"append", "overwrite"}:
            self.rows |= {number: {"id": number, "v": 0} for number in change["ids"]}
        if change["do"] == "merge":  # columns that were not given keep their values
            given = dict.fromkeys(change["columns"])
            for number in change["ids"]:
                kept = self.rows.get(number, {})
                self.rows[number] = kept | given | {"id": number, "v": 0}
        if change["do"] == "add column":
            self.columns.add(change["name"])
            for number, row in self.rows.items():
                row[change["name"]] = number * 2
        for number in self.rows.keys() & set(change.get("ids", ())):
            if change["do"] == "delete":
                del self.rows[number]
            if change["do"] == "update":
                self.rows[number]["v"] = (self.rows[number]["v"] or 0) + 1

    def table(self) -> list[dict[str, int | None]]:
        return [
            {name: row.get(name) for name in sorted(self.columns)}
            for _, row in sorted(self.rows.items())
        ]


def rows_of(data: Any) -> list[dict[str, int | None]]:
    rows = data.to_table().to_pylist()
    return [dict(sorted(row.items())) for row in sorted(rows, key=lambda row: row["id"])]


@pytest.mark.checklist("S2.8", "S2.9")
@pytest.mark.seeds(1)
@pytest.mark.parametrize(
    "libraries",
    [
        pytest.param(["pilum"] * 2, id="entries"),
        pytest.param(["pilum", "lance"] * 2, marks=pytest.mark.reference, id="mixed"),
    ],
)
def test_every_version_is_what_its_change_makes_of_the_one_before(
    tmp_path: Path, libraries: list[str], seed: int
) -> None:
    path = tmp_path / "t"
    # Whoever is not killed by a loss of power loses nothing: nobody waits for the device.
    options = {"sync": "false"}
    if "lance" not in libraries:
        options["manifest_store"] = f"sqlite://{tmp_path}/entries.db"
    empty = pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})
    pilum.write_dataset(empty, path, storage_options=options)
    told = run_workers(path, libraries, seed, options)
    latest = pilum.dataset(path, storage_options=options)
    commits = [change for change in told if change["do"] not in {"tag", "fail"}]
    changes = {change["version"]: change for change in commits}
    assert len(changes) == len(commits)
    numbers = [version["version"] for version in latest.versions()]
    assert numbers == list(range(1, latest.version + 1))
    model = Model()
    for version in numbers:
        if version in changes:
            model.apply(changes[version])
        found = rows_of(latest.checkout_version(version))
        assert found == model.table(), f"version {version}: {changes.get(version)}"
    tags = {name: tag["version"] for name, tag in latest.tags.list().items()}
    assert tags == {change["name"]: change["version"] for change in told if change["do"] == "tag"}
    if "lance" in libraries:
        theirs: Any = pytest.importorskip("lance").dataset(str(path))
        assert rows_of(theirs) == model.table()
        theirs.validate()
