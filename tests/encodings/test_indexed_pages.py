"""Rows of several full-zip pages with an index become one array."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from page_files import check_rows_far_apart, opened, page_of, written

from pilum.container.reader import FileReader
from pilum.encodings.structural.indexed_pages import indexed_form, read_indexed
from pilum.errors import CorruptFileError
from pilum.index.files import IndexFolderWriter

_COUNT = 3000
_FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Values of many lengths, null and empty ones among them, and lists of all kinds."""
    random = np.random.default_rng(8)
    payload = [random.bytes(length) for length in random.integers(0, 900, _COUNT)]
    texts = [f"{row:x}" * (row % 50) if row % 7 else None for row in range(_COUNT)]
    lists = [[row, None] * (row % 40) if row % 11 else None for row in range(_COUNT)]
    fields = [
        pa.field("payload", pa.binary(), False, _FULL_ZIP),
        pa.field("text", pa.large_string(), True, _FULL_ZIP),
        pa.field("list", pa.list_(pa.int64()), True, _FULL_ZIP),
        pa.field("number", pa.int64(), False, _FULL_ZIP),
    ]
    return pa.table([payload, texts, lists, pa.array(range(_COUNT))], schema=pa.schema(fields))


@pytest.fixture(scope="module")
def folder(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> IndexFolderWriter:
    return written(tmp_path_factory.mktemp("indexed"), rows, 1 << 17)


@pytest.fixture
def reader(folder: IndexFolderWriter) -> FileReader:
    return opened(folder)


@pytest.mark.seeds(30)
def test_rows_far_apart_are_those_that_were_written(
    rows: pa.Table, folder: IndexFolderWriter, seed: int
) -> None:
    check_rows_far_apart(rows, folder, seed)


def test_pages_of_a_column_are_read_together(rows: pa.Table, reader: FileReader) -> None:
    """The last one is small, so that its index has narrower numbers."""
    column = reader.column(0)
    last = len(column.entries) - 1
    pages = [
        page_of(reader, 0, 0, (3, 4), (100, 102)),
        page_of(reader, 0, 1, (5, 6)),
        page_of(reader, 0, last, (7, 9)),
    ]
    widths = [page.stored.buffer(1)[1] // (page.stored.num_rows + 1) for page in pages]
    assert widths[0] > widths[-1]
    assert len({indexed_form(page) for page in pages}) == 1
    [found] = read_indexed([pages])
    starts = column.row_bounds.tolist()
    places = [3, 100, 101, starts[1] + 5, starts[last] + 7, starts[last] + 8]
    offsets, data = found.buffers
    cuts = offsets.tolist()
    values = [data[first:stop].tobytes() for first, stop in pairwise(cuts)]
    assert values == rows["payload"].take(places).to_pylist()


def test_other_pages_are_left_out(reader: FileReader) -> None:
    """Those without an index, and those that are read as a whole."""
    assert indexed_form(page_of(reader, 3, 0, (3, 4))) is None
    assert indexed_form(page_of(reader, 0, 0, (0, int(reader.column(0).row_bounds[1])))) is None
    assert indexed_form(page_of(reader, 0, 0, (3, 4))) is not None


def test_an_index_that_points_beyond_its_page_is_damage(reader: FileReader) -> None:
    page = page_of(reader, 0, 1, (5, 6))
    (start, _), index = page.stored.buffers
    page.stored = replace(page.stored, buffers=((start, 5), index))
    with pytest.raises(CorruptFileError, match=r"offsets out of order(.|\n)*page 1"):
        read_indexed([[page]])
