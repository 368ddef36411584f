"""Sizes of columns, as both libraries tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
pytestmark = pytest.mark.reference

ROWS = 5_000
PACKED = pa.struct([("u", pa.int32()), ("v", pa.float64())])


def table() -> pa.Table:
    random = np.random.default_rng(5)
    structs = [{"x": i, "y": str(i), "l": [i] * (i % 3)} for i in range(ROWS)]
    packed = [{"u": i, "v": i / 3} for i in range(ROWS)]
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.string()), ("l", pa.list_(pa.int32()))])),
            ("w", pa.list_(pa.float32(), 8)),
            pa.field("p", PACKED, metadata={"lance-encoding:packed": "true"}),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    wide = pa.FixedSizeListArray.from_arrays(random.random(ROWS * 8, np.float32), 8)
    columns = [range(ROWS), structs, wide, packed, [bytes(9)] * ROWS]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema)


def sizes(stats: Any) -> list[tuple[int, int]]:
    return [(field.id, field.bytes_on_disk) for field in stats.fields]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", [pilum, lance])
def test_both_tell_the_same_sizes(tmp_path: Path, version: str, writer: Any) -> None:
    rows = table().drop_columns("b") if version == "2.2" else table()
    path = str(tmp_path / "t")
    writer.write_dataset(rows, path, data_storage_version=version, max_rows_per_file=2_000)
    ours, theirs = (library.dataset(path).stats.data_stats() for library in (pilum, lance))
    assert sizes(ours) == sizes(theirs)
    assert sum(size for _, size in sizes(ours)) > 0


def test_columns_without_files_take_nothing(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t")
    dataset.add_columns(pa.field("z", pa.int8()))
    assert [size > 0 for _, size in sizes(dataset.stats.data_stats())] == [True, False]
