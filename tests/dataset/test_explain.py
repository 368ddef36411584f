"""What `explain` says of tables, files and rows in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedVersionError,
)

ROWS = 20_000


def _table() -> pa.Table:
    random = np.random.default_rng(1)
    numbers = pa.array(np.arange(ROWS), mask=np.arange(ROWS) % 7 == 0)
    items = pa.ListArray.from_arrays(np.arange(0, ROWS + 1, dtype=np.int32), numbers)
    return pa.table(
        {
            "id": np.arange(ROWS, dtype=np.int32),
            "noise": random.random(ROWS),
            "city": pa.array(["Rome", "Oslo"] * (ROWS // 2)),
            "nested": pa.StructArray.from_arrays([items, numbers], ["items", "number"]),
            "wide": pa.FixedSizeListArray.from_arrays(random.random(ROWS * 64, np.float32), 64),
            "nothing": pa.nulls(ROWS, pa.int64()),
        }
    )


def _by_column(explanation: pilum.Explanation) -> dict[str, Any]:
    return {page.column: page for page in explanation.pages}


def test_a_table_from_metadata_alone(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(_table(), tmp_path / "t", max_rows_per_file=ROWS // 2)
    found = pilum.explain(dataset)
    assert pilum.explain(tmp_path / "t") == pilum.explain(str(tmp_path / "t")) == found
    assert len(found.pages) == 2 * 7
    assert sum(page.num_rows for page in found.pages if page.column == "id") == ROWS
    pages = _by_column(found)
    assert pages["id"].encoding == "inline_bitpacking(32)"
    assert (pages["id"].raw_bytes, pages["id"].num_values) == (4 * ROWS // 2, ROWS // 2)
    assert pages["id"].stored_bytes == sum(pages["id"].buffer_bytes) < pages["id"].raw_bytes
    assert pages["city"].dictionary == "2 values as variable(flat(32))"
    assert pages["city"].raw_bytes is None
    assert pages["nested.number"].levels.startswith("definition ")
    assert pages["nested.items.item"].levels.startswith("repetition ")
    assert pages["wide"].layout == "full-zip"
    assert pages["wide"].encoding == "fixed_size_list(64, flat(32))"
    assert (pages["nothing"].layout, pages["nothing"].encoding) == ("constant", "no value")
    assert not any(page.candidates for page in found.pages)


def test_one_data_file(tmp_path: Path) -> None:
    pilum.write_dataset(_table(), tmp_path / "t")
    [file] = (tmp_path / "t" / "data").iterdir()
    found = pilum.explain(file, ["nested.number", "id"])
    assert [page.column for page in found.pages] == ["nested.number", "id"]
    assert {page.file for page in found.pages} == {str(file)}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_in_memory_are_explained_as_they_would_be_written(
    tmp_path: Path, version: str
) -> None:
    options = pilum.EncodingOptions(compression="zstd")
    found = pilum.explain(_table(), data_storage_version=version, encoding_options=options)
    pilum.write_dataset(
        _table(), tmp_path / "t", data_storage_version=version, encoding_options=options
    )
    stored = _by_column(pilum.explain(tmp_path / "t"))
    for page in found.pages:
        same = stored[page.column]
        assert (page.encoding, page.layout, page.levels, page.buffer_bytes) == (
            same.encoding,
            same.layout,
            same.levels,
            same.buffer_bytes,
        )


def test_reasons() -> None:
    pages = _by_column(pilum.explain(_table(), ["id", "city", "wide"]))
    sizes = {other.encoding: other.size_bytes for other in pages["id"].candidates}
    assert min(sizes, key=lambda name: sizes[name] or ROWS * 8) == pages["id"].encoding
    assert sizes["flat(32)"] == 4 * ROWS
    assert pages["city"].candidates[0].encoding == "dictionary"
    assert pages["city"].raw_bytes == 4 * (ROWS + 1) + 4 * ROWS
    notes = {other.encoding: other.note for other in pages["wide"].candidates}
    assert notes["mini-block"] == "values of 256 bytes"


@pytest.mark.parametrize(
    ("asked", "column", "encoding", "note"),
    [
        ({"structural_encoding": "fullzip"}, "noise", "mini-block", "full-zip is asked for"),
        ({"dict_divisor": 10**6}, "city", "dictionary", "more than 0 different values by a sample"),
        ({"dict_size_ratio": 1e-9}, "city", "dictionary", "more than 0 bytes"),
        ({}, "noise", "dictionary", "not for such values"),
    ],
    ids=str,
)
def test_why_not(asked: dict[str, Any], column: str, encoding: str, note: str) -> None:
    found = pilum.explain(_table(), [column], encoding_options=pilum.EncodingOptions(**asked))
    notes = {other.encoding: other.note for other in found.pages[0].candidates}
    assert notes[encoding] == note


def test_a_line_for_pages_that_are_alike(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(_table(), tmp_path / "t", max_rows_per_file=ROWS // 2)
    head, *lines = str(pilum.explain(dataset, ["id", "nothing"])).splitlines()
    assert head.split()[:3] == ["column", "rows", "pages"]
    assert [line.split()[:3] for line in lines] == [
        ["id", f"{ROWS:,}", "2"],
        ["nothing", f"{ROWS:,}", "2"],
    ]
    assert "flat(32) 78.1 KiB" in str(pilum.explain(_table(), ["id"]))


def test_pages_as_a_table() -> None:
    found = pilum.explain(_table())
    table = found.to_arrow()
    assert table["column"].to_pylist() == [page.column for page in found.pages]
    assert table["stored_bytes"].to_pylist() == [page.stored_bytes for page in found.pages]
    assert table["candidates"][0][0].as_py().keys() == {"encoding", "size_bytes", "note"}
    assert pilum.explain(_table().slice(0, 0)).to_arrow().num_rows == 0


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        pilum.explain(tmp_path / "nowhere")
    with pytest.raises(ColumnNotFoundError):
        pilum.explain(_table(), ["nowhere"])
    with pytest.raises(InvalidInputError, match="expected a table"):
        pilum.explain(7)
    with pytest.raises(InvalidInputError, match="for rows in memory"):
        pilum.explain(tmp_path, data_storage_version="2.2")
    with pytest.raises(UnsupportedVersionError):
        pilum.explain(_table(), data_storage_version="2.0")
