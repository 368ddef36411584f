"""Tables with stable row ids as a model: a dict from id to row, through changes of all kinds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import pilum

pytestmark = pytest.mark.checklist("S2.12")

COLUMNS = ["key", "value", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
Row = tuple[int, int, int, int]
"""Key, value, version that created it, version that changed it."""

MODULUS = st.tuples(st.integers(2, 5), st.integers(0, 4))


class StableTable(RuleBasedStateMachine):
    """Random changes; after each, the table is what the dict says."""

    @initialize()
    def create(self) -> None:
        """Twelve rows in files of five."""
        self.folder = tempfile.mkdtemp()
        self.rows: dict[int, Row] = {}
        self.history: dict[int, dict[int, Row]] = {}
        self.next_id = self.next_key = 0
        self.path = Path(self.folder) / "t"
        table = self._new(12)
        options: Any = {"enable_stable_row_ids": True, "max_rows_per_file": 5}
        self.dataset = pilum.write_dataset(table, self.path, **options)
        self._added(table)

    def teardown(self) -> None:
        """Removes the table."""
        shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 6))
    def append(self, count: int) -> None:
        """Adds rows."""
        table = self._new(count)
        self.dataset.insert(table)
        self._added(table)

    @rule(count=st.integers(1, 6))
    def overwrite(self, count: int) -> None:
        """Replaces all rows by new ones."""
        table = self._new(count)
        self.dataset.insert(table, mode="overwrite")
        self.rows = {}
        self._added(table)

    @rule(chosen=MODULUS)
    def delete(self, chosen: tuple[int, int]) -> None:
        """Deletes some rows."""
        self.dataset.delete(f"key % {chosen[0]} = {chosen[1]}")
        self.rows = {one: row for one, row in self.rows.items() if not matches(row, chosen)}

    @rule(chosen=MODULUS)
    def update(self, chosen: tuple[int, int]) -> None:
        """Changes some rows."""
        self.dataset.update({"value": "value + 1"}, where=f"key % {chosen[0]} = {chosen[1]}")
        for one, (key, value, created, _) in self.rows.items():
            if matches(self.rows[one], chosen):
                self.rows[one] = key, value + 1, created, self.dataset.version

    @rule(chosen=MODULUS, count=st.integers(0, 4))
    def merge(self, chosen: tuple[int, int], count: int) -> None:
        """Changes some rows and adds others."""
        found = {one: row for one, row in self.rows.items() if matches(row, chosen)}
        new = self._new(count)
        keys = [row[0] for row in found.values()]
        changed = pa.table({"key": pa.array(keys, pa.int64()), "value": [-1] * len(keys)})
        source = pa.concat_tables([new, changed.cast(new.schema)])
        merge = self.dataset.merge_insert("key").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(source)
        for one, (key, _, created, _) in found.items():
            self.rows[one] = key, -1, created, self.dataset.version
        self._added(new)

    @rule()
    def compact(self) -> None:
        """Writes small files together."""
        self.dataset.optimize.compact_files()

    @precondition(lambda self: len(self.history) > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """Makes an old version the newest."""
        version = data.draw(st.sampled_from(sorted(self.history)))
        old = self.dataset.checkout_version(version)
        old.restore()
        self.dataset, self.rows = old, dict(self.history[version])

    @invariant()
    def is_what_the_dict_says(self) -> None:
        """Rows with all that is known of them, in scans and by id."""
        table = pilum.dataset(self.path).to_table(columns=COLUMNS)
        found = {row.pop("_rowid"): tuple(row.values()) for row in table.to_pylist()}
        assert found == self.rows
        assert len(found) == table.num_rows
        wanted = sorted(range(self.next_id + 2), key=lambda one: (one * 7) % 11)
        there = [one for one in wanted if one in self.rows]
        assert self.dataset.take_rows(wanted, ["_rowid"])["_rowid"].to_pylist() == there
        self.history[self.dataset.version] = dict(self.rows)

    @invariant()
    def tells_what_changed(self) -> None:
        """Compared with the oldest version that is known."""
        oldest = min(self.history)
        delta, before = self.dataset.delta(oldest), self.history[oldest]
        deleted = delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist()
        assert sorted(deleted) == sorted(set(before) - set(self.rows))
        inserted = delta.get_inserted_rows().read_all()["_rowid"].to_pylist()
        assert set(inserted) == {one for one, row in self.rows.items() if row[2] > oldest}

    def _new(self, count: int) -> pa.Table:
        keys = range(self.next_key, self.next_key + count)
        self.next_key += count
        return pa.table({"key": pa.array(keys, pa.int64()), "value": pa.array(keys, pa.int64())})

    def _added(self, table: pa.Table) -> None:
        version = self.dataset.version
        for row in table.to_pylist():
            self.rows[self.next_id] = row["key"], row["value"], version, version
            self.next_id += 1


def matches(row: Row, chosen: tuple[int, int]) -> bool:
    return row[0] % chosen[0] == chosen[1]


StableTable.TestCase.settings = settings(max_examples=8, stateful_step_count=10)
TestStableTable = StableTable.TestCase


def test_updates_at_the_same_time_keep_ids_apart(tmp_path: Path) -> None:
    table = pa.table({"a": range(6)})
    pilum.write_dataset(table, tmp_path / "t", enable_stable_row_ids=True)
    first, second, third = (pilum.dataset(tmp_path / "t") for _ in range(3))
    first.update({"a": "a + 10"}, where="a = 1")
    third.insert(table.slice(0, 2))
    second.update({"a": "a + 20"}, where="a = 4")
    found = second.to_table(columns=["a", *COLUMNS[2:]]).to_pylist()
    assert [(row["a"], row["_rowid"]) for row in found] == [
        (0, 0),
        (2, 2),
        (3, 3),
        (5, 5),
        (11, 1),
        (0, 6),
        (1, 7),
        (24, 4),
    ]
    assert [row["_row_last_updated_at_version"] for row in found] == [1, 1, 1, 1, 2, 3, 3, 4]


def test_taking_rows_imports_no_pandas(tmp_path: Path) -> None:
    """Which takes longer than all the rest, and which Arrow does to look at lists and arrays."""
    where = str(tmp_path / "table")
    pilum.write_dataset(pa.table({"a": [1, 2, 3]}), where, enable_stable_row_ids=True)
    code = f"""
import sys, pilum
dataset = pilum.dataset({where!r})
assert dataset._take_rows([2, 0])["a"].to_pylist() == [3, 1]
assert dataset.take([1], columns=["_rowid"])["_rowid"].to_pylist() == [1]
assert "pandas" not in sys.modules
dataset.delta(begin_version=0, end_version=1).get_inserted_rows().read_all()
assert "sqlglot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
