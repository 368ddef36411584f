"""Files of version 2.0 by the reference implementation that must be read for ever.

A file that exists is never written again: a new case gets a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from container.paged import open_paged, read_paged, write_paged

from pilum.format.rows import RowRanges

FOLDER = Path(__file__).parent
MAX_BYTES = 10_000
COMPRESSION = "lance-encoding:compression"


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        shows: What it is there for.
        values: Its one column.
        encodings: Names that its descriptions hold.
        metadata: Of the field, to steer the writer.
        page_rows: Rows per page; None for one page.
    """

    shows: str
    values: Callable[[], pa.Array]
    encodings: tuple[str, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    page_rows: int | None = None


POINT = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.struct([("p", pa.string())])))])
CASES = {
    "flat": Case(
        "integers without nulls", lambda: pa.array([1, 2, 3], pa.int32()), ("no_nulls", "flat")
    ),
    "nullable": Case(
        "integers and their validity",
        lambda: pa.array([1, None, 3] * 5, pa.int64()),
        ("some_nulls", "flat"),
    ),
    "booleans": Case(
        "bits, and the bits of their validity",
        lambda: pa.array([True, None, False] * 7),
        ("some_nulls", "bits_per_value: 1"),
    ),
    "nulls": Case("a page without buffers", lambda: pa.nulls(9, pa.float64()), ("all_nulls",)),
    "null_type": Case("the type of nulls", lambda: pa.nulls(9), ("all_nulls",)),
    "strings": Case(
        "strings with nulls and empty ones",
        lambda: pa.array(["hello", None, "", "world"]),
        ("binary", "null_adjustment: 11"),
    ),
    "null_strings": Case(
        "nulls of strings, which have end offsets all the same",
        lambda: pa.nulls(3, pa.large_string()),
        ("binary", "null_adjustment: 1"),
    ),
    "dictionary_strings": Case(
        "few distinct strings by number, where 0 is null",
        lambda: pa.array(["aa", "b", None, "ccc"] * 25),
        ("dictionary", "num_dictionary_items: 3"),
    ),
    "zstd": Case(
        "the bytes of strings in a zstd frame",
        lambda: pa.array([f"the same {i % 7} text again" for i in range(60)]),
        ("compression", "zstd"),
        {COMPRESSION: "zstd"},
    ),
    "lz4": Case(
        "the bytes of strings in an LZ4 block",
        lambda: pa.array([f"the same {i % 7} text again" for i in range(60)]),
        ("compression", "lz4"),
        {COMPRESSION: "lz4"},
    ),
    "fsst": Case(
        "strings compressed by symbols",
        lambda: pa.array([f"the same {i} text again and again, " * 7 for i in range(140)]),
        ("fsst", "symbol_table"),
        {COMPRESSION: "fsst"},
    ),
    "fsst_identity": Case(
        "too few strings to be compressed by symbols",
        lambda: pa.array(["one", None, "three"]),
        ("fsst",),
        {COMPRESSION: "fsst"},
    ),
    "vectors": Case(
        "fixed-size lists that are null, and items that are",
        lambda: pa.array([[1, None], None, [5, 6]], pa.list_(pa.int32(), 2)),
        ("fixed_size_list", "some_nulls"),
    ),
    "vectors_of_bits": Case(
        "rows that begin within a byte",
        lambda: pa.array([[True, False, True], [False, False, True]], pa.list_(pa.bool_(), 3)),
        ("fixed_size_list", "bits_per_value: 1"),
    ),
    "lists": Case(
        "lists, null and empty ones",
        lambda: pa.array([[1, 2], None, [], [3, 4, 5]], pa.list_(pa.int32())),
        ("null_offset_adjustment: 6", "num_items: 5"),
    ),
    "lists_without_items": Case(
        "items in a page of length 0",
        lambda: pa.array([[], None, []], pa.large_list(pa.list_(pa.string()))),
        ("null_offset_adjustment: 1",),
    ),
    "structs": Case(
        "structs, and structs in lists, with a column each",
        lambda: pa.array(
            [{"x": 1, "l": [{"p": "a"}, {"p": None}]}, {"x": None, "l": None}, {"x": 3, "l": []}],
            POINT,
        ),
        ("struct", "list", "binary"),
    ),
    "pages": Case(
        "a column of several pages, some of lists",
        lambda: pa.array([[i] * (i % 4) if i % 5 else None for i in range(40)]),
        ("list",),
        page_rows=16,
    ),
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.lance"


def write(name: str, case: Case) -> None:
    """Writes a file with the reference implementation."""
    writers = pytest.importorskip("lance.file")
    values = case.values()
    schema = pa.schema([pa.field("values", values.type, metadata=dict(case.metadata) or None)])
    options = {} if case.page_rows is None else {"data_cache_bytes": 1}
    with writers.LanceFileWriter(str(path_of(name)), schema, version="2.0", **options) as writer:
        for batch in pa.table([values], schema=schema).to_batches(max_chunksize=case.page_rows):
            arrays = [pa.concat_arrays([column.slice(0, 0), column]) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


@pytest.mark.parametrize("name", CASES)
def test_is_read(name: str, update_golden: bool) -> None:
    if update_golden and not path_of(name).exists():
        write(name, CASES[name])
    expected = CASES[name].values()
    reader = open_paged(path_of(name).read_bytes())
    count = reader.num_rows
    assert read_paged(reader, RowRanges.of((0, count)))["values"].combine_chunks().equals(expected)
    for row in {0, 1, count // 2, count - 1}:
        found = read_paged(reader, RowRanges.of((row, row + 1)))
        assert found["values"].combine_chunks().equals(expected.slice(row, 1))


@pytest.mark.parametrize("name", CASES)
def test_shows_what_it_says(name: str) -> None:
    data = path_of(name).read_bytes()
    assert len(data) < MAX_BYTES
    assert data[-8:-4] == b"\0\0\3\0"
    described = "".join(map(str, descriptions(data)))
    assert all(encoding in described for encoding in CASES[name].encodings), described


# Symbols and LZ4 matches are found in other ways, and pages cut elsewhere.
OUR_OWN = {"fsst", "lz4", "pages"}


@pytest.mark.parametrize("name", sorted(set(CASES) - OUR_OWN))
def test_we_write_the_same_bytes(name: str) -> None:
    values, metadata = CASES[name].values(), dict(CASES[name].metadata)
    schema = pa.schema([pa.field("values", values.type, metadata=metadata or None)])
    assert write_paged(pa.table([values], schema=schema)) == path_of(name).read_bytes()


def descriptions(data: bytes) -> list[Any]:
    """Messages of all pages that hold something."""
    reader = open_paged(data)
    columns = reader.columns(range(reader.num_columns))
    return [page.encoding for column in columns for page in column._pages]


def test_every_file_is_explained() -> None:
    explained = (FOLDER / "README.md").read_text()
    assert {path.stem for path in FOLDER.glob("*.lance")} == set(CASES)
    for name, case in CASES.items():
        assert f"- `{name}.lance`: {case.shows}." in explained
