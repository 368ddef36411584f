"""Both libraries change the columns of one table in turns; both read the same (S2.9)."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.strategies import tables

import pilum
from pilum.errors import CorruptFileError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
TABLE = pa.table(
    {
        "a": range(50),
        "s": [{"x": row, "y": f"text {row}"} for row in range(50)],
        "l": [[{"u": row, "v": -row}] * (row % 3) for row in range(50)],
    }
)

STEPS = (
    "sql",
    "nulls",
    "values",
    "retype",
    "join",
    "drop",
    "drop member",
    "rename",
    "delete",
    "append",
    "require",
)


def change(dataset: Any, step: str, number: int) -> None:
    """One change, in the words that both libraries have."""
    names = dataset.schema.names
    if step == "sql":
        dataset.add_columns({f"sql{number}": f"`{names[0]}` * 2", f"text{number}": "'x'"})
    elif step == "nulls":
        dataset.add_columns([pa.field(f"null{number}", pa.struct([("k", pa.int8())]))])
    elif step == "values":
        values = pa.table({f"value{number}": [str(row) for row in range(dataset.count_rows())]})
        dataset.add_columns(values.to_reader(max_chunksize=9))
    elif step == "retype":
        _retype(dataset, names)
    elif step == "join":
        keys = dataset.to_table(columns=[names[0]]).slice(0, 9)
        values = pa.array([f"joined {row}" for row in range(len(keys))])
        dataset.merge(keys.append_column(f"join{number}", values), names[0])
    elif step == "drop":
        dataset.drop_columns([names[-1]])
    elif step == "drop member" and "s" in names and dataset.schema.field("s").type.num_fields > 1:
        dataset.drop_columns(["s.x"])
    elif step == "rename":
        dataset.alter_columns({"path": names[-1], "name": f"renamed{number}"})
    elif step == "delete":
        dataset.delete(f"`{names[0]}` % 5 = {number % 5}")
    elif step == "append":
        rows = dataset.to_table(limit=4)
        # Files of version 2.0 hold no null structs, and both libraries say so.
        if dataset.data_storage_version != "2.0" or not _has_null_structs(rows):
            dataset.insert(rows)
    elif step == "more" and isinstance(dataset, pilum.LanceDataset):
        keys = dataset.to_table(columns=[names[0]], limit=2)
        more = keys.append_column(f"more{number}", pa.array([[number]] * len(keys)))
        if dataset.schema.field(names[-1]).nullable or len(names) == 1:
            dataset.insert(more, schema_mode="merge")
    elif step == "require":
        dataset.alter_columns({"path": names[0], "nullable": False})


def _retype(dataset: Any, names: list[str]) -> None:
    """Of the first column, and of a member if files of the version can hold it apart."""
    is_wide = pa.types.is_int64(dataset.schema.field(names[0]).type)
    wanted = [{"path": names[0], "data_type": pa.int32() if is_wide else pa.int64()}]
    if dataset.data_storage_version != "2.0" and "s" in names:
        is_large = pa.types.is_large_string(dataset.schema.field("s").type.field("y").type)
        wanted.append({"path": "s.y", "data_type": pa.string() if is_large else pa.large_string()})
    dataset.alter_columns(*wanted)


def _has_null_structs(table: pa.Table) -> bool:
    return any(pa.types.is_struct(one.type) and one.null_count for one in table.columns)


@settings(max_examples=30)
@given(
    version=st.sampled_from(["2.0", "2.1", "2.2"]),
    creator=st.sampled_from([pilum, lance]),
    steps=st.lists(
        st.tuples(st.sampled_from([pilum, lance]), st.sampled_from([*STEPS, "more"])), max_size=7
    ),
)
def test_both_change_columns_in_turns(
    tmp_path: Path, version: str, creator: Any, steps: list[tuple[Any, str]]
) -> None:
    uri = str(tmp_path / f"t{next(_NUMBERS)}")
    creator.write_dataset(TABLE, uri, max_rows_per_file=20, data_storage_version=version)
    for number, (library, step) in enumerate(steps):
        dataset = library.dataset(uri)
        if step == "drop" and len(dataset.schema.names) == 1:
            continue
        change(dataset, step, number)
        ours, theirs = pilum.dataset(uri), lance.dataset(uri)
        theirs.validate()
        expected = theirs.to_table()
        assert_same(ours.to_table(), expected)
        key = expected.column_names[0]
        assert ours.count_rows(f"`{key}` > 20") == theirs.count_rows(f"`{key}` > 20")
        if len(expected):
            rows = [len(expected) - 1, 0]
            assert_same(ours.take(rows), theirs.take(rows))
    shutil.rmtree(uri)


@settings(max_examples=40)
@given(
    table=tables(max_columns=2),
    version=st.sampled_from(["2.1", "2.2"]),
    deleted=st.sampled_from(["k % 2 = 0", "k % 2 = 1", "k < {}", "k >= {}"]),
)
def test_the_reference_reads_new_columns_of_all_types(
    tmp_path: Path, table: pa.Table, version: str, deleted: str
) -> None:
    uri = str(tmp_path / f"t{next(_NUMBERS)}")
    num_rows = len(table)
    keys = pa.table({"k": pa.array(range(2 * num_rows), pa.int64())})
    dataset = pilum.write_dataset(
        keys, uri, max_rows_per_file=max(1, num_rows * 2 // 3), data_storage_version=version
    )
    dataset.delete(deleted.format(num_rows))
    expected = dataset.to_table()
    dataset.add_columns(table)
    for field, column in zip(table.schema, table.columns, strict=True):
        expected = expected.append_column(field, column)
    assert_same(dataset.to_table(), as_stored(expected))
    assert_same(lance.dataset(uri).to_table(), dataset.to_table())
    shutil.rmtree(uri)


def test_the_operations_are_those_of_the_reference(tmp_path: Path) -> None:
    """The transactions say the same, member by member (S2.9)."""
    kinds = []
    for library in (pilum, lance):
        uri = str(tmp_path / library.__name__)
        library.write_dataset(TABLE, uri, data_storage_version="2.1")
        for number, step in enumerate(STEPS):
            change(library.dataset(uri), step, number)
        versions = range(2, lance.dataset(uri).latest_version + 1)
        operations = [lance.dataset(uri).read_transaction(one).operation for one in versions]
        kinds.append(
            [
                (type(one).__name__, getattr(one, "preserves_nullability", None))
                for one in operations
            ]
        )
    # The reference knows that a constant is never null, and does not let appends go by.
    ours, theirs = kinds
    assert ours[1:] == theirs[1:]
    assert (ours[0], theirs[0]) == (("Merge", True), ("Merge", False))


def test_a_table_whose_values_were_all_dropped_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = pilum.write_dataset(TABLE, uri)
    dataset.add_columns(pa.field("n", pa.int32()))
    dataset.drop_columns(["a", "s", "l"])
    assert_same(lance.dataset(uri).to_table(), dataset.to_table())
    lance.dataset(uri).add_columns({"k": "1"})
    assert pilum.dataset(uri).to_table(["k"]).column(0).to_pylist() == [1] * 50
    # The reference leaves no file at all there, and does not read that itself. Nothing tells such
    # a fragment from one whose files a damaged manifest has lost.
    uri = str(tmp_path / "theirs")
    theirs = lance.write_dataset(TABLE, uri)
    theirs.add_columns(pa.field("n", pa.int32()))
    theirs.drop_columns(["a", "s", "l"])
    with pytest.raises(CorruptFileError, match="50 rows, but no data files"):
        pilum.dataset(uri).to_table()
    assert pilum.dataset(uri, version=2).to_table() == TABLE.append_column(
        "n", pa.nulls(50, pa.int32())
    )


CASTS: dict[str, tuple[pa.DataType, pa.DataType]] = {
    "small": (pa.int64(), pa.int16()),
    "unsigned": (pa.int8(), pa.uint32()),
    "half": (pa.float64(), pa.float16()),
    "large": (pa.string(), pa.large_string()),
    "binary": (pa.large_binary(), pa.binary()),
    "cents": (pa.decimal128(9, 4), pa.decimal128(12, 2)),
    "day": (pa.timestamp("us"), pa.date32()),
    "zoned": (pa.timestamp("us"), pa.timestamp("ns", "America/New_York")),
    "unzoned": (pa.timestamp("us", "America/New_York"), pa.timestamp("ms")),
    "midnight": (pa.date32(), pa.timestamp("s", "Asia/Tokyo")),
    "clock": (pa.timestamp("us"), pa.time64("us")),
    "coarse": (pa.duration("us"), pa.duration("s")),
    "items": (pa.list_(pa.int64()), pa.large_list(pa.int8())),
    "fixed": (pa.list_(pa.int32()), pa.list_(pa.int8(), 2)),
    "vector": (pa.list_(pa.float32(), 2), pa.list_(pa.float16(), 2)),
    "decoded": (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    "encoded": (pa.string(), pa.dictionary(pa.int32(), pa.string())),
}


def _castable(arrow: pa.DataType) -> pa.Array:
    """Values that both libraries cast, with nulls."""
    if pa.types.is_dictionary(arrow):
        return pa.array(["a", None, "b", "a"]).cast(arrow)
    if pa.types.is_string(arrow) or pa.types.is_large_binary(arrow):
        return pa.array(["a", None, "bc", ""]).cast(arrow)
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.array([[1, 2], None, [3, 4], [5, 6]], arrow)
    if pa.types.is_decimal(arrow):
        return pa.array([1, None, 2, 3]).cast(pa.decimal128(25, 4)).cast(arrow)
    if pa.types.is_date(arrow):
        return pa.array([1, None, 19000, 3], pa.int32()).cast(arrow)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return pa.array([1_000_007, None, 1_600_000_000_123_456, 3], pa.int64()).cast(arrow)
    return pa.array([1, None, 2, 3]).cast(arrow)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_types_change_as_with_the_reference(tmp_path: Path, version: str) -> None:
    """The same values, field ids and files (S2.9)."""
    table = pa.table({name: _castable(old) for name, (old, _) in CASTS.items()})
    found = []
    for library in (pilum, lance):
        uri = str(tmp_path / library.__name__)
        library.write_dataset(table, uri, data_storage_version=version)
        for name, (_, new) in CASTS.items():
            library.dataset(uri).alter_columns({"path": name, "data_type": new})
        last = lance.dataset(uri)
        last.validate()
        assert_same(pilum.dataset(uri).to_table(), last.to_table())
        files = [file.fields for file in last.get_fragments()[0].data_files()]
        ids = [(field.id(), field.name()) for field in last.lance_schema.fields()]
        found.append((last.to_table(), files, ids))
    ours, theirs = found
    assert_same(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_types_of_members_change_as_with_the_reference(tmp_path: Path, version: str) -> None:
    for library in (pilum, lance):
        uri = str(tmp_path / library.__name__)
        library.write_dataset(TABLE, uri, data_storage_version=version)
        dataset = library.dataset(uri)
        dataset.alter_columns(
            {"path": "s.x", "data_type": pa.int8(), "name": "w"},
            {"path": "a", "data_type": pa.int32()},
        )
        dataset.alter_columns({"path": "l.item.u", "data_type": pa.uint8()})
    ours, theirs = (lance.dataset(str(tmp_path / name)) for name in ("pilum", "lance"))
    assert_same(ours.to_table(), theirs.to_table())
    assert_same(pilum.dataset(theirs.uri).to_table(), theirs.to_table())
    assert str(ours.lance_schema) == str(theirs.lance_schema)


def test_new_members_are_read_alike(tmp_path: Path) -> None:
    """Null structs included, which the reference's own call revives for itself."""
    uri = str(tmp_path / "t")
    values = pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())]))
    dataset = pilum.write_dataset(pa.table({"s": values}), uri, data_storage_version="2.2")
    dataset.add_columns(pa.table({"s": [{"z": "a"}, {"z": "b"}, None]}))
    dataset.add_columns(pa.field("s", pa.struct([("w", pa.int8())])))
    assert_same(lance.dataset(uri).to_table(), dataset.to_table())
    lance.dataset(uri).add_columns(pa.table({"s": [{"v": 1}, None, {"v": 3}]}).to_reader())
    assert pilum.dataset(uri).to_table()["s"].to_pylist() == [
        {"x": 1, "z": "a", "w": None, "v": 1},
        None,
        {"x": None, "z": None, "w": None, "v": 3},
    ]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_change_in_place_as_with_the_reference(tmp_path: Path, version: str) -> None:
    """Joined, and written anew for some rows: the same files, ids, rows and values (S2.9)."""
    other = pa.table({"a": [3, 3, 7, 99], "s": [{"x": row, "y": "new"} for row in range(4)]})
    found = []
    for library in (pilum, lance):
        uri = str(tmp_path / library.__name__)
        dataset = library.write_dataset(
            TABLE, uri, max_rows_per_file=20, data_storage_version=version
        )
        dataset.delete("a in (2, 45)")
        dataset.merge(pa.table({"a": [5, 1, 5], "w": ["five", "one", "last"]}), "a")
        parts = [
            one.update_columns(other, "a", with_offsets=True) for one in dataset.get_fragments()
        ]
        operation = library.LanceOperation.Update(
            updated_fragments=[part[0] for part in parts],
            fields_modified=parts[0][1],
            update_mode="rewrite_columns",
        )
        after = library.LanceDataset.commit(uri, operation, read_version=dataset.version)
        after.delete("a = 20")
        last = lance.dataset(uri)
        last.validate()
        assert_same(pilum.dataset(uri).to_table(), last.to_table())
        files = [file.fields for one in last.get_fragments() for file in one.data_files()]
        found.append((last.to_table(), files, [part[1:] for part in parts]))
    ours, theirs = found
    assert_same(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_with_more_columns_are_read_alike(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    pilum.write_dataset(TABLE, uri, data_storage_version=version)
    more = pa.table({"n": [1.5], "s": [{"x": 1, "z": ["a"]}], "a": [99]})
    dataset = pilum.write_dataset(more, uri, mode="append", schema_mode="merge")
    theirs = lance.dataset(uri)
    theirs.validate()
    assert_same(theirs.to_table(), dataset.to_table())
    theirs.insert(theirs.to_table(filter="a = 99"))
    theirs.delete("a = 98")
    theirs.optimize.compact_files()
    assert_same(pilum.dataset(uri).to_table(), theirs.to_table())
