"""Updates and merges: the same call gives the same table in both libraries, and both take turns."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.strategies import tables

import pilum
from pilum.table.commit.transaction import load_transaction
from pilum.table.versions.commit_handler import list_manifests

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

NAN = float("nan")
TABLE = pa.table(
    {
        "k": [1.0, 2.0, 2.0, None, NAN, 0.0, -0.0, 8.0, 9.0],
        "v": pa.array([10, 20, None, 40, 50, 60, 70, 80, 90], pa.int32()),
        "s": ["a", "b", "c", None, "e", "f", "g", "h", "i"],
        "p": [{"x": row, "y": [row] * row} for row in range(9)],
    }
)
SOURCE = pa.table(
    {
        "k": [2.0, NAN, None, -0.0, 9.0, 100.0],
        "v": pa.array([21, 51, 41, 71, None, 101], pa.int32()),
        "s": ["B", "E", "D", "G", "I", "Z"],
        "p": [{"x": -row, "y": [row]} for row in range(6)],
    }
)
META = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
Call = Callable[[Any], Any]


def upsert(dataset: Any, on: Any = "k", source: pa.Table = SOURCE) -> Any:
    builder = dataset.merge_insert(on).when_matched_update_all()
    return builder.when_not_matched_insert_all().execute(source)


MERGES: dict[str, Call] = {
    "upsert": upsert,
    "upsert, two keys": lambda one: upsert(one, ["k", "s"]),
    "upsert, few columns": lambda one: upsert(one, source=SOURCE.select(["v", "k"])),
    "insert": lambda one: one.merge_insert("k").when_not_matched_insert_all().execute(SOURCE),
    "insert, few columns": lambda one: (
        one.merge_insert("k").when_not_matched_insert_all().execute(SOURCE.select(["v", "k"]))
    ),
    "update where": lambda one: (
        one.merge_insert("k")
        .when_matched_update_all("source.v > 50 AND target.s <> 'g'")
        .execute(SOURCE)
    ),
    "delete": lambda one: one.merge_insert("k").when_matched_delete().execute(SOURCE),
    "delete by keys alone": lambda one: (
        one.merge_insert("k").when_matched_delete().execute(SOURCE.select(["k"]))
    ),
    "delete others": lambda one: (
        one.merge_insert("k").when_not_matched_by_source_delete().execute(SOURCE)
    ),
    "replace a part": lambda one: (
        one.merge_insert("k")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("v < 70")
        .execute(SOURCE)
    ),
    "insert, or fail": lambda one: (
        one.merge_insert("k").when_matched_fail().when_not_matched_insert_all().execute(SOURCE[5:])
    ),
    "nothing": lambda one: upsert(one, source=SOURCE[:0]),
}
UPDATES: dict[str, Call] = {
    "some rows": lambda one: one.update({"v": "v + 1"}, "k >= 2"),
    "all rows": lambda one: one.update({"v": "k * 2", "s": "NULL"}, "k < 100"),
    # The reference lets expressions see each other's results, in an order that changes.
    "casts": lambda one: one.update({"s": "v", "k": "v"}, "v > 20 AND v < 70"),
    "cast of text": lambda one: one.update({"v": "'7'"}, "v > 20 AND v < 70"),
    "a struct": lambda one: one.update({"p": "NULL"}, "s = 'b'"),
    "nothing": lambda one: one.update({"v": "0"}, "k = 1000"),
    "by ids": lambda one: one.update({"v": "0"}, "_rowid IN (1, 2)"),
    "no filter": lambda one: one.update({"s": "'same'"}),
}


def contents(dataset: Any, *, stable: bool) -> list[str]:
    """Rows as texts, for which NaN equals itself; with what stays with them if ids are stable."""
    columns = [*TABLE.column_names, *(META if stable else [])]
    return sorted(map(str, dataset.to_table(columns).to_pylist()))


def operation(path: str) -> dict[str, Any]:
    """What the last transaction says apart from its fragments."""
    store = pilum.dataset(path).snapshot.store
    name = list_manifests(store)[-1]
    found: Any = load_transaction(store, name.version, name.path).operation
    return {
        "kind": type(found),
        "mode": found.mode,
        "removed": set(found.removed),
        "updated": {one.id: one.num_deleted_rows for one in found.updated},
        # Without new rows, fields that changed in them mean nothing.
        "fields": (found.fields_modified, set(found.fields_updated) if found.new else ()),
    }


@pytest.mark.checklist("S2.12")
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("call", [*MERGES.values(), *UPDATES.values()], ids=[*MERGES, *UPDATES])
def test_the_same_call_does_the_same(tmp_path: Path, call: Call, stable: bool) -> None:
    mine, theirs = str(tmp_path / "pilum"), str(tmp_path / "lance")
    pilum.write_dataset(TABLE, mine, max_rows_per_file=4, enable_stable_row_ids=stable)
    shutil.copytree(mine, theirs)
    assert call(pilum.dataset(mine)) == call(lance.dataset(theirs))
    found = {contents(lib.dataset(mine), stable=False)[0] for lib in (pilum, lance)}
    assert len(found) == 1
    expected = contents(lance.dataset(theirs), stable=False)
    for library in (pilum, lance):
        for path in (mine, theirs):
            assert contents(library.dataset(path), stable=False) == expected
    if stable:  # new rows may have got their ids in another order
        old = [row for row in contents(lance.dataset(theirs), stable=True) if "'Z'" not in row]
        for path in (mine, theirs):
            rows = contents(pilum.dataset(path), stable=True)
            assert rows == contents(lance.dataset(path), stable=True)
            assert [row for row in rows if "'Z'" not in row] == old or len(old) > len(TABLE)
    assert operation(mine) == operation(theirs)
    lance.dataset(mine).validate()


STEPS: dict[str, Call] = {
    "update": lambda one: one.update({"v": "v + 1"}, "k > 1"),
    "delete": lambda one: one.delete("v = 22 OR s = 'h'"),
    "upsert": upsert,
    "replace": MERGES["replace a part"],
    "insert": lambda one: one.insert(SOURCE[5:].set_column(0, "k", [[1000.0]])),
}


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([*STEPS])), min_size=2, max_size=6),
    st.booleans(),
)
def test_both_take_turns(steps: list[tuple[bool, str]], stable: bool) -> None:
    """Equal to the table on which the reference alone took the same steps."""
    with tempfile.TemporaryDirectory() as folder:
        both, alone = os.path.join(folder, "both"), os.path.join(folder, "alone")
        pilum.write_dataset(TABLE, both, max_rows_per_file=4, enable_stable_row_ids=stable)
        shutil.copytree(both, alone)
        for ours, name in steps:
            results, errors = [], []
            for library, path in ((pilum if ours else lance, both), (lance, alone)):
                try:
                    results.append(STEPS[name](library.dataset(path)))
                except (OSError, ValueError) as error:  # a merge may find rows twice by now
                    errors.append(error)
            assert len(errors) != 1, errors
            if name in {"update", "delete", "upsert", "replace"} and results:
                assert results[0] == results[1]
        expected = contents(lance.dataset(alone), stable=False)
        assert contents(pilum.dataset(both), stable=False) == expected
        rows = contents(lance.dataset(both), stable=stable)
        assert contents(pilum.dataset(both), stable=stable) == rows
        lance.dataset(both).validate()


@settings(max_examples=15)
@given(table=tables(max_columns=2), version=st.sampled_from(["2.1", "2.2"]), stable=st.booleans())
def test_values_of_all_types_move_unchanged(table: pa.Table, version: str, stable: bool) -> None:
    keys = np.arange(table.num_rows)
    table = as_stored(table.append_column("the key", pa.array(keys)))
    with tempfile.TemporaryDirectory() as path:
        dataset = pilum.write_dataset(
            table,
            path,
            mode="append",
            data_storage_version=version,
            max_rows_per_file=4096,
            enable_stable_row_ids=stable,
        )
        dataset.update({"the key": "`the key`"}, "`the key` % 3 = 1")
        order = np.concatenate([keys[keys % 3 != 1], keys[keys % 3 == 1]])
        source = table.take(pa.array(keys[keys % 2 == 1]))
        dataset.merge_insert("the key").when_matched_update_all().execute(source)
        few = table.select(["the key"]).take(pa.array(keys[keys % 5 == 1]))
        dataset.merge_insert("the key").when_matched_update_all().execute(few)
        order = np.concatenate([order[order % 2 != 1], order[order % 2 == 1]])
        order = np.concatenate([order[order % 5 != 1], order[order % 5 == 1]])
        expected = as_stored(table.take(pa.array(order)))
        assert_same(as_stored(pilum.dataset(path).to_table()), expected)
        assert_same(as_stored(lance.dataset(path).to_table()), expected)


@pytest.mark.parametrize("first", ["pilum", "lance"])
def test_one_follows_the_other_in_a_fragment(tmp_path: Path, first: str) -> None:
    path = str(tmp_path / "t")
    pilum.write_dataset(TABLE, path)
    mine, theirs = pilum.dataset(path), lance.dataset(path)
    one, two = (mine, theirs) if first == "pilum" else (theirs, mine)
    one.update({"v": "100"}, "k = 8")
    two.update({"v": "200"}, "k = 9")
    expected = [10, 20, None, 40, 50, 60, 70, 100, 200]
    assert pilum.dataset(path).to_table()["v"].to_pylist() == expected
    assert lance.dataset(path).to_table()["v"].to_pylist() == expected
    # The same row: done again, on the newest version.
    stale = (lance if first == "pilum" else pilum).dataset(path, version=2)
    stale.update({"v": "v + 1"}, "k = 9 OR k = 8")
    assert sorted(lance.dataset(path).to_table()["v"].to_pylist()[-2:]) == [101, 201]


def test_the_builder_is_called_like_that_of_the_reference(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pilum.write_dataset(TABLE, path)
    ours, theirs = (type(library.dataset(path).merge_insert("k")) for library in (pilum, lance))
    names = {name for name in dir(ours) if not name.startswith("_")}
    own = {"idempotency_key", "source_columns", "when_matched_update"}
    assert names - set(dir(theirs)) == own
    for name in names & set(vars(theirs)):  # what it inherits is compiled, and says no names
        mine, other = (inspect.signature(getattr(one, name)).parameters for one in (ours, theirs))
        # Conditions of deletes and inserts are ours.
        shared = [one for one in mine.values() if one.name in other or one.name != "condition"]
        assert [(one.name, one.default, one.kind) for one in shared] == [
            (one.name, one.default, one.kind) for one in other.values()
        ], name


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_move_with_their_rows(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "t")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("a", pa.int64()), field])
    blobs = [b"one", None, b"three" * 50_000]
    table = pa.table({"a": [1, 2, 3], "b": blobs}, schema)
    pilum.write_dataset(table, path, data_storage_version=version)
    assert pilum.dataset(path).update({"a": "a + 10"}, "a <> 1") == {"num_rows_updated": 2}
    assert lance.dataset(path).update({"a": "a + 100"}, "a > 2") == {"num_rows_updated": 2}
    assert pilum.dataset(path).update({"a": "-a"}, "a = 1") == {"num_rows_updated": 1}
    for library in (pilum, lance):
        found = library.dataset(path).to_table(blob_handling="all_binary").to_pydict()
        assert found == {"a": [112, 113, -1], "b": [*blobs[1:], blobs[0]]}


def test_commits_by_hand(tmp_path: Path) -> None:
    """What one library wrote uncommitted has the members that the other has."""
    mine, theirs = str(tmp_path / "pilum"), str(tmp_path / "lance")
    pilum.write_dataset(TABLE, mine)
    shutil.copytree(mine, theirs)

    def uncommitted(dataset: Any) -> Any:
        return dataset.merge_insert("k").when_matched_update_all().execute_uncommitted(SOURCE)

    found, counts = uncommitted(pilum.dataset(mine))
    other, others = uncommitted(lance.dataset(theirs))
    assert counts == others
    names = {name for name in vars(other.operation) if not name.startswith("_")}
    assert names == set(vars(found.operation))
    for name in names - {"new_fragments", "updated_fragments"}:
        assert getattr(found.operation, name) == getattr(other.operation, name), name
    assert pilum.LanceDataset.commit(mine, found).count_rows() == TABLE.num_rows
    assert len(found.operation.new_fragments) == len(other.operation.new_fragments) == 1


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("call", [*MERGES.values(), *UPDATES.values()], ids=[*MERGES, *UPDATES])
def test_indices_stay_right(tmp_path: Path, call: Call, stable: bool) -> None:
    """What they cover is what it is after the call of the reference; searches find all rows."""
    mine, theirs = str(tmp_path / "pilum"), str(tmp_path / "lance")
    pilum.write_dataset(TABLE, mine, max_rows_per_file=4, enable_stable_row_ids=stable)
    dataset = lance.dataset(mine)
    dataset.create_scalar_index("v", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    dataset.create_scalar_index("k", "ZONEMAP")
    shutil.copytree(mine, theirs)
    call(pilum.dataset(mine))
    call(lance.dataset(theirs))
    assert coverage(mine) == coverage(theirs)
    for condition in ("v > 20", "v = 7 OR v = 51", "s = 'b' OR s = 'Z'", "k < 9", "k > 1"):
        rows = lance.dataset(mine).to_table(filter=condition)
        without = lance.dataset(mine).scanner(filter=condition, use_scalar_index=False).to_table()
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, without.to_pylist()))


def coverage(path: str) -> dict[str, set[int]]:
    """Fragments that exist, by the indices that cover them."""
    dataset = lance.dataset(path)
    existing = {one.fragment_id for one in dataset.get_fragments()}
    return {one["name"]: set(one["fragment_ids"]) & existing for one in dataset.list_indices()}


@pytest.mark.parametrize("mode", ["rewrite_columns", ""])
def test_columns_that_the_reference_wrote_anew(tmp_path: Path, mode: str) -> None:
    """Its files, in a commit of ours; the files count, also where the mode is left out."""
    path = str(tmp_path / "t")
    table = pa.table({"a": range(6), "b": ["x"] * 6})
    pilum.write_dataset(table, path, max_rows_per_file=3, enable_stable_row_ids=True)
    dataset = lance.dataset(path)
    dataset.create_scalar_index("b", "BTREE")
    dataset.create_scalar_index("a", "BTREE")
    fragment = dataset.get_fragment(0)
    image, modified = fragment.update_columns(pa.table({"a": [2], "b": ["y"]}), "a", "a")
    operation = pilum.LanceOperation.Update(
        updated_fragments=[pilum.FragmentMetadata.from_json(json.dumps(image.to_json()))],
        fields_modified=list(modified),
        update_mode=mode,
    )
    pilum.LanceDataset.commit(path, operation, read_version=dataset.version)
    for library in (pilum, lance):
        found = library.dataset(path).to_table(["a", "b", "_rowid"])
        assert found["b"].to_pylist() == ["x", "x", "y", "x", "x", "x"]
        assert found["_rowid"].to_pylist() == list(range(6))
    assert coverage(path) == {"b_idx": {1}, "a_idx": {0, 1}}
    lance.dataset(path).validate()


MOMENTS = [
    datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime(2020, 1, 2, 3, 4, 5, 120_000),
    datetime(1960, 1, 1),
    datetime(2020, 1, 2, 10),
    None,
]
DAYS = [date(2020, 1, 2), date(1960, 1, 1), date(1970, 1, 1), None, date(9999, 12, 31)]
NUMBERS = [0, -1, 86_400_000, None, 2_000_000]
UNITS = ("s", "ms", "us", "ns")


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        *((MOMENTS, pa.timestamp(unit), pa.string()) for unit in UNITS),
        *((MOMENTS, pa.timestamp(unit), pa.large_string()) for unit in UNITS),
        *((MOMENTS, pa.timestamp(unit), pa.int64()) for unit in UNITS),
        *((NUMBERS, pa.int64(), pa.timestamp(unit)) for unit in UNITS),
        *((DAYS, pa.date32(), one) for one in (pa.int32(), pa.int64(), pa.string())),
        *((NUMBERS, one, pa.date32()) for one in (pa.int32(), pa.int64())),
    ],
    ids=str,
)
def test_values_of_updates_are_cast_alike(
    tmp_path: Path, values: list[Any], source: pa.DataType, target: pa.DataType
) -> None:
    if pa.types.is_timestamp(source):
        array = pc.cast(pa.array(values, pa.timestamp("us")), source, safe=False)
    else:
        array = pa.array(values, source)
    table = pa.table({"a": array, "b": pa.nulls(len(values), target)})
    found = []
    for library in (lance, pilum):
        path = str(tmp_path / library.__name__)
        dataset = library.write_dataset(table, path)
        dataset.update({"b": "a"})
        found.append(dataset.to_table()["b"])
    assert found[1].equals(found[0])
    assert found[1].null_count == 1


@pytest.mark.parametrize("library", [lance, pilum])
def test_days_that_no_date_has_are_refused(tmp_path: Path, library: Any) -> None:
    table = pa.table({"a": [2**40], "b": pa.nulls(1, pa.date32())})
    dataset = library.write_dataset(table, str(tmp_path / "t"))
    with pytest.raises((OSError, ValueError), match=r"1099511627776|cast"):
        dataset.update({"b": "a"})
