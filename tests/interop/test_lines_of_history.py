"""A model of branches: random changes on random lines, both libraries taking turns."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

MAIN = "main"


@dataclass
class Model:
    """The values of every version of every line, by number."""

    path: str
    lines: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    tags: dict[str, tuple[str, int]] = field(default_factory=dict)
    next_value: int = 10

    def newest(self, line: str) -> int:
        return max(self.lines[line])

    def open(self, library: Any, line: str, version: int | None = None) -> Any:
        return library.dataset(self.path).checkout_version((line, version))

    def commit(self, line: str, values: list[int]) -> None:
        self.lines[line][self.newest(line) + 1] = values

    def check(self) -> None:
        for line, versions in self.lines.items():
            for library in (pilum, lance):
                found = self.open(library, line)
                assert found.version == self.newest(line)
                assert sorted(found.to_table()["a"].to_pylist()) == versions[found.version]
                assert [one["version"] for one in found.versions()] == sorted(versions)


def step(model: Model, library: Any, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(sorted(model.lines)))
    version = data.draw(st.sampled_from(sorted(model.lines[line])))
    values = model.lines[line][model.newest(line)]
    kind = data.draw(st.sampled_from(["append", "delete", "branch", "branch", "tag", "restore"]))
    dataset = model.open(library, line)
    if kind == "append":
        rows = [model.next_value, model.next_value + 1]
        model.next_value += 2
        library.write_dataset(pa.table({"a": rows}), f"{_root(model, line)}", mode="append")
        model.commit(line, [*values, *rows])
    elif kind == "delete" and values:
        gone = data.draw(st.sampled_from(values))
        dataset.delete(f"a = {gone}")
        model.commit(line, [value for value in values if value != gone])
    elif kind == "branch":
        name = f"b{len(model.lines)}" if line == MAIN else f"{line}/{len(model.lines)}"
        begun = dataset.create_branch(name, (line, version))
        assert begun.version == version
        model.lines[name] = {version: model.lines[line][version]}
    elif kind == "tag":
        dataset.tags.create(f"t{len(model.tags)}", (line, version))
        model.tags[f"t{len(model.tags)}"] = (line, version)
    elif kind == "restore":
        model.open(library, line, version).restore()
        model.commit(line, model.lines[line][version])


def _root(model: Model, line: str) -> str:
    return model.path if line == MAIN else f"{model.path}/tree/{line}"


@given(st.data())
@settings(max_examples=5)
def test_lines_do_not_see_each_other(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(str(Path(folder, "t")))
        table = pa.table({"a": [1, 2, 3]})
        lance.write_dataset(table, model.path, data_storage_version="2.1", max_rows_per_file=2)
        model.lines[MAIN] = {1: [1, 2, 3]}
        for number in range(7):
            step(model, (pilum, lance)[number % 2], data)
            model.check()
        for name, (line, version) in model.tags.items():
            for library in (pilum, lance):
                found = library.dataset(model.path).checkout_version(name)
                values = sorted(found.to_table()["a"].to_pylist())
                assert values == model.lines[line][version]
        for line in set(model.lines) - {MAIN}:
            record = pilum.dataset(model.path).branches.list()[line]
            theirs = lance.dataset(model.path).branches.list()[line]
            assert record == theirs
