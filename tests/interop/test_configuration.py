"""What field metadata and write options ask for, read by the reference, and how large it is.

The reference reads the same metadata, so that its file with them is what ours is compared with.

S4.10.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [pytest.mark.reference, pytest.mark.checklist("S4.10")]

ROWS = 20_000
MARGIN = 1.05
FEW = 4096
"""Bytes that are no matter: the schema and tables of a file."""

Metadata = dict[str, str]


def _random() -> np.random.Generator:
    return np.random.default_rng(5)


def _words(count: int) -> list[str]:
    pool = [row.tobytes().decode() for row in _random().integers(97, 105, (900, 7), np.uint8)]
    numbers = _random().integers(0, len(pool), (ROWS // 20, count))
    return [" ".join(pool[number] for number in row) for row in numbers]


def _list(items: pa.Array) -> pa.Array:
    offsets = pa.array(np.arange(0, len(items) + 1, 4, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, items)


SHAPES: dict[str, Callable[[], pa.Array]] = {
    "small integers": lambda: pa.array(_random().integers(0, 1000, ROWS, np.int32)),
    "large integers": lambda: pa.array(_random().integers(-(2**62), 2**62, ROWS)),
    "ascending": lambda: pa.array(np.cumsum(_random().integers(0, 50, ROWS))),
    "curve": lambda: pa.array(np.sin(np.arange(ROWS) / 1000).astype(np.float32)),
    "rounded": lambda: pa.array(_random().integers(0, 1000, ROWS) / 4),
    "runs": lambda: pa.array(np.repeat(_random().integers(0, 10**6, ROWS // 50), 50)),
    "bytes": lambda: pa.array(_random().integers(0, 100, ROWS, np.int8)),
    "booleans": lambda: pa.array(_random().random(ROWS) < 0.05),
    "decimals": lambda: pa.array(_random().integers(0, 10**6, ROWS)).cast(pa.decimal128(24, 2)),
    "sentences": lambda: pa.array(_words(6)),
    "paragraphs": lambda: pa.array(_words(60)),
    "few strings": lambda: pa.array(_words(2)[:50]).take(pa.array(_random().integers(0, 50, ROWS))),
    "nulls": lambda: pa.array(
        _random().integers(0, 10**5, ROWS), mask=_random().random(ROWS) < 0.3
    ),
    "vectors": lambda: pa.FixedSizeListArray.from_arrays(
        pa.array(_random().random(ROWS, np.float32)), 8
    ),
    "lists": lambda: _list(pa.array(_random().integers(0, 50, ROWS))),
}

ASKED: list[Metadata] = [
    {"compression": "lz4"},
    {"compression": "zstd"},
    {"compression": "zstd", "compression-level": "9"},
    {"compression": "none"},
    {"compression": "fsst"},
    {"compression": "lz4", "bss": "off"},
    {"compression": "zstd", "bss": "on"},
    {"rle-threshold": "0.0"},
    {"rle-threshold": "0.01"},
    {"rle-threshold": "1.0"},
    {"dict-divisor": "100000"},
    {"dict-size-ratio": "0.01"},
    {"dict-values-compression": "zstd", "dict-values-compression-level": "3"},
    {"dict-values-compression": "none"},
    {"structural-encoding": "fullzip"},
    {"structural-encoding": "miniblock"},
    {"minichunk-size": "512"},
    {"minichunk-size": "16384"},
]


@cache
def _values(shape: str) -> pa.Array:
    return SHAPES[shape]()


def table_of(shape: str, asked: Metadata) -> pa.Table:
    """One column; of lists, it is the item that has what is for leaves."""
    values = _values(shape)
    metadata = {f"lance-encoding:{key}": value for key, value in asked.items()}
    kind = values.type
    if pa.types.is_list(kind):
        kind = pa.list_(pa.field("item", kind.value_type, metadata=metadata))
    field = pa.field("c", kind, metadata=metadata)
    return pa.Table.from_arrays([values.cast(kind)], schema=pa.schema([field]))


def _name(asked: Metadata) -> str:
    return ",".join(map("=".join, asked.items()))


@pytest.mark.parametrize(
    ("shape", "asked", "version"),
    [
        pytest.param(shape, asked, version, id=f"{shape}-{_name(asked)}-{version}")
        for row, shape in enumerate(SHAPES)
        for column, asked in enumerate(ASKED)
        for version in [("2.1", "2.2")[(row + column) % 2]]
    ],
)
def test_metadata(tmp_path: Path, shape: str, asked: Metadata, version: str) -> None:
    """Each pair of a shape, what is asked for it, and a version of the file."""
    table = table_of(shape, asked)
    pilum.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=version)
    _assert_reads_as(tmp_path, table)
    ours, theirs = (_size(tmp_path / name) for name in ("ours", "theirs"))
    assert ours <= MARGIN * theirs + FEW, f"{ours / theirs:.2f} times as large"


def _assert_reads_as(folder: Path, table: pa.Table) -> None:
    """What each wrote, the other reads, all of it and some rows."""
    rows = [0, 1, table.num_rows // 2, table.num_rows - 1]
    for dataset in (lance.dataset(str(folder / "ours")), pilum.dataset(folder / "theirs")):
        assert_same(dataset.to_table(), table)
        assert_same(dataset.take(rows), table.take(rows))
    assert_same(pilum.dataset(folder / "ours").to_table(), table)


def _size(table: Path) -> int:
    return sum(file.stat().st_size for file in (table / "data").iterdir())


OPTIONS: list[dict[str, Any]] = [
    {"minichunk_values": 2},
    {"minichunk_values": 64},
    {"minichunk_values": 32_768},
    {"minichunk_size": 1},
    {"minichunk_size": 100_000, "minichunk_values": 32_768},
    {"minichunk_size": 2_000_000, "minichunk_values": 32_768},
    {"minichunk_size": 2_000_000, "minichunk_values": 32_768, "compression": "zstd"},
    {"minichunk_size": 40_000, "compression": "lz4"},
    {"minichunk_size": 300_000, "minichunk_values": 16_384, "compression": "lz4", "bss": "on"},
    {"structural_encoding": "fullzip", "compression": "lz4"},
    {"prefer": "size"},
    {"structural_encoding": "miniblock", "minichunk_size": 2_000_000},
]


@pytest.mark.checklist("S4.1")
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("asked", OPTIONS, ids=str)
def test_options_of_a_write(tmp_path: Path, asked: dict[str, Any], version: str) -> None:
    """Chunks of any size that may be asked for, also above 32 KiB and 4,096 values."""
    table = _all_shapes(15_000)
    options = pilum.EncodingOptions(**asked)
    pilum.write_dataset(table, tmp_path, data_storage_version=version, encoding_options=options)
    rows = [0, table.num_rows // 2, table.num_rows - 1]
    for dataset in (lance.dataset(str(tmp_path)), pilum.dataset(tmp_path)):
        assert_same(dataset.to_table(), table)
        assert_same(dataset.take(rows), table.take(rows))


def _all_shapes(rows: int) -> pa.Table:
    made = {shape: _values(shape) for shape in SHAPES}
    return pa.table(
        {shape: values.take(np.arange(rows) % len(values)) for shape, values in made.items()}
    )


@pytest.mark.checklist("S0.1", "S1.1")
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    "layout",
    [
        {"data_cache_bytes": 1},
        {"data_cache_bytes": 100_000},
        {"max_page_bytes": 30_000},
        {"data_cache_bytes": 1 << 30, "max_page_bytes": 1 << 30},
        {"buffer_alignment": 4096},
    ],
    ids=str,
)
def test_sizes_of_pages_and_alignment(tmp_path: Path, layout: dict[str, Any], version: str) -> None:
    """Pages of any size, buffers at any distance."""
    rows = 100 if layout.get("data_cache_bytes") == 1 else 2000
    table = _all_shapes(rows)
    pilum.write_dataset(table, tmp_path, data_storage_version=version, **layout)
    for dataset in (lance.dataset(str(tmp_path)), pilum.dataset(tmp_path)):
        assert_same(dataset.to_table(), table)
        assert_same(dataset.take([0, 7, rows - 1]), table.take([0, 7, rows - 1]))
