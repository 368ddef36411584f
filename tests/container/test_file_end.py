"""Ends of files: parsed once for files with the same bytes, and checked for each other file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, write_table

from pilum.container.file_end import shared_end
from pilum.container.reader import FileReader
from pilum.errors import CorruptFileError, UnsupportedVersionError


def written(values: list[int], num_columns: int = 1) -> bytes:
    table = pa.table({f"column {i}": pa.array(values, pa.int32()) for i in range(num_columns)})
    return write_table(table)[0]


def opened(data: bytes) -> FileReader:
    return FileReader.open(MemorySource(data, "a file"))


def test_files_that_were_written_alike_share_their_end() -> None:
    first, second, longer = map(opened, map(written, ([1, 2, 3], [3, 1, 2], [1, 2, 3, 4])))
    assert first.end is second.end is not longer.end
    assert first.pages(0) is second.pages(0)
    assert (first.num_rows, longer.num_rows) == (3, 4)
    assert first.source.path == "a file"


def test_a_file_of_another_size_has_an_end_of_its_own() -> None:
    """Positions are absolute, so the same bytes are wrong at the end of a shorter file."""
    data = written([1, 2, 3])
    assert opened(data).num_rows == 3
    with pytest.raises(CorruptFileError, match="a file"):
        opened(data[64:])


def test_long_ends_are_not_kept() -> None:
    data = written([1, 2, 3], 200)
    assert shared_end(np.frombuffer(data, np.uint8)) is None
    reader = opened(data)
    assert reader.num_columns == 200
    assert reader.pages(199).num_rows == 3


@pytest.mark.parametrize("place", range(1, 41))
def test_each_byte_of_the_footer_is_checked(place: int) -> None:
    data = bytearray(written([1, 2, 3]))
    data[-place] ^= 0xFF
    with pytest.raises((CorruptFileError, UnsupportedVersionError), match="a file"):
        opened(bytes(data))
