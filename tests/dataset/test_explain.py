"""What `explain` says of tables, files and rows in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DatasetNotFoundError,
    InvalidInputError,
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


def test_files_of_version_2_0(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(_table(), tmp_path / "t", data_storage_version="2.0")
    found = pilum.explain(dataset)
    assert [replace(page, file="") for page in found.pages] == list(
        pilum.explain(_table(), data_storage_version="2.0").pages
    )
    pages = _by_column(found)
    assert list(pages) == [
        "id",
        "noise",
        "city",
        "nested.items",
        "nested.items.item",
        "nested.number",
        "wide",
        "nothing",
    ]
    assert {page.layout for page in found.pages} == {"array"}
    assert (pages["id"].encoding, pages["id"].stored_bytes) == ("flat(32)", 4 * ROWS)
    assert pages["city"].encoding == "nullable(flat(8))"
    assert pages["city"].dictionary == "2 values as binary(nullable(flat(64)), flat(8))"
    assert pages["nested.items"].encoding == "list(nullable(flat(64)))"
    number = pages["nested.number"]
    assert (number.encoding, number.levels) == ("flat(64)", "validity flat(1)")
    assert number.buffer_bytes == (ROWS // 8, 8 * ROWS)
    assert pages["wide"].encoding == "fixed_size_list(64, nullable(flat(32)))"
    assert (pages["nothing"].encoding, pages["nothing"].stored_bytes) == ("no value", 0)
    [file] = (tmp_path / "t" / "data").iterdir()
    assert pilum.explain(file, ["nested.number"]).pages[0].stored_bytes == number.stored_bytes


def test_files_of_version_0_1(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "a": pa.array([1, 2, 3], pa.int16()),
            "t": ["x", "", "yz"],
            "s": [{"l": [["p"], []]}, {"l": []}, {"l": [["qq", "r"]]}],
            "b": [True, False, True],
            "d": pa.array(["u", "v", "u"]).dictionary_encode(),
        },
        pa.schema(
            [
                pa.field("a", pa.int16()),
                pa.field("t", pa.string(), nullable=False),
                pa.field("s", pa.struct([("l", pa.list_(pa.list_(pa.string())))])),
                pa.field("b", pa.bool_()),
                pa.field("d", pa.dictionary(pa.int32(), pa.string())),
            ]
        ),
    )
    dataset = pilum.write_dataset(
        rows, tmp_path / "t", data_storage_version="0.1", max_rows_per_group=2
    )
    found = pilum.explain(dataset)
    assert [
        (page.column, page.first_row, page.num_rows, page.encoding, page.buffer_bytes)
        for page in found.pages
    ] == [
        ("a", 0, 2, "plain(16)", (4,)),
        ("a", 2, 1, "plain(16)", (2,)),
        ("t", 0, 2, "var_binary", (1, 24)),
        ("t", 2, 1, "var_binary", (2, 16)),
        ("s.l", 0, 2, "offsets(32)", (12,)),
        ("s.l", 2, 1, "offsets(32)", (8,)),
        ("s.l.item", 0, 2, "offsets(32)", (12,)),
        ("s.l.item", 2, 1, "offsets(32)", (8,)),
        ("s.l.item.item", 0, 1, "var_binary", (1, 16)),
        ("s.l.item.item", 1, 2, "var_binary", (3, 24)),
        ("b", 0, 2, "plain(1)", (1,)),
        ("b", 2, 1, "plain(1)", (1,)),
        ("d", 0, 2, "plain(32)", (8,)),
        ("d", 2, 1, "plain(32)", (4,)),
    ]
    assert found.pages[-1].dictionary == "2 values of type string"
    assert {page.layout for page in found.pages} == {"batch"}
    assert "var_binary" in str(found)
    in_memory = pilum.explain(rows, ["t", "s"], data_storage_version="0.1")
    columns = [page.column for page in in_memory.pages]
    assert columns == ["t", "s.l", "s.l.item", "s.l.item.item"]  # of one batch


def test_damaged_offsets_of_strings_are_named(tmp_path: Path) -> None:
    pilum.write_dataset(pa.table({"t": ["abc"]}), tmp_path / "t", data_storage_version="0.1")
    [file] = (tmp_path / "t" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[11:19] = (-1).to_bytes(8, "little", signed=True)
    file.write_bytes(data)
    with pytest.raises(CorruptFileError, match="offsets decrease") as caught:
        pilum.explain(file)
    assert "column 't'" in str(caught.value)


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
        ({"prefer": "speed"}, "noise", "dictionary", "not for such values"),
    ],
    ids=str,
)
def test_why_not(asked: dict[str, Any], column: str, encoding: str, note: str) -> None:
    found = pilum.explain(_table(), [column], encoding_options=pilum.EncodingOptions(**asked))
    notes = {other.encoding: other.note for other in found.pages[0].candidates}
    assert notes[encoding] == note


@pytest.mark.parametrize(
    ("words", "encoding"), [(40, "general(zstd, fsst("), (1, "general(zstd, v")]
)
def test_small_text_is_zstd_of_symbols_or_of_itself(words: int, encoding: str) -> None:
    random = np.random.default_rng(6)
    vocabulary = pa.array([random.bytes(4).hex() for _ in range(300 * words)])
    texts = vocabulary.take(pa.array(random.integers(0, len(vocabulary), 20_000)))
    small = pilum.EncodingOptions(prefer="size", dict_divisor=10**6)
    [page] = pilum.explain(pa.table({"t": texts}), encoding_options=small).pages
    assert page.encoding.startswith(encoding)
    plain = pilum.EncodingOptions(dict_divisor=10**6)
    [default] = pilum.explain(pa.table({"t": texts}), encoding_options=plain).pages
    assert page.stored_bytes < 0.9 * default.stored_bytes


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
    with pytest.raises(InvalidInputError, match="null"):
        pilum.explain(_table(), data_storage_version="0.1")


def test_options_that_are_no_encoding_options_are_refused(tmp_path: Path) -> None:
    options: Any = {"prefer": "size"}
    with pytest.raises(InvalidInputError, match="encoding_options: expected EncodingOptions"):
        pilum.write_dataset(_table(), tmp_path / "t", encoding_options=options)
