"""Single files, there and back with the reference (S1.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from file.examples import example

from pilum.file import LanceFileReader, LanceFileWriter

lance_file: Any = pytest.importorskip("lance.file", reason="the reference is not installed")

pytestmark = pytest.mark.reference

TABLE = example(20_000)
VERSIONS = ["2.0", "2.1", "2.2"]


def write(module: Any, path: Path, version: str) -> None:
    with module.LanceFileWriter(str(path), TABLE.schema, version=version) as writer:
        for batch in TABLE.to_batches(max_chunksize=6_000):
            writer.write_batch(batch)
        assert writer.add_global_buffer(b"first" * 30) == 1
        assert writer.add_global_buffer(b"second") == 2
        writer.add_schema_metadata("key", "value")


class _Ours:
    LanceFileReader, LanceFileWriter = LanceFileReader, LanceFileWriter


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", [_Ours, lance_file], ids=["ours", "theirs"])
@pytest.mark.parametrize("reader", [_Ours, lance_file], ids=["ours", "theirs"])
def test_every_writer_and_reader(reader: Any, writer: Any, version: str, tmp_path: Path) -> None:
    path = tmp_path / "file.lance"
    write(writer, path, version)
    file = reader.LanceFileReader(str(path))
    assert file.num_rows() == len(TABLE)
    assert file.read_all(batch_size=700).to_table().replace_schema_metadata(None) == TABLE
    found = file.read_range(5_000, 3_000).to_table().replace_schema_metadata(None)
    assert found == TABLE.slice(5_000, 3_000)
    rows = [0, 17, 18, 9_999, 19_999]
    assert file.take_rows(rows).to_table().replace_schema_metadata(None) == TABLE.take(rows)
    assert [file.read_global_buffer(index) for index in (1, 2)] == [b"first" * 30, b"second"]
    some = reader.LanceFileReader(str(path), columns=["pair.y", "number"])
    assert some.read_all().to_table().schema.names == ["pair", "number"]
    assert file.metadata().schema.metadata == {b"key": b"value"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", [_Ours, lance_file], ids=["ours", "theirs"])
def test_metadata_are_the_same(writer: Any, version: str, tmp_path: Path) -> None:
    path = tmp_path / "file.lance"
    write(writer, path, version)
    ours, theirs = LanceFileReader(path), lance_file.LanceFileReader(str(path))
    found, expected = ours.metadata(), theirs.metadata()
    for name in (
        "schema",
        "num_rows",
        "num_data_bytes",
        "num_column_metadata_bytes",
        "num_global_buffer_bytes",
        "major_version",
        "minor_version",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    assert _places(found.global_buffers) == _places(expected.global_buffers)
    for column, other in zip(found.columns, expected.columns, strict=True):
        assert _places(column.column_buffers) == _places(other.column_buffers)
        for page, same in zip(column.pages, other.pages, strict=True):
            assert _places(page.buffers) == _places(same.buffers)
    sizes = [(column.num_pages, column.size_bytes) for column in ours.file_statistics().columns]
    assert sizes == [
        (column.num_pages, column.size_bytes) for column in theirs.file_statistics().columns
    ]


def _places(buffers: Any) -> list[tuple[int, int]]:
    return [(buffer.position, buffer.size) for buffer in buffers]
