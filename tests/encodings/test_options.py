"""What may be asked of the encodings, and where (S4.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError

pytestmark = pytest.mark.checklist("S4.10")

ALLOWED = [
    ("compression", "ZSTD", "zstd"),
    ("compression-level", "22", 22),
    ("rle-threshold", "0.25", 0.25),
    ("rle-threshold", "1", 1.0),
    ("bss", "on", "on"),
    ("dict-divisor", "3", 3),
    ("dict-size-ratio", "1.0", 1.0),
    ("dict-values-compression", "none", "none"),
    ("dict-values-compression-level", "0", 0),
    ("structural-encoding", "fullzip", "fullzip"),
    ("minichunk-size", "64", 64),
]
REFUSED = [
    ("compression", "snappy", "lz4, zstd, fsst or none"),
    ("compression-level", "23", "an integer from 0 to 22"),
    ("compression-level", "high", "an integer from 0 to 22"),
    ("rle-threshold", "1.5", "a number from 0 to 1"),
    ("rle-threshold", "nan", "a number from 0 to 1"),
    ("bss", "maybe", "auto, on or off"),
    ("dict-divisor", "0", "an integer above 0"),
    ("dict-size-ratio", "0", "a number above 0, to 1"),
    ("dict-values-compression", "fsst", "lz4, zstd or none"),
    ("structural-encoding", "blob", "miniblock or fullzip"),
    ("minichunk-size", "0", "an integer above 0"),
]


@pytest.mark.parametrize(("key", "text", "value"), ALLOWED)
def test_metadata_of_a_leaf(key: str, text: str, value: Any) -> None:
    metadata = {f"lance-encoding:{key}": text}
    found = EncodingOptions.of_field([("c", metadata)], EncodingOptions())
    assert found == EncodingOptions(**{key.replace("-", "_"): value})


def test_metadata_go_before_what_a_write_asks_for() -> None:
    write = EncodingOptions(compression="lz4", bss="off")
    path = [("c", {"lance-encoding:compression": "none"})]
    assert EncodingOptions.of_field(path, write) == EncodingOptions(compression="none", bss="off")


def test_the_structure_is_asked_of_the_column_and_the_rest_of_the_leaf() -> None:
    metadata = {"lance-encoding:structural-encoding": "fullzip", "lance-encoding:bss": "on"}
    top = EncodingOptions.of_field([("c", metadata), ("item", {})], EncodingOptions())
    assert top == EncodingOptions(structural_encoding="fullzip")
    leaf = EncodingOptions.of_field([("c", {}), ("item", metadata)], EncodingOptions())
    assert leaf == EncodingOptions(bss="on")


@pytest.mark.parametrize(("key", "text", "expected"), REFUSED)
def test_metadata_that_ask_for_nonsense(tmp_path: Path, key: str, text: str, expected: str) -> None:
    metadata = {f"lance-encoding:{key}": text}
    leaf = pa.field("x", pa.int64(), metadata=metadata)
    column = pa.field("s", pa.struct([leaf]), metadata=metadata)
    rows = pa.Table.from_pylist([{"s": {"x": 1}}], pa.schema([column]))
    with pytest.raises(InvalidInputError) as caught:
        pilum.write_dataset(rows, tmp_path / "t")
    assert str(caught.value) == (
        f"column 's.x', metadata lance-encoding:{key}: expected {expected}, found {text!r}"
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"compression": "snappy"},
        {"compression_level": 1.5},
        {"bss": None},
        {"bss": True},
        {"rle_threshold": "0.5"},
        {"dict_divisor": True},
        {"minichunk_values": 1000},
        {"minichunk_values": 65_536},
        {"minichunk_size": -1},
        {"prefer": "both"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(asked: dict[str, Any]) -> None:
    [name] = asked
    with pytest.raises(InvalidInputError, match=f"^{name}: expected "):
        EncodingOptions(**asked)


@pytest.mark.parametrize(
    "asked",
    [{"data_cache_bytes": 0}, {"max_page_bytes": 1.5}, {"buffer_alignment": 100}],
    ids=str,
)
def test_layouts_that_make_no_sense(tmp_path: Path, asked: dict[str, Any]) -> None:
    [name] = asked
    with pytest.raises(InvalidInputError, match=f"^{name}: expected "):
        pilum.write_dataset(pa.table({"a": [1]}), tmp_path / "t", **asked)


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        ("2.0", {"encoding_options": EncodingOptions(bss="on")}),
        ("2.0", {"encoding_options": EncodingOptions(minichunk_size=100)}),
        ("legacy", {"encoding_options": EncodingOptions(compression="zstd")}),
        ("legacy", {"buffer_alignment": 4096}),
        ("legacy", {"data_cache_bytes": 100}),
        ("legacy", {"max_page_bytes": 100}),
    ],
    ids=str,
)
def test_what_older_versions_do_not_have(
    tmp_path: Path, version: str, asked: dict[str, Any]
) -> None:
    [name] = asked
    rows = pa.table({"a": [1]})
    with pytest.raises(InvalidInputError, match=f"^{name}: files of version "):
        pilum.write_dataset(rows, tmp_path / "t", data_storage_version=version, **asked)
