"""Both libraries change the columns of one table in turns; both read the same (S2.9)."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.strategies import tables

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_SHARED_FOLDER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
TABLE = pa.table(
    {
        "a": range(50),
        "s": [{"x": row, "y": f"text {row}"} for row in range(50)],
        "l": [[{"u": row, "v": -row}] * (row % 3) for row in range(50)],
    }
)

STEPS = ("sql", "nulls", "values", "drop", "drop member", "rename", "delete", "append", "require")


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
    elif step == "require":
        dataset.alter_columns({"path": names[0], "nullable": False})


def _has_null_structs(table: pa.Table) -> bool:
    return any(pa.types.is_struct(one.type) and one.null_count for one in table.columns)


@settings(max_examples=30, deadline=None, suppress_health_check=_SHARED_FOLDER)
@given(
    version=st.sampled_from(["2.0", "2.1", "2.2"]),
    creator=st.sampled_from([pilum, lance]),
    steps=st.lists(st.tuples(st.sampled_from([pilum, lance]), st.sampled_from(STEPS)), max_size=7),
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


@settings(max_examples=40, deadline=None, suppress_health_check=_SHARED_FOLDER)
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
    # The reference leaves no file at all there, and does not read that itself.
    uri = str(tmp_path / "theirs")
    theirs = lance.write_dataset(TABLE, uri)
    theirs.add_columns(pa.field("n", pa.int32()))
    theirs.drop_columns(["a", "s", "l"])
    assert pilum.dataset(uri).to_table().column("n").null_count == 50
    assert pilum.dataset(uri).count_rows("n is null") == 50
    assert pilum.dataset(uri).take([3]).to_pylist() == [{"n": None}]
