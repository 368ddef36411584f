"""Rows of several pages of which it is known where each row is, in one read."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from page_files import opened, page_of, written

from pilum.container.reader import FileReader
from pilum.encodings.base import Decoded
from pilum.encodings.structural.known_pages import KnownPage, known_page, read_known
from pilum.errors import CorruptFileError

_COUNT = 3000
_FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}


def _rows() -> pa.Table:
    """Return columns in full-zip pages; some texts are long enough to be compressed."""
    random = np.random.default_rng(8)
    payload = [random.bytes(length) for length in random.integers(0, 900, _COUNT)]
    texts = [f"{row} {row % 90}, and " * (row // 99) if row % 7 else None for row in range(_COUNT)]
    fields = [
        pa.field("payload", pa.binary(), False, _FULL_ZIP),
        pa.field("text", pa.string(), True, _FULL_ZIP | {"lance-encoding:compression": "fsst"}),
        pa.field("place", pa.list_(pa.float32(), 20), True, _FULL_ZIP),
        pa.field("number", pa.int64(), False, _FULL_ZIP),
    ]
    items = pa.array(random.random(_COUNT * 20).astype(np.float32))
    holes = pa.array(random.random(_COUNT) < 0.3)
    places = pa.FixedSizeListArray.from_arrays(items, 20, mask=holes)
    return pa.table([payload, texts, places, range(_COUNT)], schema=pa.schema(fields))


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return _rows()


@pytest.fixture
def reader(rows: pa.Table, tmp_path: Path) -> FileReader:
    return opened(written(tmp_path, rows, 1 << 16))


def _known(reader: FileReader, column: int, number: int) -> KnownPage:
    found = known_page(page_of(reader, column, number, (0, 1)))
    assert found is not None
    return found


def _values(decoded: Decoded) -> list[bytes]:
    offsets, data = decoded.buffers
    return [data[first:stop].tobytes() for first, stop in pairwise(offsets.tolist())]


def test_pages_of_several_columns_are_read_together(rows: pa.Table, reader: FileReader) -> None:
    pages: list[tuple[KnownPage, NDArray[np.int64]]] = []
    groups, wanted = [], []
    for number in range(3):
        cuts = reader.column(number).row_bounds.tolist()
        last = len(cuts) - 2
        assert last > 1
        some = [(0, 3, 4), (1, 5, 7), (last, 0, 2)]
        groups.append([len(pages) + place for place in range(len(some))])
        pages += [(_known(reader, number, page), np.arange(*own)) for page, *own in some]
        wanted.append([row for page, *own in some for row in range(*np.add(cuts[page], own))])
    assert len({pages[place][0].form for place in groups[1]}) == 1
    assert len({pages[place][0].layout.values for place in groups[1]}) == 3  # symbol tables differ
    (payload, text, place), _ = read_known(pages, groups)
    assert _values(payload) == rows["payload"].take(wanted[0]).to_pylist()
    expected = rows["text"].take(wanted[1])
    assert _values(text) == [(value or "").encode() for value in expected.to_pylist()]
    assert text.layers[0].null_count == expected.null_count
    items = rows["place"].combine_chunks().values.to_numpy().reshape(-1, 20)[wanted[2]]
    assert np.array_equal(place.buffers[0].view(np.float32).reshape(-1, 20), items)
    assert place.layers[0].null_count == rows["place"].take(wanted[2]).null_count


def test_an_index_is_read_once(reader: FileReader) -> None:
    page = _known(reader, 0, 1)
    rows = np.array([3])
    assert page.lookup() is None
    [before], _ = read_known([(page, rows)], [[0]])
    first = page.lookup()
    assert first is not None
    [after], _ = read_known([(page, rows)], [[0]])
    assert _values(before) == _values(after)
    assert page.lookup() is first


def test_rows_stored_as_they_are_and_missing_buffers_are_left_out(reader: FileReader) -> None:
    assert known_page(page_of(reader, 3, 0, (3, 4))) is None
    for column in (0, 2):
        page = page_of(reader, column, 0, (3, 4))
        page.stored = replace(page.stored, buffers=page.stored.buffers[:-1])
        assert known_page(page) is None


def test_an_index_that_points_beyond_its_page_is_damage(reader: FileReader) -> None:
    page = page_of(reader, 0, 1, (0, 1))
    (start, _), index = page.stored.buffers
    page.stored = replace(page.stored, buffers=((start, 5), index))
    known = known_page(page)
    assert known is not None
    with pytest.raises(CorruptFileError, match="full-zip rows"):
        read_known([(known, np.array([5]))], [[0]])
