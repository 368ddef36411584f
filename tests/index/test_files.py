"""Files of index segments are Lance files of the table's version, which pylance reads too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.index.files import IndexFolderWriter
from pilum.storage.base import iops_counter
from pilum.storage.local import LocalStore

lance_file = pytest.importorskip("lance.file")
_ROWS = pa.table({"keys": pa.array(["a", None, "c"]), "ids": pa.array([2, 1, 0], pa.uint64())})


@pytest.mark.parametrize(
    "version", [FileVersion.LEGACY, FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2]
)
def test_round_trip(tmp_path: Path, version: FileVersion) -> None:
    """Rows, metadata and global buffers come back; pylance reads the same rows."""
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/x", version)
    with folder.file("page.lance", _ROWS.schema) as file:
        file.write(_ROWS)
        number = file.add_global_buffer(b"rows that are null")
        file.add_metadata({"batch_size": "4096", "nulls": str(number)})
    found = folder.written().open("page.lance")
    assert found.read().equals(_ROWS)
    assert found.read(["ids"], RowRanges.of((1, 2)))["ids"].to_pylist() == [1]
    assert found.metadata == {"batch_size": "4096", "nulls": "1"}
    assert found.global_buffer(1) == b"rows that are null"
    path = tmp_path / "_indices/x/page.lance"
    assert folder.sizes == {"page.lance": path.stat().st_size}
    peer = lance_file.LanceFileReader(str(path))
    assert peer.read_all().to_table().to_pylist() == _ROWS.to_pylist()
    assert peer.read_global_buffer(1) == b"rows that are null"


def test_pages_become_one_array(tmp_path: Path) -> None:
    """Columns of several pages come back as one array, whichever of their rows are read."""
    count, each = 100_000, 30
    linked = np.random.default_rng(4).integers(0, count, count * each, np.uint32)
    lists = pa.ListArray.from_arrays(np.arange(0, count * each + 1, each, dtype=np.int32), linked)
    texts = pa.array([f"text {row % 7}" if row % 11 else None for row in range(count)])
    rows = pa.table({"lists": lists, "texts": texts})
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/x", FileVersion.V2_2)
    folder.write("page.lance", rows)
    peer = lance_file.LanceFileReader(str(tmp_path / "_indices/x/page.lance"))
    assert len(peer.metadata().columns[0].pages) > 1
    found = folder.written().open("page.lance")
    for bounds in [(0, count)], [(5, count - 1)], [(0, 1), (70_000, count)], [(3, 4)]:
        wanted = RowRanges.of(*bounds)
        read = found.read(rows=wanted)
        assert [column.num_chunks for column in read.columns] == [1, 1]
        assert read.equals(pa.concat_tables([rows.slice(a, b - a) for a, b in wanted.bounds]))


def test_small_global_buffers_are_read_together(tmp_path: Path) -> None:
    """One request reads all of them, in whichever order they are used; each may be used again."""
    rows = pa.table({"ids": pa.array(np.random.default_rng(1).random(50_000))})
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/x", FileVersion.V2_2)
    buffers = [bytes([number]) * 70_000 for number in range(3)]
    with folder.file("page.lance", rows.schema) as file:
        file.write(rows)
        numbers = [file.add_global_buffer(buffer) for buffer in buffers]
    found = folder.written().open("page.lance")
    before = iops_counter()
    for number, buffer in reversed(list(zip(numbers, buffers, strict=True))):
        assert found.global_buffer(number) == buffer
    assert iops_counter() == before + 1
    assert [found.global_buffer(number) for number in numbers] == buffers
    with pytest.raises(CorruptFileError, match="global buffer 4 of 4"):
        found.global_buffer(4)


def test_nothing_remains_of_a_failure(tmp_path: Path) -> None:
    """A file whose block fails leaves no file."""
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/x", FileVersion.V2_1)
    with pytest.raises(pa.ArrowInvalid), folder.file("page.lance", _ROWS.schema):
        pa.array([1, "not a number"])
    assert not list(tmp_path.rglob("*.lance"))
    assert folder.sizes == {}


def test_damage_is_named(tmp_path: Path) -> None:
    """Missing columns, buffers and rows are errors that name the file."""
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/x", FileVersion.V2_1)
    folder.write("page.lance", _ROWS)
    found = folder.written().open("page.lance")
    for damaged in (
        lambda: found.read(["values"]),
        lambda: found.global_buffer(1),
        lambda: found.read(rows=RowRanges.of((2, 4))),
    ):
        with pytest.raises(CorruptFileError, match=r"page\.lance"):
            damaged()
