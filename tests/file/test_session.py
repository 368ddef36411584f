"""Files below one location by `LanceFileSession`: S1.1, S1.3, S1.6."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from file.examples import TABLE

from pilum.errors import (
    InvalidInputError,
    NotFoundError,
)
from pilum.file import LanceFileSession


def test_a_session_of_files(tmp_path: Path) -> None:
    session = LanceFileSession(tmp_path)
    with session.open_writer("a/b.lance", schema=TABLE.schema) as writer:
        writer.write_batch(TABLE.slice(0, 5))
    (tmp_path / "local.bin").write_bytes(b"0123456789")
    session.upload_file(tmp_path / "local.bin", "a/c/copy.bin")
    assert session.open_reader("a/b.lance", ["number"]).read_all().to_table().num_columns == 1
    assert sorted(session.list("a")) == ["a/b.lance", "a/c/copy.bin"]
    found = session.list_with_delimiter("a")
    assert (found.common_prefixes, found.objects) == (["a/c"], ["a/b.lance"])
    assert session.list_with_delimiter().common_prefixes == ["a"]
    assert session.read_range("a/c/copy.bin", 3, 4) == b"3456"
    with pytest.raises(InvalidInputError):
        session.read_range("a/c/copy.bin", 8, 4)
    session.download_file("a/c/copy.bin", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == b"0123456789"
    assert session.contains("a/c/copy.bin")
    session.delete_file("a/c/copy.bin")
    assert not session.contains("a/c/copy.bin")
    with pytest.raises(NotFoundError):
        session.delete_file("a/c/copy.bin")


def test_a_writer_of_a_session_takes_hints(tmp_path: Path) -> None:
    session = LanceFileSession(str(tmp_path))
    with session.open_writer("b.lance", keep_original_array=True) as writer:
        writer.write_batch(pa.table({"a": [1]}))
    assert session.open_reader("b.lance").read_all().to_table().num_rows == 1
