"""Files without types: by number, and front to back (S0.2, S1.3, S1.5, S1.6)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from file.examples import example

from pilum.container.raw import RawColumn, RawEncoding
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.file import LanceFileReader, LanceFileWriter, RawFileReader, RawFileWriter
from pilum.storage.local import LocalStore

TABLE = example(20_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with LanceFileWriter(tmp_path / "file.lance") as writer:
        writer.write_batch(TABLE)
        writer.add_global_buffer(b"global")
    return tmp_path / "file.lance"


def test_columns_pages_and_buffers_have_numbers(path: Path) -> None:
    raw = RawFileReader(path)
    stored = path.read_bytes()
    assert (raw.num_columns, raw.descriptor.length) == (7, len(TABLE))
    for number in range(raw.num_columns):
        column = raw.column(number)
        assert column.encoding.type_url == "/lance.encodings.ColumnEncoding"
        rows = 0
        for page_number, page in enumerate(column.pages):
            assert page.priority == rows
            rows += page.length
            for index, (offset, size) in enumerate(page.buffers):
                found = raw.page_buffer(number, page_number, index)
                assert found == stored[offset : offset + size]
        assert rows == len(TABLE)
    assert raw.global_buffer(1) == b"global"


def test_numbers_that_do_not_exist(path: Path) -> None:
    raw = RawFileReader(path)
    for call in (
        lambda: raw.column(7),
        lambda: raw.column(-1),
        lambda: raw.page_buffer(0, 1, 0),
        lambda: raw.page_buffer(0, 0, 2),
        lambda: raw.column_buffer(0, 0),
        lambda: raw.global_buffer(2),
    ):
        with pytest.raises(IndexError):
            call()


def test_descriptions_can_be_read_by_people(path: Path) -> None:
    encoding = RawFileReader(path).column(0).pages[0].encoding
    layout = encoding.to_dict()["mini_block_layout"]
    assert layout["value_compression"] == {
        "inline_bitpacking": {"uncompressed_bits_per_value": "64"}
    }
    assert "inline_bitpacking" in str(encoding)
    unknown = RawEncoding("/lance.encodings99.Layout", b"abc")
    assert str(unknown) == "/lance.encodings99.Layout (3 bytes)"
    with pytest.raises(UnsupportedFormatError, match=r"encodings99\.Layout"):
        unknown.to_dict()
    with pytest.raises(CorruptFileError):
        replace(encoding, value=b"\xff").message()


def test_front_to_back(path: Path) -> None:
    store = LocalStore(str(path.parent))
    raw = RawFileReader(path)
    store.io.take()
    parts = list(raw.walk())
    stats = store.io.take()
    for part, following in pairwise(parts):
        assert part.position + len(part.data) <= following.position
    data_bytes = sum(len(part.data) for part in parts)
    assert data_bytes <= stats.read_bytes <= path.stat().st_size
    assert stats.read_iops <= 2 + data_bytes // (8 << 20)
    pages = [part.place for part in parts if part.kind == "page"]
    assert len(pages) == len(set(pages)) > 2 * raw.num_columns


def test_a_file_is_copied_without_knowing_its_types(path: Path, tmp_path: Path) -> None:
    raw = RawFileReader(path)
    copied = tmp_path / "copy.lance"
    with RawFileWriter(copied, version=str(raw.version)) as writer:
        external, _ = writer.add_buffer(b"between the pages")
        places = {
            (part.kind, part.place): writer.add_buffer(part.data)
            for part in raw.walk()
            if part.kind == "page"
        }
        assert writer.add_global_buffer(raw.global_buffer(1)) == 1
        for number, column in enumerate(raw.columns()):
            pages = tuple(
                replace(
                    page,
                    buffers=tuple(
                        places["page", (number, index, buffer)]
                        for buffer in range(len(page.buffers))
                    ),
                )
                for index, page in enumerate(column.pages)
            )
            moved = RawColumn(column.encoding, ((external, 7),) if number == 0 else (), pages)
            assert writer.add_column(moved) == number
        assert writer.close(raw.global_buffer(0)) == copied.stat().st_size
    assert LanceFileReader(copied).read_all().to_table().equals(TABLE)
    copy = RawFileReader(copied)
    assert copy.column_buffer(0, 0) == b"between"
    assert copy.global_buffer(1) == b"global"
    assert list(copy.columns())[1].encoding == raw.column(1).encoding


def test_a_copy_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with RawFileWriter(tmp_path / "new.lance") as writer:
        writer.add_buffer(b"data")
    assert list(tmp_path.iterdir()) == []
