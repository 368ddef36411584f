"""Rows of several full-zip pages that store values as they are become one array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from page_files import check_rows_far_apart, opened, page_of, written

from pilum.container.reader import FileReader
from pilum.encodings.structural.plain_pages import plain_form, read_plain
from pilum.errors import CorruptFileError
from pilum.index.files import IndexFolderWriter

_COUNT = 40_000
_FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    random = np.random.default_rng(8)
    items = pa.array(random.integers(0, 9, 6 * _COUNT, np.uint16))
    lists = pa.FixedSizeListArray.from_arrays(items, 6)
    numbers = pa.array(random.integers(0, 1 << 60, _COUNT))
    fields = [
        pa.field("number", pa.int64(), False, _FULL_ZIP),
        pa.field("list", lists.type, False, _FULL_ZIP),
        pa.field("text", pa.string()),
    ]
    texts = pa.array([f"text {row % 9}" for row in range(_COUNT)])
    return pa.table([numbers, lists, texts], schema=pa.schema(fields))


@pytest.fixture(scope="module")
def folder(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> IndexFolderWriter:
    return written(tmp_path_factory.mktemp("plain"), rows, 1 << 16)


@pytest.fixture
def reader(folder: IndexFolderWriter) -> FileReader:
    return opened(folder)


@pytest.mark.seeds(30)
def test_rows_far_apart_are_those_that_were_written(
    rows: pa.Table, folder: IndexFolderWriter, seed: int
) -> None:
    check_rows_far_apart(rows, folder, seed)


def test_pages_of_one_form_are_read_together(
    rows: pa.Table, folder: IndexFolderWriter, reader: FileReader
) -> None:
    """Also those of several files."""
    other = opened(folder)
    pages = [
        page_of(reader, 0, 0, (3, 4), (2000, 2002)),
        page_of(reader, 0, 1, (5, 6), (2500, 2501)),
        page_of(other, 0, 1, (7, 8), (3000, 3001)),
    ]
    assert len({plain_form(page) for page in pages}) == 1
    [found] = read_plain([pages])
    start = int(reader.column(0).row_bounds[1])
    places = [3, 2000, 2001, start + 5, start + 2500, start + 7, start + 3000]
    assert found.buffers[0].view(np.int64).tolist() == rows["number"].take(places).to_pylist()
    assert (found.num_values, found.layers[0].length) == (7, 7)


def test_other_pages_are_left_out(reader: FileReader) -> None:
    """Those that are decoded, read as a whole, or of which most rows are wanted."""
    length = int(reader.column(0).row_bounds[1])
    assert plain_form(page_of(reader, 2, 0, (3, 4), (2000, 2001))) is None
    assert plain_form(page_of(reader, 0, 0, (0, length))) is None
    assert plain_form(page_of(reader, 0, 0, (0, 5), (7, 9))) is None
    assert plain_form(page_of(reader, 0, 0, (0, 1), (900, 901))) is not None
    assert plain_form(page_of(reader, 1, 0, (0, 1), (900, 901))) is not None


def test_rows_beyond_a_page_are_damage(reader: FileReader) -> None:
    page = page_of(reader, 0, 0, (0, 1), (900, 901))
    page.stored = replace(page.stored, buffers=((0, 901 * 8 - 1),))
    with pytest.raises(CorruptFileError, match=r"7207 bytes of rows(.|\n)*page 0"):
        read_plain([[page]])
