"""A streamed write lets go of the batches that it has written."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum

NUM_BATCHES, ROWS, WIDTH = 160, 1024, 256


class Stream:
    """Not a class of Arrow, but exports a stream as data frames do."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", ["reader", "imported", "stream"])
def test_a_small_column_does_not_keep_the_large_ones_in_memory(tmp_path: Path, form: str) -> None:
    alive: set[int] = set()
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(NUM_BATCHES):
            values = np.full(ROWS * WIDTH, number, np.float32)
            weakref.finalize(values, alive.discard, number)
            alive.add(number)
            vectors = pa.Array.from_buffers(pa.float32(), len(values), [None, pa.py_buffer(values)])
            ids = pa.array(np.arange(ROWS) + number * ROWS)
            columns = [ids, pa.FixedSizeListArray.from_arrays(vectors, WIDTH)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            del values, vectors, columns
            most = max(most, len(alive))

    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), WIDTH))])
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    given: Any = reader if form == "reader" else Stream(reader)
    if form == "imported":
        given = pa.RecordBatchReader.from_stream(given)
    written = pilum.write_dataset(given, str(tmp_path / "t.lance"))
    assert most <= NUM_BATCHES // 2  # a few pages of 8 MiB, of one batch per MiB
    found = written.to_table(columns=["id"])["id"].to_numpy()
    assert (found == np.arange(NUM_BATCHES * ROWS)).all()
    assert written.take([5 * ROWS + 3])["v"][0].as_py() == [5.0] * WIDTH


@pytest.mark.parametrize("is_stream", [True, False])
def test_pages_of_a_stream_with_many_columns_are_smaller(tmp_path: Path, is_stream: bool) -> None:
    values = np.random.default_rng(1).random(300_000)  # 2.4 MB
    table = pa.table({f"c{number}": values + number for number in range(24)})
    data = table.to_reader(max_chunksize=10_000) if is_stream else table
    written = pilum.write_dataset(data, str(tmp_path / "t.lance"))
    pages = [
        column.num_pages
        for fragment in written.get_fragments()
        for file in fragment.data_files()
        for column in pilum.file.LanceFileReader(f"{written.uri}/data/{file.path}")
        .file_statistics()
        .columns
    ]
    assert pages == [2 if is_stream else 1] * 24
    assert written.to_table() == table


def test_a_stream_returns_unused_memory_while_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.record_batch({"x": np.arange(1 << 19)})  # 4 MiB
    pool, calls = pa.default_memory_pool(), []

    class Counted:
        """Passes calls on to the pool of Arrow, and counts them."""

        def release_unused(self) -> None:
            calls.append("release_unused")
            pool.release_unused()

    monkeypatch.setattr(pa, "default_memory_pool", Counted)
    pilum.write_dataset(iter([numbers] * 12), str(tmp_path / "t.lance"), schema=numbers.schema)
    assert len(calls) == 3  # after each 16 MiB
    calls.clear()
    pilum.write_dataset(pa.Table.from_batches([numbers] * 12), str(tmp_path / "u.lance"))
    assert calls == []
