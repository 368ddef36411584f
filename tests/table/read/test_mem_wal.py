"""Rows of a log in memory are not read, and a warning says so."""

from __future__ import annotations

import uuid
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import UnsupportedFeatureError
from pilum.table.read.mem_wal import generations

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")

SHARD = str(uuid.UUID(int=7))


@pytest.mark.reference
def test_generations_are_named(tmp_path: Path) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), False, key)])
    path = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"id": [1]}, schema=schema), path)
    dataset.initialize_mem_wal()
    with pytest.raises(UnsupportedFeatureError, match="MemWAL"):
        pilum.dataset(path).mem_wal_index_details()
    without: Any = pilum.dataset(path, version=1)
    assert without.mem_wal_index_details() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pilum.dataset(path).count_rows() == 1
    with dataset.mem_wal_writer(SHARD) as writer:
        writer.put(pa.table({"id": [2]}, schema=schema).to_batches()[0])
    with pytest.warns(UserWarning, match=f"MemWAL.*{SHARD}: 1;"):
        opened = pilum.dataset(path)
    assert opened.count_rows() == 1
    assert generations(opened.snapshot.store) == {SHARD: [1]}
