"""How fast is each encoding, beside copying memory? One page, one core, nothing read from disk.

    python -m bench.encodings

It is also the last part of a run of the whole bench.
A page is encoded from Arrow and decoded into Arrow again, and the result compared, before anything
is timed. GB/s count the bytes of the Arrow array, not those that are stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.drawn import cities, int32_small, int64_random, runs, text, vectors
from bench.questions.base import timed
from pilum.container.assemble import assemble
from pilum.encodings.base import EncodedPage, PageRead, StoredPage
from pilum.encodings.choose import encode_pages
from pilum.encodings.options import EncodingOptions
from pilum.encodings.registry import layout_of, read_pages
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Fetched, Ranges, run_plan

__all__ = ["CASES", "Speed", "measure"]

ROWS = 1_000_000
REPEAT = 7
_DEFAULTS = EncodingOptions()


@dataclass(frozen=True, slots=True)
class Case:
    """One way to store a page.

    Attributes:
        name: As in the report.
        make: Number of rows → the column.
        one_in: Of the rows asked for, how many this page has (1 = all, 20 = every twentieth).
        stored: Part of the description that the page must have.
        version: Of the file.
        options: What is asked of the writer.
    """

    name: str
    make: Callable[[int], pa.Array]
    stored: str
    one_in: int = 1
    version: FileVersion = FileVersion.V2_1
    options: EncodingOptions = _DEFAULTS


@dataclass(frozen=True, slots=True)
class Speed:
    """GB/s of Arrow bytes, on one core; `copy` is that of memory to memory."""

    case: str
    bytes_in: int
    bytes_stored: int
    encode: float
    decode: float
    copy: float


def _seeded(make: Callable[[int, np.random.Generator], Any]) -> Callable[[int], pa.Array]:
    return lambda rows: make(rows, np.random.default_rng(0))


def _with_nulls(rows: int) -> pa.Array:
    random = np.random.default_rng(0)
    return pa.array(random.standard_normal(rows), mask=random.random(rows) < 0.1)


def _lists(rows: int) -> pa.Array:
    random = np.random.default_rng(0)
    offsets = np.arange(0, 8 * rows + 1, 8, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(random.standard_normal(8 * rows)))


def _decimals(rows: int) -> pa.Array:
    return pa.array(np.random.default_rng(0).integers(0, 9, rows)).cast(pa.decimal128(38, 0))


def _same(rows: int) -> pa.Array:
    return pa.array(np.full(rows, 7, dtype=np.int64))


def _binary(rows: int) -> pa.Array:
    return _text(rows).cast(pa.binary())


def _walk(rows: int) -> pa.Array:
    return pa.array(np.cumsum(np.random.default_rng(0).standard_normal(rows)).astype(np.float32))


def _wide_binary(rows: int) -> pa.Array:
    data = np.random.default_rng(0).integers(0, 256, rows * 600, dtype=np.uint8)
    offsets = np.arange(0, rows * 600 + 1, 600, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, *map(pa.py_buffer, (offsets, data))])


def _text(rows: int) -> pa.Array:
    return text(2, 6)(rows, np.random.default_rng(0))


_LZ4 = EncodingOptions(compression="lz4", bss="on")
CASES = (
    Case("flat, 64 bits", _seeded(int64_random), "value_compression { flat"),
    Case("flat with nulls", _with_nulls, "def_compression"),
    Case("inline bit-packing, 10 of 32 bits", _seeded(int32_small), "inline_bitpacking"),
    Case("run-length", _seeded(runs), "rle"),
    Case("constant", _same, "constant_layout", version=FileVersion.V2_2),
    Case("byte-stream split, LZ4", _walk, "byte_stream_split", options=_LZ4),
    Case("variable", _binary, "variable", 4),
    Case("LZ4 of variable", _binary, "general", 4, options=EncodingOptions(compression="lz4")),
    Case("zstd of variable", _binary, "general", 4, options=EncodingOptions(compression="zstd")),
    Case("FSST", _text, "fsst"),
    Case("dictionary of strings", _seeded(cities), "dictionary"),
    Case("dictionary of decimals", _decimals, "dictionary", 4),
    Case("lists of 8 doubles", _lists, "rep_compression", 16),
    Case("vectors of 32 floats", _seeded(vectors(32)), "fixed_size_list", 32),
    Case("full-zip, vectors of 768 floats", _seeded(vectors(768)), "full_zip_layout", 500),
    Case("full-zip, binaries of 600 bytes", _wide_binary, "full_zip_layout", 100),
)


class _Memory:
    """The buffers of a page, as a file would hold them."""

    path = "memory"

    def __init__(self, buffers: Sequence[Any]) -> None:
        data, self.places = bytearray(), []
        for buffer in buffers:
            size = memoryview(buffer).nbytes
            self.places.append((len(data), size))
            data += memoryview(buffer).cast("B") if size else b""
            data += bytes(-len(data) % 64)
        self._data = np.frombuffer(data, np.uint8)
        self.size = len(data)

    def read(self, ranges: Ranges) -> Fetched:
        """Views of the page."""
        return Fetched(self._data, ranges.offsets, ranges.sizes)

    def is_mapped(self, offset: int, size: int) -> bool:
        """Never: the page is decoded."""
        del offset, size
        return False

    def close(self) -> None:
        """Nothing to close."""


def measure(case: Case, rows: int = ROWS) -> Speed:
    """Times one case.

    Args:
        case: Which one.
        rows: As a column of 8 bytes would have; wide values are fewer.

    Raises:
        ValueError: If the page is stored in another way, or comes back with other values.
    """
    array = case.make(max(rows // case.one_in, 1))
    [field] = Schema.from_arrow(pa.schema([("value", array.type)])).fields
    [encoded] = encode_pages(array, case.version, case.options)
    if case.stored not in " ".join(str(encoded.layout).split()):
        raise ValueError(f"{case.name}: stored in another way: {encoded.layout}")
    memory = _Memory(encoded.buffers)
    if not _decode(field, _page(encoded, memory, case), len(array)).equals(array):
        raise ValueError(f"{case.name}: other values came back")
    encode = [
        timed(lambda: encode_pages(array, case.version, case.options))[0] for _ in range(REPEAT)
    ]
    decode = [
        timed(lambda: _decode(field, _page(encoded, memory, case), len(array)))[0]
        for _ in range(REPEAT)
    ]
    source = np.ones(array.nbytes, np.uint8)
    copy = [timed(source.copy)[0] for _ in range(REPEAT)]
    speeds = (array.nbytes / median(times) / 1e9 for times in (encode, decode, copy))
    return Speed(case.name, array.nbytes, memory.size, *speeds)


def _page(encoded: EncodedPage, memory: _Memory, case: Case) -> PageRead:
    stored = StoredPage(0, encoded.num_rows, tuple(memory.places))
    layout = layout_of(encoded.layout, case.version)
    return PageRead(layout, stored, RowRanges.of((0, encoded.num_rows)), memory)


def _decode(field: Field, page: PageRead, num_rows: int) -> pa.Array:
    [decoded] = run_plan(read_pages([page]), page.source)
    [leaf] = field.leaves()
    return assemble(field, {leaf.id: decoded}, num_rows)


def table_of(speeds: Sequence[Speed]) -> Table:
    """The report."""
    table = Table(title="GB/s of Arrow bytes on one core", title_justify="left")
    table.add_column("page")
    for name in ("decode", "÷ copy", "encode", "÷ copy", "copy", "stored / raw"):
        table.add_column(name, justify="right")
    for speed in speeds:
        table.add_row(speed.case, *row_of(asdict(speed)))
    return table


def row_of(speed: Mapping[str, Any]) -> list[str]:
    """The cells of one case."""
    decode, encode, copy = speed["decode"], speed["encode"], speed["copy"]
    shares = (f"{decode:.2f}", f"{decode / copy:.2f}", f"{encode:.2f}", f"{encode / copy:.2f}")
    return [*shares, f"{copy:.1f}", f"{speed['bytes_stored'] / speed['bytes_in']:.2f}"]


if __name__ == "__main__":
    Console(width=None if sys.stdout.isatty() else 120).print(table_of([*map(measure, CASES)]))
