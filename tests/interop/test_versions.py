"""One table that both libraries write in turns, and travel in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.reading import Request, assert_reads_as, requests
from interop.strategies import Style, array_of, tables

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_SETTINGS = settings(
    max_examples=25,
)


def write(by: str, data: Any, path: str, mode: str, **options: Any) -> None:
    if by == "ours":
        pilum.write_dataset(data, path, mode=mode, **options)
    else:
        lance.write_dataset(data, path, mode=mode, data_storage_version="2.1", **options)


def rows_like(schema: pa.Schema, size: int, seed: int) -> pa.Table:
    style = Style(seed, 0.3, "few", 3)
    arrays = [array_of(field, size, style) for field in schema]
    return as_stored(pa.Table.from_arrays(arrays, schema=schema))


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ours", "theirs"]),
        st.sampled_from(["append", "append", "append", "overwrite"]),
        st.sampled_from([0, 1, 700, 5000]),
        st.sampled_from([1_000_000, 256]),
        st.integers(0, 2**32 - 1),
    ),
    min_size=1,
    max_size=6,
)


@_SETTINGS
@given(
    first=tables(max_columns=3, rows=st.sampled_from([0, 1, 1025])),
    steps=_STEPS,
    request=requests(),
)
@pytest.mark.checklist("S2.6")
def test_any_turns(
    tmp_path: Path,
    first: pa.Table,
    steps: list[tuple[str, str, int, int, int]],
    request: Request,
) -> None:
    path = str(tmp_path / str(next(_NUMBERS)))
    versions = [as_stored(first)]
    write(steps[0][0], versions[0], path, "create")
    for by, mode, size, rows_per_file, seed in steps:
        rows = rows_like(first.schema, size, seed)
        write(by, rows, path, mode, max_rows_per_file=rows_per_file)
        versions.append(pa.concat_tables([versions[-1], rows]) if mode == "append" else rows)
    require_history(path, versions)
    assert_reads_as(pilum.dataset(path), as_stored(versions[-1]), request)


def require_history(path: str, versions: list[pa.Table]) -> None:
    """Every version as both libraries see it."""
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    for our_version, their_version in zip(ours.versions(), theirs.versions(), strict=True):
        # It goes through a float of seconds, which rounds microseconds.
        difference = our_version["timestamp"] - their_version.pop("timestamp")
        assert abs(difference) <= timedelta(microseconds=1)
        assert their_version.items() <= our_version.items()
    assert ours.version == theirs.version == ours.latest_version == len(versions)
    for number, expected in enumerate(versions, 1):
        for found in (ours.checkout_version(number), lance.dataset(path, version=number)):
            assert found.version == number
            assert_same(found.to_table(), expected)
            assert found.count_rows() == expected.num_rows
    theirs.validate()


@pytest.mark.checklist("S2.6")
def test_an_overwrite_with_another_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables = [
        pa.table({"a": [1, 2], "s": ["x", None]}),
        pa.table({"s": pa.array([[1.5], None], pa.list_(pa.float64()))}),
        pa.table({"a": pa.array([{"x": True}]), "n": pa.array([3], pa.int8())}),
        pa.table({"other": [b"x"] * 5}),
    ]
    for table, by in zip(tables, ["theirs", "ours", "theirs", "ours"], strict=True):
        write(by, table, path, "overwrite")
    require_history(path, tables)


def test_the_same_moments_in_time(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables = [pa.table({"a": [number]}) for number in range(4)]
    for table, by in zip(tables, ["ours", "theirs", "theirs", "ours"], strict=True):
        write(by, table, path, "overwrite")
    for version in lance.dataset(path).versions():
        when = version["timestamp"] + timedelta(microseconds=2)
        found = [library.dataset(path, asof=when).version for library in (pilum, lance)]
        assert found[0] == found[1] == version["version"]


@pytest.mark.checklist("S2.4")
def test_rows_that_an_append_left_out(tmp_path: Path) -> None:
    """Columns, and members of structs, that a fragment does not have are null in it."""
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("st", pa.struct([("x", pa.string()), ("y", pa.list_(pa.int8()))])),
            ("v", pa.list_(pa.float32(), 3)),
        ]
    )
    whole = rows_like(schema, 100, 1)
    less = pa.table({"v": whole["v"], "st": pa.array([{"y": [1, 2]}, None] * 50)}).cast(
        pa.schema([schema.field("v"), ("st", pa.struct([("y", pa.list_(pa.int8()))]))])
    )
    for number, turns in enumerate([("ours", "theirs"), ("theirs", "ours")]):
        path = str(tmp_path / str(number))
        write(turns[0], whole, path, "create")
        write(turns[1], less, path, "append")
        write(turns[0], whole.select(["st", "a", "v"]), path, "append")
        found = pilum.dataset(path)
        assert_same(found.to_table(), lance.dataset(path).to_table())
        rows = [150, 3, 101, 250, 199, 150]
        assert_same(found.take(rows), lance.dataset(path).take(rows))
        assert found.to_table(["a"]).slice(100, 100)["a"].null_count == 100


def batches_of(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 700, 8192])
def test_streams_of_batches(tmp_path: Path, size: int) -> None:
    schema = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.string())), ("b", pa.bool_())])
    table = rows_like(schema, 2500 if size == 1 else 50_000, 5)
    path = str(tmp_path / "t")
    write("ours", batches_of(table, size), path, "create", schema=schema, max_rows_per_file=20_000)
    assert_same(lance.dataset(path).to_table(), table)
    write("ours", lance.dataset(path), path, "append")
    write("theirs", pilum.dataset(path).scanner(limit=10).to_reader(), path, "append")
    expected = pa.concat_tables([table, table, table.slice(0, 10)])
    assert_same(pilum.dataset(path).to_table(), expected)
    assert_same(lance.dataset(path).to_table(), expected)
