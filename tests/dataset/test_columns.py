"""Columns that come, go and change, and what every way of reading gives afterwards (S2.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.distributed import plan_splits, read_split
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    FilterError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)

VERSIONS = ("2.0", "2.1", "2.2")
TABLE = pa.table(
    {
        "a": range(100),
        "s": [{"x": row, "y": f"text {row}", "z": {"k": row % 3}} for row in range(100)],
        "l": [[{"u": row, "v": -row}] * (row % 3) for row in range(100)],
    }
)


@pytest.fixture(params=VERSIONS)
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> pilum.LanceDataset:
    """84 rows of 100 in four fragments."""
    made = pilum.write_dataset(
        TABLE, tmp_path / "t", max_rows_per_file=30, data_storage_version=request.param
    )
    made.delete("a % 7 = 0 or a = 99")
    return made


def rows() -> pa.Table:
    return TABLE.filter(pa.array([row % 7 != 0 and row != 99 for row in range(100)]))


def files(dataset: pilum.LanceDataset) -> set[str]:
    root = Path(dataset.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def assert_holds(dataset: pilum.LanceDataset, expected: pa.Table) -> None:
    """Every way of reading gives these rows."""
    for one in (dataset, pilum.dataset(dataset.uri)):
        assert one.schema == expected.schema
        assert one.to_table().equals(expected)
        assert pa.Table.from_batches(one.to_batches(batch_size=7), one.schema).equals(expected)
        for name in expected.column_names:
            assert one.to_table([name]).equals(expected.select([name]))
        order = [5, 80, 5, 0]
        assert one.take(order).equals(expected.take(order))
        key = expected.column_names[0]
        if pa.types.is_int64(expected.schema.field(key).type):
            found = one.to_table(filter=f"`{key}` > 50 and `{key}` % 2 = 0")
            wanted = [value > 50 and value % 2 == 0 for value in expected[key].to_pylist()]
            assert found.equals(expected.filter(pa.array(wanted)))
    splits = plan_splits(dataset.snapshot, 1000)
    parts = [batch for split in splits for batch in read_split(split)]
    assert pa.Table.from_batches(parts, expected.schema).equals(expected)


def test_columns_are_dropped(dataset: pilum.LanceDataset) -> None:
    before = {path for path in files(dataset) if path.startswith("data")}
    dataset.drop_columns(["l", "s.x"])
    kept = rows()["s"].combine_chunks()
    s = pa.StructArray.from_arrays([kept.field("y"), kept.field("z")], ["y", "z"])
    assert_holds(dataset, pa.table({"a": rows()["a"], "s": s}))
    assert {path for path in files(dataset) if path.startswith("data")} == before
    dataset.drop_columns(["s.z.k", "s.y"])  # a struct goes with its last member
    assert_holds(dataset, rows().select(["a"]))
    assert dataset.checkout_version(2).to_table().equals(rows())


def test_members_of_structs_in_lists_are_dropped_and_renamed(dataset: pilum.LanceDataset) -> None:
    dataset.drop_columns(["l.item.u", "s"])
    dataset.alter_columns({"path": "l.item.v", "name": "w"})
    values = [[{"w": item["v"]} for item in items] for items in rows()["l"].to_pylist()]
    typed = pa.array(values, pa.list_(pa.field("item", pa.struct([("w", pa.int64())]))))
    assert_holds(dataset, pa.table({"a": rows()["a"], "l": typed}))


def test_columns_change_their_names(dataset: pilum.LanceDataset) -> None:
    dataset.alter_columns({"path": "a", "name": "l"}, {"path": "l", "name": "a"})
    assert_holds(dataset, rows().rename_columns(["l", "s", "a"]))
    dataset.alter_columns({"path": "s.y", "name": "Ünicode y"})
    texts = dataset.to_table(["s.Ünicode y"]).column(0).to_pylist()
    assert texts == rows()["s"].combine_chunks().field("y").to_pylist()
    dataset.insert(dataset.to_table(limit=3))
    assert len(dataset) == 87


def test_nullability_changes_where_the_values_allow_it(dataset: pilum.LanceDataset) -> None:
    dataset.alter_columns({"path": "a", "nullable": False}, {"path": "s.z.k", "nullable": False})
    assert not dataset.schema.field("a").nullable
    with pytest.raises(SchemaMismatchError, match="'a'"):
        dataset.insert(TABLE.select(["s", "l"]))
    dataset.alter_columns({"path": "a", "nullable": True})
    dataset.alter_columns({"path": "a", "nullable": True})
    dataset.insert(TABLE.select(["s", "l"]).slice(0, 2))
    assert dataset.to_table(["a"]).column(0).to_pylist()[-3:] == [97, None, None]
    with pytest.raises(SchemaMismatchError, match="has nulls"):
        dataset.alter_columns({"path": "a", "nullable": False})


def test_nulls_of_a_struct_are_none_of_its_members(tmp_path: Path) -> None:
    kind = pa.struct([("x", pa.int8()), ("l", pa.list_(pa.int8()))])
    table = pa.table({"s": pa.array([None, {"x": 1, "l": [2]}, {"x": 1, "l": None}], kind)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    dataset.alter_columns(
        {"path": "s.x", "nullable": False}, {"path": "s.l.item", "nullable": False}
    )
    for path in ("s", "s.l"):
        with pytest.raises(SchemaMismatchError, match="has nulls"):
            dataset.alter_columns({"path": path, "nullable": False})
    assert dataset.to_table().to_pylist() == table.to_pylist()


def test_columns_without_values_need_no_files(dataset: pilum.LanceDataset) -> None:
    before = {path for path in files(dataset) if path.startswith("data")}
    dataset.add_columns(pa.field("n", pa.string()))
    dataset.add_columns([pa.field("m", pa.list_(pa.int8()))])
    dataset.add_columns(pa.schema([pa.field("o", pa.float16(), metadata={"k": "v"})]))
    expected = rows()
    for field in list(dataset.schema)[3:]:
        expected = expected.append_column(field, pa.nulls(len(expected), field.type))
    assert_holds(dataset, expected)
    assert dataset.schema.field("o").metadata == {b"k": b"v"}
    assert dataset.count_rows("n is null") == 84
    assert {path for path in files(dataset) if path.startswith("data")} == before
    dataset.insert(pa.table({"a": [1], "n": ["here"]}))
    assert dataset.to_table(["n"], "n is not null").to_pylist() == [{"n": "here"}]
    dataset.drop_columns(["a", "s", "l"])
    assert dataset.to_table().num_rows == 85
    assert dataset.take([0, 84]).to_pylist()[1]["n"] == "here"


@pytest.mark.parametrize("batch_size", [None, 1, 9])
def test_columns_are_computed(dataset: pilum.LanceDataset, batch_size: int | None) -> None:
    sql = {"b": "a * 2", "c": "concat(s.y, '!')", "one": "1", "t": "s", "d": "cast(a as int)"}
    computed = dataset.to_table(sql)
    dataset.add_columns(sql, batch_size=batch_size)
    expected = rows()
    for name in sql:
        expected = expected.append_column(computed.schema.field(name), computed[name])
    assert_holds(dataset, expected)
    for fragment in dataset.get_fragments():
        old, new = fragment.metadata.files
        assert set(old.fields).isdisjoint(new.fields)
    dataset.add_columns({"e": "b + d"})
    dataset.drop_columns(["b", "a"])
    dataset.delete("e = 3")
    assert dataset.to_table(["e"]).column(0).to_pylist() == [
        3 * row for row in range(100) if row % 7 and row not in {1, 99}
    ]


def test_deleted_rows_are_not_evaluated(dataset: pilum.LanceDataset) -> None:
    dataset.add_columns({"b": "7 / (a % 7)"})
    assert dataset.count_rows("b = 7 / (a % 7)") == 84


@pytest.mark.parametrize("make", [
    lambda table: table,
    lambda table: table.to_reader(max_chunksize=11),
    lambda table: iter(table.to_batches(max_chunksize=70)),
])  # fmt: skip
def test_columns_come_from_elsewhere(
    dataset: pilum.LanceDataset, make: Callable[[pa.Table], Any]
) -> None:
    vectors = pa.array([[row, 1.0] for row in range(84)], pa.list_(pa.float32(), 2))
    schema = pa.schema([pa.field("v", vectors.type), pa.field("i", pa.int32(), nullable=False)])
    table = pa.table([vectors, pa.array(range(84), pa.int32())], schema=schema)
    dataset.add_columns(make(table))
    expected = rows()
    for field in schema:
        expected = expected.append_column(field, table[field.name])
    assert_holds(dataset, expected)


def test_the_dropped_values_do_not_come_back_under_a_new_column(
    dataset: pilum.LanceDataset,
) -> None:
    dataset.drop_columns(["l", "s"])
    dataset.add_columns(pa.field("s", pa.string()))
    dataset.add_columns({"l": "a + 1"})
    assert dataset.to_table(["s"]).column(0).null_count == 84
    assert dataset.count_rows("l = a + 1") == 84


def _failing() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"n": range(40)})
    raise OSError("the source is gone")


@pytest.mark.parametrize(
    ("transforms", "error"),
    [
        ({"a": "1"}, SchemaMismatchError),
        (pa.field("a", pa.int8()), SchemaMismatchError),
        (pa.field("n", pa.int8(), nullable=False), InvalidInputError),
        (pa.field("_rowid", pa.int8()), InvalidInputError),
        (pa.field("n.m", pa.int8()), InvalidInputError),
        ([pa.field("n", pa.int8())] * 2, InvalidInputError),
        (pa.field("n", pa.month_day_nano_interval()), UnsupportedTypeError),
        (pa.schema([]), InvalidInputError),
        ([], InvalidInputError),
        ({}, InvalidInputError),
        ({"n": 3}, InvalidInputError),
        ({"n": "nowhere + 1"}, ColumnNotFoundError),
        ({"n": "a +"}, FilterError),
        ({"n": "7 / (a - 97)"}, FilterError),
        (pa.table({"n": range(83)}), InvalidInputError),
        (pa.table({"n": range(85)}), InvalidInputError),
        (pa.table({"n": []}), InvalidInputError),
        (pa.table({"a": range(84)}), SchemaMismatchError),
        (3, InvalidInputError),
        (lambda batch: batch, SchemaMismatchError),
    ],
)  # fmt: skip
def test_what_cannot_be_added_leaves_nothing_behind(
    dataset: pilum.LanceDataset, transforms: Any, error: type[PilumError]
) -> None:
    before, version = files(dataset), dataset.version
    with pytest.raises(error):
        dataset.add_columns(transforms)
    assert (files(dataset), dataset.version) == (before, version)
    assert dataset.to_table().equals(rows())


def test_a_source_that_fails_leaves_nothing_behind(dataset: pilum.LanceDataset) -> None:
    before = files(dataset)
    with pytest.raises(OSError, match="the source is gone"):
        dataset.add_columns(_failing())
    required = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError):
        dataset.add_columns(pa.table({"n": [*range(83), None]}, required))
    assert files(dataset) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([], InvalidInputError),
        ([{"path": "a"}], InvalidInputError),
        ([{"path": "a", "other": 1}], InvalidInputError),
        ([{"path": "a", "name": 1}], InvalidInputError),
        ([{"path": "a", "nullable": 1}], InvalidInputError),
        ([{"name": "a"}], InvalidInputError),
        ([{"path": "q", "name": "r"}], ColumnNotFoundError),
        ([{"path": "s.q", "name": "r"}], ColumnNotFoundError),
        ([{"path": "a", "name": "s"}], InvalidInputError),
        ([{"path": "s.x", "name": "y"}], InvalidInputError),
        ([{"path": "a", "name": "b.c"}], InvalidInputError),
        ([{"path": "a", "name": ""}], InvalidInputError),
        ([{"path": "a", "name": "_rowaddr"}], InvalidInputError),
        ([{"path": "a", "name": "b"}, {"path": "a", "name": "c"}], InvalidInputError),
        ([{"path": "l.item", "name": "b"}], UnsupportedFeatureError),
    ],
)
def test_what_cannot_be_altered(
    tmp_path: Path, changes: list[dict[str, Any]], error: type[PilumError]
) -> None:
    dataset = pilum.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(error):
        dataset.alter_columns(*changes)
    assert dataset.latest_version == 1


@pytest.mark.parametrize("columns", [[], "a", ["a", "s", "l"], ["b"], ["s.q"], ["a.x"], [3], 3])
def test_what_cannot_be_dropped(tmp_path: Path, columns: Any) -> None:
    dataset = pilum.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(InvalidInputError):
        dataset.drop_columns(columns)
    assert dataset.latest_version == 1


def test_members_of_what_is_stored_as_one_cannot_be_dropped(tmp_path: Path) -> None:
    packed = pa.field(
        "p", pa.struct([("x", pa.int8())]), metadata={"lance-encoding:packed": "true"}
    )
    schema = pa.schema([packed, ("m", pa.map_(pa.string(), pa.struct([("x", pa.int8())])))])
    row = {"p": {"x": 1}, "m": [("k", {"x": 1})]}
    dataset = pilum.write_dataset(pa.Table.from_pylist([row], schema), tmp_path / "t")
    for path in ("p.x", "m.entries.value.x"):
        with pytest.raises(UnsupportedFeatureError):
            dataset.drop_columns([path])
    dataset.drop_columns(["p"])
    assert dataset.to_table().column_names == ["m"]


def test_columns_of_legacy_tables_lose_names_and_go(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="0.1")
    dataset.alter_columns({"path": "a", "name": "c"})
    dataset.drop_columns(["b"])
    assert dataset.to_table().equals(table.select(["a"]).rename_columns(["c"]))


def stale(tmp_path: Path) -> tuple[pilum.LanceDataset, pilum.LanceDataset]:
    """Two handles of one version."""
    made = pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=30)
    return made, pilum.dataset(made.uri)


@pytest.mark.parametrize(
    "other",
    [
        lambda one: one.insert(TABLE),
        lambda one: one.delete("a = 3"),
        lambda one: one.add_columns({"k": "a"}),
    ],
)
def test_values_are_for_the_rows_that_were_read(tmp_path: Path, other: Any) -> None:
    mine, theirs = stale(tmp_path)
    other(theirs)
    before = files(mine)
    with pytest.raises(CommitConflictError) as caught:
        mine.add_columns({"b": "a"})
    assert caught.value.retryable
    assert files(mine) == before
    mine.checkout_latest()
    mine.add_columns({"b": "a"})
    assert mine.count_rows("b = a") == len(mine)


def test_a_drop_follows_new_and_deleted_rows_but_no_other_change_of_columns(
    tmp_path: Path,
) -> None:
    mine, theirs = stale(tmp_path)
    theirs.insert(TABLE)
    theirs.delete("a >= 10")
    mine.drop_columns(["s"])
    assert mine.to_table(["a"]).column(0).to_pylist() == [*range(10)] * 2
    with pytest.raises(CommitConflictError) as caught:
        theirs.alter_columns({"path": "a", "name": "b"})
    assert caught.value.retryable
    with pytest.raises(CommitConflictError) as caught:
        theirs.add_columns({"b": "a"})
    assert not caught.value.retryable


def test_a_promise_of_no_nulls_does_not_follow_rows_that_may_have_them(tmp_path: Path) -> None:
    mine, theirs = stale(tmp_path)
    theirs.insert(TABLE.select(["s"]))
    with pytest.raises(CommitConflictError):
        mine.alter_columns({"path": "a", "nullable": False})
    mine.alter_columns({"path": "a", "name": "b"})
    with pytest.raises(SchemaMismatchError):
        mine.alter_columns({"path": "b", "nullable": False})


def test_expressions_that_are_null_need_no_files(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1, 2]}, tmp_path / "t")
    dataset.add_columns({"n": "CAST(NULL AS INT)", "s": "cast(null as string)"})
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
    assert dataset.schema.field("n").type == pa.int32()
    assert dataset.to_table().to_pydict() == {"a": [1, 2], "n": [None] * 2, "s": [None] * 2}
    dataset.add_columns({"m": "CAST(NULL AS INT)", "b": "a + 1"})
    assert dataset.to_table(columns=["m", "b"]).to_pydict() == {"m": [None] * 2, "b": [2, 3]}
