"""Single files are read by `LanceFileReader`: S1.1, S1.3, S1.6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from file.examples import ROWS, TABLE, same
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
)
from pilum.file import LanceFileReader, LanceFileWriter


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "a file.lance"
    with LanceFileWriter(path, TABLE.schema) as writer:
        for batch in TABLE.to_batches(max_chunksize=7_000):
            writer.write_batch(batch)
        assert writer.add_global_buffer(b"first") == 1
        assert writer.add_global_buffer(b"") == 2
        writer.add_schema_metadata("key", "value")
    assert (writer.closed, writer.size_bytes) == (True, path.stat().st_size)
    return path


@pytest.fixture(scope="module")
def reader(path: Path) -> LanceFileReader:
    return LanceFileReader(path)


def test_all_rows_in_batches(reader: LanceFileReader) -> None:
    batches = list(reader.read_all(batch_size=999).to_batches())
    assert {len(batch) for batch in batches[:-1]} == {999}
    assert same(pa.Table.from_batches(batches).replace_schema_metadata(None), TABLE)
    assert batches[0].schema.metadata == {b"key": b"value"}


@given(st.data())
def test_any_range(reader: LanceFileReader, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, ROWS))
    count = draw.draw(st.integers(0, min(ROWS - start, 3_000)))
    found = reader.read_range(start, count, batch_size=draw.draw(st.integers(1, 5_000))).to_table()
    assert same(found, TABLE.slice(start, count))


@given(st.sets(st.integers(0, ROWS - 1), max_size=50), st.integers(1, 60))
def test_any_rows(reader: LanceFileReader, wanted: set[int], batch_size: int) -> None:
    rows = sorted(wanted)
    for indices in (rows, np.array(rows, np.int64), pa.array(rows, pa.int64())):
        results = reader.take_rows(indices, batch_size=batch_size)
        batches = list(results.to_batches())
        assert all(len(batch) <= batch_size for batch in batches)
        found = pa.Table.from_batches(batches, results.reader.schema)
        assert same(found.replace_schema_metadata(None), TABLE.take(pa.array(rows, pa.int64())))


def test_rows_beyond_one_window(tmp_path: Path) -> None:
    # 96 MB: three windows, each with rows of its own.
    wide = pa.table({"blob": pa.array([b"%06d" % i * 1000 for i in range(16_000)])})
    with LanceFileWriter(tmp_path / "wide.lance") as writer:
        writer.write_batch(wide)
    reader = LanceFileReader(tmp_path / "wide.lance")
    rows = np.arange(0, 16_000, 2)
    found = reader.take_rows(rows).to_table()
    assert found["blob"].combine_chunks().equals(wide["blob"].combine_chunks().take(pa.array(rows)))


def test_some_columns(path: Path) -> None:
    found = LanceFileReader(path, columns=["pair.y", "number"]).read_all().to_table()
    pair = [{"y": str(i)} for i in range(ROWS)]
    assert found.column_names == ["pair", "number"]
    assert found["pair"].to_pylist() == pair
    assert found["number"].equals(TABLE["number"])


def test_global_buffers_by_index(reader: LanceFileReader) -> None:
    assert b"vector" in reader.read_global_buffer(0)
    assert [reader.read_global_buffer(index) for index in (1, 2)] == [b"first", b""]
    with pytest.raises(InvalidInputError, match="global buffer 3 of a file with 3"):
        reader.read_global_buffer(3)


def test_metadata(reader: LanceFileReader, path: Path) -> None:
    metadata = reader.metadata()
    assert metadata.schema.equals(TABLE.schema)
    assert (metadata.num_rows, metadata.major_version, metadata.minor_version) == (ROWS, 2, 2)
    assert len(metadata.columns) == 7
    assert "mini_block_layout" in metadata.columns[0].pages[0].encoding
    assert all(buffer.position % 64 == 0 for buffer in metadata.global_buffers)
    statistics = reader.file_statistics().columns
    assert [column.num_pages for column in statistics] == [
        len(column.pages) for column in metadata.columns
    ]
    assert sum(column.size_bytes for column in statistics) <= metadata.num_data_bytes
    stored = metadata.num_data_bytes + metadata.num_column_metadata_bytes
    assert stored + metadata.num_global_buffer_bytes < path.stat().st_size


def test_locations(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    quoted = f"file://{path}".replace(" ", "%20")
    for location in (path, str(path), quoted, path.name):
        assert LanceFileReader(location).num_rows() == ROWS


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda reader: reader.read_range(ROWS - 1, 2), InvalidInputError),
        (lambda reader: reader.read_range(-1, 2), InvalidInputError),
        (lambda reader: reader.take_rows([5, 3]), InvalidInputError),
        (lambda reader: reader.take_rows([3, 3]), InvalidInputError),
        (lambda reader: reader.take_rows([ROWS]), InvalidInputError),
        (lambda reader: reader.read_all(batch_size=0), InvalidInputError),
    ],
)
def test_calls_that_make_no_sense(reader: LanceFileReader, call: Any, error: type) -> None:
    with pytest.raises(error):
        call(reader)


def test_files_and_columns_that_are_not_there(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        LanceFileReader(tmp_path / "no.lance")
    with pytest.raises(ColumnNotFoundError):
        LanceFileReader(path, columns=["no"])
    (tmp_path / "text.lance").write_text("not a Lance file")
    with pytest.raises(CorruptFileError):
        LanceFileReader(tmp_path / "text.lance")
