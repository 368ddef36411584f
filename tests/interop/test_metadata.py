"""What is not values: names, metadata, nullability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize(
    ("writer", "reader"), [(pilum, lance), (lance, pilum), (pilum, pilum)], ids=["wr", "rw", "ww"]
)


def written(writer: Any, table: pa.Table, path: Path, mode: str = "create") -> None:
    writer.write_dataset(table, str(path), data_storage_version="2.1", mode=mode)


@LIBRARIES
def test_metadata_of_fields_and_schema(tmp_path: Path, writer: Any, reader: Any) -> None:
    inner = pa.field("x", pa.int32(), metadata={"deep": "ß"})
    item = pa.field("item", pa.int8(), False, metadata={"of": "an item"})
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), False, metadata={"unit": "m", "": "no key"}),
            pa.field("st", pa.struct([inner]), metadata={"empty": ""}),
            pa.field("l", pa.list_(item)),
        ],
        metadata={"who": "me", "💧": "x" * 5000},
    )
    table = pa.table([[1, 2], [{"x": 1}, None], [[1], []]], schema=schema)
    written(writer, table, tmp_path / "t")
    assert_same(reader.dataset(tmp_path / "t").to_table(), table)


@LIBRARIES
def test_names(tmp_path: Path, writer: Any, reader: Any) -> None:
    names = ["", " ", "a b", "A", "a", "ä/💧", '"', "select", "n" * 500]
    members = pa.struct([(name, pa.int8()) for name in names])
    table = pa.table({name: pa.array([1, None]) for name in names if name}).append_column(
        "st", pa.array([dict.fromkeys(names, 1), None], members)
    )
    written(writer, table, tmp_path / "t")
    assert_same(reader.dataset(tmp_path / "t").to_table(), table)


@LIBRARIES
@pytest.mark.checklist("S1.4")
def test_two_hundred_columns(tmp_path: Path, writer: Any, reader: Any) -> None:
    table = pa.table({f"column {number}": pa.array([number, None]) for number in range(200)})
    written(writer, table, tmp_path / "t")
    found = reader.dataset(tmp_path / "t")
    assert_same(found.to_table(), table)
    wanted = ["column 150", "column 3"]
    assert_same(found.to_table(columns=wanted), table.select(wanted))


@LIBRARIES
def test_views_come_back_as_plain_strings(tmp_path: Path, writer: Any, reader: Any) -> None:
    views = {"s": pa.string_view(), "b": pa.binary_view(), "l": pa.list_(pa.string_view())}
    plain = {"s": pa.string(), "b": pa.binary(), "l": pa.list_(pa.string())}
    rows = {"s": ["x", None, "y" * 20], "b": [b"", b"z" * 30, None], "l": [["a"], None, ["b" * 99]]}
    table = pa.table(rows, schema=pa.schema(list(views.items())))
    written(writer, table, tmp_path / "t")
    assert_same(
        reader.dataset(tmp_path / "t").to_table(), pa.table(rows, pa.schema(list(plain.items())))
    )
