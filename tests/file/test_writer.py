"""Single files are written by `LanceFileWriter`: S1.1, S1.3, S1.6."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from file.examples import TABLE, same

from pilum.errors import (
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFormatError,
    UnsupportedVersionError,
)
from pilum.file import LanceFileReader, LanceFileWriter


def test_a_file_appears_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "new.lance"
    writer = LanceFileWriter(path)
    writer.add_schema_metadata("early", "1")
    writer.write_batch(TABLE.slice(0, 10))
    assert not path.exists()
    assert writer.close() == 10
    assert writer.close() is None
    assert LanceFileReader(path).metadata().schema.metadata == {b"early": b"1"}
    with pytest.raises(InvalidInputError, match="is closed"):
        writer.write_batch(TABLE)


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(SchemaMismatchError),
        LanceFileWriter(tmp_path / "new.lance", TABLE.schema) as writer,
    ):
        writer.write_batch(pa.record_batch({"another": [1]}))
    assert list(tmp_path.iterdir()) == []


def test_a_file_needs_a_schema(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no schema"):
        LanceFileWriter(tmp_path / "new.lance").close()
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        LanceFileWriter(tmp_path / "new.lance", version="9.9")
    with pytest.raises(UnsupportedVersionError):
        LanceFileWriter(tmp_path / "new.lance", version="2.3")
    with LanceFileWriter(tmp_path / "empty.lance", TABLE.schema):
        pass
    assert LanceFileReader(tmp_path / "empty.lance").read_all().to_table().equals(TABLE.slice(0, 0))


def test_legacy_files_have_rows_and_no_container(tmp_path: Path) -> None:
    table = TABLE.select(["number", "text"]).slice(0, 1_000)
    with LanceFileWriter(tmp_path / "old.lance", version="0.1") as writer:
        writer.write_batch(table)
        with pytest.raises(UnsupportedFormatError, match="no global buffers"):
            writer.add_global_buffer(b"data")
    reader = LanceFileReader(tmp_path / "old.lance")
    assert same(reader.read_all().to_table(), table)
    assert same(reader.take_rows([3, 999]).to_table(), table.take([3, 999]))
    for call in (reader.metadata, reader.file_statistics, lambda: reader.read_global_buffer(0)):
        with pytest.raises(UnsupportedVersionError, match=r"version 0\.1"):
            call()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_small_pages(tmp_path: Path, version: str) -> None:
    with LanceFileWriter(tmp_path / "a.lance", version=version, max_page_bytes=20_000) as writer:
        writer.write_batch(TABLE)
    reader = LanceFileReader(tmp_path / "a.lance")
    assert reader.file_statistics().columns[0].num_pages == 12
    assert same(reader.read_range(2_000, 9_000).to_table(), TABLE.slice(2_000, 9_000))
