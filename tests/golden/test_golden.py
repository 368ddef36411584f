"""Files of the reference implementation, one per encoding, that must be read for ever.

A file that exists is never written again: a new case gets a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, read_rows

from pilum.container.reader import FileReader
from pilum.format.rows import RowRanges

FOLDER = Path(__file__).parent
MAX_BYTES = 10_000


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        shows: What it is there for.
        values: Its one column.
        encodings: Names that its descriptions hold.
        metadata: Of the field, to steer the writer.
        page_rows: Rows per page; None for one page.
        version: Of the file.
        reads: What it gives, if that is not what was written.
    """

    shows: str
    values: Callable[[], pa.Array]
    encodings: tuple[str, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    page_rows: int | None = None
    version: str = "2.1"
    reads: Callable[[], pa.Array] | None = None


def compression(name: str, **more: str) -> dict[str, str]:
    return {"lance-encoding:compression": name} | {
        f"lance-encoding:{key.replace('_', '-')}": value for key, value in more.items()
    }


def texts(count: int, times: int) -> list[str]:
    return [f"the quick brown fox {i} jumps over the lazy dog, " * times for i in range(count)]


NESTED: list[Any] = [[{"p": [1, 2]}, None, {"p": None}, {"p": []}], [], None, [{"p": [None, 3]}]]
POINTS = pa.struct({"x": pa.int32(), "y": pa.float64()})
TAGGED = pa.struct({"s": pa.string(), "v": pa.list_(pa.int16(), 2), "n": pa.uint8()})
PLACES = pa.struct({"position": pa.uint64(), "size": pa.uint64()})
CASES = {
    "flat": Case(
        "three integers as they are",
        lambda: pa.array([1, 2, 3], pa.int32()),
        ("mini_block_layout", "flat"),
    ),
    "booleans": Case(
        "a bitmap and definition levels in one bit each",
        lambda: pa.array([None if i % 5 == 0 else i % 3 == 0 for i in range(5000)]),
        ("mini_block_layout", "out_of_line_bitpacking"),
    ),
    "inline_bitpacking": Case(
        "integers in as many bits as each chunk needs",
        lambda: pa.array([(i * i) % (7 if i < 1024 else 999) for i in range(1500)], pa.int64()),
        ("inline_bitpacking",),
    ),
    "rle": Case(
        "runs longer than 255 over two chunks",
        lambda: pa.array([7] * 5000 + [8, 9], pa.int32()),
        ("rle",),
    ),
    "byte_stream_split": Case(
        "floats by byte position, too few to be compressed",
        lambda: pa.array(np.arange(500, dtype=np.float32)),
        ("byte_stream_split",),
        compression("lz4", bss="on"),
    ),
    "general_lz4": Case(
        "floats by byte position in LZ4 blocks",
        lambda: pa.array(np.arange(3000, dtype=np.float32)),
        ("general", "byte_stream_split", "LZ4"),
        compression("lz4"),
    ),
    "general_zstd": Case(
        "strings in zstd frames of a chosen level",
        lambda: pa.array(texts(120, 1)),
        ("general", "variable", "ZSTD", "level: 9"),
        compression("zstd", compression_level="9"),
    ),
    "variable": Case(
        "strings with nulls and empty ones",
        lambda: pa.array(["ab", "", "cde", None, "f"]),
        ("mini_block_layout", "variable"),
    ),
    "large_variable": Case(
        "binaries with offsets of 64 bits",
        lambda: pa.array([b"ab", b"", None, b"\xff\0"], pa.large_binary()),
        ("variable", "bits_per_value: 64"),
    ),
    "fsst": Case(
        "text compressed by symbols",
        lambda: pa.array(texts(200, 4)),
        ("fsst", "mini_block_layout"),
    ),
    "fsst_identity": Case(
        "an FSST page with an empty table, whose strings stand as they are",
        lambda: pa.array(["short", "strings", None]),
        ("fsst",),
        compression("fsst"),
    ),
    "dictionary": Case(
        "strings by their index, with nulls",
        lambda: pa.array([None if i % 7 == 0 else f"word {i % 5}" for i in range(300)]),
        ("dictionary", "num_dictionary_items"),
    ),
    "dictionary_decimal": Case(
        "decimals by their index",
        lambda: pa.array([Decimal(i % 10) for i in range(300)], pa.decimal128(12, 2)),
        ("dictionary", "bits_per_value: 128"),
    ),
    "full_zip_vectors": Case(
        "vectors with null items, side by side with their bitmaps",
        lambda: pa.array(
            [None if i == 1 else [i, None] + [i] * 70 for i in range(5)], pa.list_(pa.float32(), 72)
        ),
        ("full_zip_layout", "fixed_size_list", "has_validity: true"),
    ),
    "full_zip_strings": Case(
        "long strings with an index of their rows",
        lambda: pa.array(["x" * 300, None, "", "yz"]),
        ("full_zip_layout", "bits_per_offset: 32"),
    ),
    "full_zip_zstd": Case(
        "very long strings, each in a zstd frame",
        lambda: pa.array(["ab" * 28_000, None, "c"]),
        ("full_zip_layout", "general", "ZSTD"),
    ),
    "full_zip_lists": Case(
        "lists of long strings with repetition and definition in control words",
        lambda: pa.array([[["a" * 300], [], None], [], None, [[None, "b"]]]),
        ("full_zip_layout", "bits_rep: 2", "bits_def: 3"),
    ),
    "full_zip_booleans": Case(
        "booleans that take a byte each",
        lambda: pa.array([True, None, False, True]),
        ("full_zip_layout",),
        {"lance-encoding:structural-encoding": "fullzip"},
    ),
    "vectors": Case(
        "small vectors with null items in chunks",
        lambda: pa.array(
            [None if i == 2 else [i, None, 3] for i in range(9)], pa.list_(pa.int8(), 3)
        ),
        ("mini_block_layout", "fixed_size_list", "has_validity: true"),
    ),
    "vectors_of_vectors": Case(
        "fixed-size lists in fixed-size lists",
        lambda: pa.array(
            [[[1, 2], [3, None]], None, [None, [5, 6]]], pa.list_(pa.list_(pa.int32(), 2), 2)
        ),
        ("fixed_size_list",),
    ),
    "nulls": Case(
        "a page without buffers",
        lambda: pa.nulls(1000, pa.string()),
        ("constant_layout",),
    ),
    "lists_without_values": Case(
        "a page of levels alone",
        lambda: pa.array([[], None, [None], []], pa.list_(pa.int32())),
        ("constant_layout", "NULL_AND_EMPTY_LIST"),
    ),
    "lists": Case(
        "lists over several chunks, one of which goes on from chunk to chunk",
        lambda: pa.array([[i] * (i % 4) for i in range(400)] + [list(range(3000)), None]),
        ("mini_block_layout", "repetition_index_depth: 1"),
    ),
    "lists_of_structs": Case(
        "lists of structs of lists, null and empty at every depth",
        lambda: pa.array(NESTED, pa.list_(pa.struct([("p", pa.list_(pa.int64()))]))),
        ("NULL_AND_EMPTY_LIST", "NULLABLE_ITEM"),
    ),
    "structs": Case(
        "a null struct above members of its own pages",
        lambda: pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
        ("NULLABLE_ITEM",),
    ),
    "structs_without_members": Case(
        "structs that have no column but this one",
        lambda: pa.array([{}, {}], pa.struct([])),
        ("constant_layout",),
    ),
    "pages": Case(
        "pages of different layouts in one column",
        lambda: pa.concat_arrays([pa.nulls(50, pa.int32()), pa.array(range(100), pa.int32())]),
        ("constant_layout", "mini_block_layout"),
        page_rows=50,
    ),
    "packed_structs": Case(
        "members side by side, and a null struct",
        lambda: pa.array([{"x": 1, "y": 0.5}, None, {"x": 3, "y": -2.0}], POINTS),
        ("packed_struct",),
        {"lance-encoding:packed": "true"},
    ),
    "packed_structs_of_strings": Case(
        "members that vary in length, in full-zip pages of version 2.2",
        lambda: pa.array(
            [{"s": "a", "v": [1, None], "n": 7}, None, {"s": "", "v": [3, 4], "n": 8}], TAGGED
        ),
        ("full_zip_layout", "variable_packed_struct"),
        {"lance-encoding:packed": "true"},
        version="2.2",
    ),
    "blobs": Case(
        "positions and sizes of blobs, one of them null and one empty",
        lambda: pa.array([b"abc" * 100, None, b"", b"q" * 500], pa.large_binary()),
        ("blob_layout", "packed_struct"),
        {"lance-encoding:blob": "true"},
        reads=lambda: pa.array([(0, 300), None, (0, 0), (320, 500)], PLACES),
    ),
    "dictionary_array": Case(
        "an Arrow dictionary, whose keys of 8 bits are the values of the page",
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([2, None, 0, 2], pa.uint8()), pa.array(["a", "not used", "c"])
        ),
        ("dictionary", "num_dictionary_items: 3", "bits_per_value: 8"),
    ),
    "dictionary_of_booleans": Case(
        "a dictionary that is a bitmap",
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([1, 0, None, 1], pa.int16()), pa.array([True, False])
        ),
        ("dictionary", "bits_per_value: 1\n"),
        version="2.2",
    ),
    "maps": Case(
        "maps with structs as values, null and empty ones among them",
        lambda: pa.array(
            [[("a", {"x": 1}), ("b", None)], None, [], [("c", {"x": None})]],
            pa.map_(pa.string(), pa.struct([("x", pa.int32())])),
        ),
        ("mini_block_layout", "NULL_AND_EMPTY_LIST", "has_large_chunk"),
        version="2.2",
    ),
    "vectors_of_structs": Case(
        "fixed-size lists of structs, whose levels are told for each element",
        lambda: pa.array(
            [[{"x": 1}, {"x": 2}], None, [{"x": None}, None]],
            pa.list_(pa.struct([("x", pa.int32())]), 2),
        ),
        ("NULLABLE_ITEM", "num_items: 6"),
        version="2.2",
    ),
    "structs_that_are_null": Case(
        "null structs above valid members, which make a page without values",
        lambda: pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([True] * 2)),
        ("constant_layout", "NULLABLE_ITEM"),
        version="2.2",
    ),
    "levels_in_runs": Case(
        "empty lists whose levels are run-length encoded",
        lambda: pa.array([[]] * 3000 + [None] * 2000, pa.list_(pa.int8())),
        ("constant_layout", "rle", "num_rep_values: 5000"),
        version="2.2",
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
    with writers.LanceFileWriter(
        str(path_of(name)), schema, version=case.version, **options
    ) as writer:
        for batch in pa.table([values], schema=schema).to_batches(max_chunksize=case.page_rows):
            writer.write_batch(copied(batch))


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with buffers of its own size."""
    arrays = [pa.concat_arrays([column.slice(0, 0), column]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


@pytest.mark.checklist("S4.1", "S4.2", "S4.3", "S4.5", "S4.6", "S4.8", "S4.9")
@pytest.mark.parametrize("name", CASES)
def test_is_read(name: str, update_golden: bool) -> None:
    if update_golden and not path_of(name).exists():
        write(name, CASES[name])
    expected = (CASES[name].reads or CASES[name].values)()
    reader = FileReader.open(MemorySource(path_of(name).read_bytes()))
    count = reader.num_rows
    assert read_rows(reader, RowRanges.of((0, count)))["values"].combine_chunks().equals(expected)
    for row in {0, 1, count // 2, count - 1}:
        found = read_rows(reader, RowRanges.of((row, row + 1)))
        assert found["values"].combine_chunks().equals(expected.slice(row, 1))


@pytest.mark.parametrize("name", CASES)
def test_shows_what_it_says(name: str) -> None:
    data = path_of(name).read_bytes()
    assert len(data) < MAX_BYTES
    reader = FileReader.open(MemorySource(data))
    columns = reader.columns(range(reader.num_columns))
    pages: list[Any] = [layout for column in columns for _, layout in column.entries]
    described = "\n".join(map(str, pages))
    assert all(encoding in described for encoding in CASES[name].encodings), described


def test_every_file_is_explained() -> None:
    explained = (FOLDER / "README.md").read_text()
    assert {path.stem for path in FOLDER.glob("*.lance")} == set(CASES)
    for name, case in CASES.items():
        assert f"- `{name}.lance`: {case.shows}." in explained
