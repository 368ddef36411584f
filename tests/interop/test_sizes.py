"""Our files are not larger than those of the reference by more than a twentieth, in any shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ROWS = 200_000
MARGIN = 1.05
FEW = 4096
"""Bytes that are no matter: the schema and tables of a file."""


def _random() -> np.random.Generator:
    return np.random.default_rng(11)


def _words(count: int, letters: int) -> list[str]:
    codes = _random().integers(97, 123, (count, letters), dtype=np.uint8)
    return [row.tobytes().decode() for row in codes]


def _strings(distinct: int, letters: int) -> pa.Array:
    pool = pa.array(_words(distinct, letters))
    return pool.take(pa.array(_random().integers(0, distinct, ROWS)))


def _urls() -> pa.Array:
    numbers = _random().integers(0, 10**6, ROWS).astype(str)
    return pa.array(np.char.add("https://example.org/items/page?number=", numbers))


def _lists(items: pa.Array) -> pa.Array:
    lengths = _random().integers(0, 5, ROWS // 2)
    offsets = np.minimum(np.append(0, np.cumsum(lengths)), len(items)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def _runs(values: np.ndarray[Any, Any], longest: int) -> pa.Array:
    """The values one after the other, each repeated up to so many times."""
    counts = _random().integers(1, longest, len(values))
    return pa.array(np.repeat(values, counts)[:ROWS])


def _sentences(words: int) -> pa.Array:
    pool = _words(500, 6)
    numbers = _random().integers(0, len(pool), (ROWS // 10, words))
    return pa.array([" ".join(pool[number] for number in row) for row in numbers])


def _lists_of(lengths: np.ndarray[Any, Any]) -> pa.Array:
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1]) % 50))


def _with_nulls(values: np.ndarray[Any, Any], share: float = 0.3) -> pa.Array:
    return pa.array(values, mask=_random().random(len(values)) < share)


SHAPES: dict[str, Callable[[], pa.Array]] = {
    "ascending": lambda: pa.array(np.arange(ROWS)),
    "small integers": lambda: pa.array(_random().integers(0, 100, ROWS)),
    "small negative integers": lambda: pa.array(_random().integers(-9, 9, ROWS)),
    "integers with nulls": lambda: _with_nulls(_random().integers(0, 10**5, ROWS)),
    "random integers": lambda: pa.array(_random().integers(0, 2**62, ROWS)),
    "one integer": lambda: pa.array(np.full(ROWS, 7)),
    "runs": lambda: pa.array(np.repeat(np.arange(ROWS // 100), 100)),
    "booleans": lambda: pa.array(_random().random(ROWS) < 0.5),
    "floats": lambda: pa.array(_random().random(ROWS)),
    "rounded floats": lambda: pa.array(_random().integers(0, 1000, ROWS) / 4),
    "few strings": lambda: _strings(50, 12),
    "one string": lambda: _strings(1, 40),
    "some strings": lambda: _strings(20_000, 9),
    "random strings": lambda: pa.array(_words(ROWS, 14)),
    "long strings": lambda: pa.array(_words(2000, 3000)),
    "urls": _urls,
    "urls with nulls": lambda: _urls().take(_with_nulls(np.arange(ROWS))),
    "timestamps": lambda: pa.array(np.arange(ROWS) * 1_000_000 + 1_700_000_000_000_000).cast(
        pa.timestamp("us")
    ),
    "decimals": lambda: pa.array(_random().integers(0, 10**6, ROWS)).cast(pa.decimal128(24, 2)),
    "few decimals": lambda: pa.array(_random().integers(0, 99, ROWS)).cast(pa.decimal128(24, 2)),
    "vectors": lambda: pa.FixedSizeListArray.from_arrays(
        pa.array(_random().random(ROWS * 8, np.float32)), 8
    ),
    "wide vectors": lambda: pa.FixedSizeListArray.from_arrays(
        pa.array(_random().random(3_072_000, np.float32)), 768
    ),
    "lists": lambda: _lists(pa.array(_random().integers(0, 50, ROWS))),
    "lists of strings": lambda: _lists(_strings(500, 8)),
    "structs": lambda: pa.StructArray.from_arrays(
        [_with_nulls(np.arange(ROWS)), _strings(5, 5)], ["a", "b"], mask=pa.array([False] * ROWS)
    ),
    "few integers": lambda: pa.array(_random().integers(0, 9, ROWS) * 10**15),
    "some integers": lambda: pa.array(
        _random().integers(0, 2**60, 3000)[_random().integers(0, 3000, ROWS)]
    ),
    "few floats": lambda: pa.array(_random().random(40)[_random().integers(0, 40, ROWS)]),
    "few timestamps": lambda: pa.array(
        _random().integers(0, 30, ROWS) * 86_400_000_000 + 1_700_000_000_000_000
    ).cast(pa.timestamp("us")),
    "sorted integers": lambda: pa.array(np.sort(_random().integers(0, 2**40, ROWS))),
    "sorted dates": lambda: pa.array(
        np.sort(_random().integers(0, 20_000, ROWS)).astype(np.int32)
    ).cast(pa.date32()),
    "short runs": lambda: _runs(_random().integers(0, 2**31, ROWS), 5),
    "long runs of large integers": lambda: _runs(_random().integers(0, 2**60, ROWS // 500), 1000),
    "runs of floats": lambda: _runs(_random().random(ROWS).astype(np.float32), 20),
    "runs of bytes": lambda: _runs(_random().integers(0, 256, ROWS).astype(np.uint8), 9),
    "runs of strings": lambda: pa.array(_words(1000, 30)).take(
        _runs(_random().integers(0, 1000, ROWS), 40)
    ),
    "bytes": lambda: pa.array(_random().integers(0, 256, ROWS).astype(np.uint8)),
    "half floats": lambda: pa.array(_random().random(ROWS).astype(np.float16)),
    "nearly all null": lambda: _with_nulls(_random().integers(0, 10**9, ROWS), 0.999),
    "hardly any null": lambda: _with_nulls(_random().integers(0, 10**9, ROWS), 0.001),
    "rare booleans": lambda: pa.array(np.arange(ROWS) % 1000 == 0),
    "booleans with nulls": lambda: _with_nulls(_random().random(ROWS) < 0.5),
    "256-bit decimals": lambda: pa.array(_random().integers(0, 99, ROWS)).cast(
        pa.decimal256(60, 2)
    ),
    "sentences": lambda: _sentences(10),
    "paragraphs": lambda: _sentences(100),
    "one-letter strings": lambda: _strings(26, 1),
    "random short strings": lambda: pa.array(_words(ROWS, 3)),
    "binary": lambda: _urls().cast(pa.binary()),
    "large strings": lambda: _urls().cast(pa.large_string()),
    "strings mostly null": lambda: _urls().take(_with_nulls(np.arange(ROWS), 0.95)),
    "very long strings": lambda: pa.array(["-".join(_words(500, 99))] * 10 + _words(10, 50_000)),
    "identifiers": lambda: pa.array([_random().bytes(16)] * 50 + [bytes(16)], pa.binary(16)).take(
        pa.array(_random().integers(0, 51, ROWS))
    ),
    "random identifiers": lambda: pa.array(
        [row.tobytes() for row in _random().integers(0, 256, (ROWS // 4, 16), dtype=np.uint8)],
        pa.binary(16),
    ),
    "vectors with nulls": lambda: pa.FixedSizeListArray.from_arrays(
        _with_nulls(_random().random(ROWS * 4).astype(np.float32), 0.1), 4
    ),
    "lists of lists": lambda: _lists(_lists(pa.array(_random().integers(0, 50, ROWS)))),
    "lists of few integers": lambda: _lists(pa.array(_random().integers(0, 9, ROWS) * 10**15)),
    "nulls": lambda: pa.nulls(ROWS, pa.string()),
    "empty lists": lambda: pa.array([[]] * ROWS, pa.list_(pa.int32())),
    "empty and null lists": lambda: pa.array([[], None] * (ROWS // 2), pa.list_(pa.int32())),
    "long lists": lambda: _lists_of(np.full(300, 700)),
    "one long list": lambda: _lists_of(np.array([ROWS])),
    "lists of long lists": lambda: _lists(_lists_of(np.full(300, 700))),
    "mostly empty lists": lambda: _lists_of(np.arange(ROWS) % 100 == 0),
    "nulls in runs": lambda: pa.array(np.arange(ROWS) % 900, mask=np.arange(ROWS) // 1000 % 2 == 0),
    "null structs": lambda: pa.StructArray.from_arrays(
        [pa.array(np.arange(ROWS))], ["a"], mask=pa.array([True] * ROWS)
    ),
    "dictionary": lambda: _strings(500, 8).dictionary_encode(),
    "dictionary of many": lambda: _strings(50_000, 12).dictionary_encode(),
    "dictionary of integers": lambda: pa.array(_random().integers(0, 99, ROWS)).dictionary_encode(),
}
NEWER: dict[str, Callable[[], pa.Array]] = {
    "maps": lambda: pa.MapArray.from_arrays(
        pa.array(np.arange(0, ROWS + 1, 4), pa.int32()), _strings(9, 5), pa.array(np.arange(ROWS))
    ),
    "vectors of structs": lambda: pa.FixedSizeListArray.from_arrays(
        pa.StructArray.from_arrays([pa.array(np.arange(ROWS) % 99), _strings(50, 5)], ["a", "b"]), 4
    ),
}


@pytest.mark.checklist("S4.9")
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_file_is_much_larger(tmp_path: Path, shape: str, version: str) -> None:
    """What the writer chooses by itself."""
    table = pa.table({"c": SHAPES[shape]()})
    pilum.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=version)
    ours, theirs = (_size(tmp_path / name) for name in ("ours", "theirs"))
    assert ours <= MARGIN * theirs + FEW, f"{ours / theirs:.2f} times as large"


@pytest.mark.parametrize("shape", NEWER)
def test_no_file_of_newer_types_is_much_larger(tmp_path: Path, shape: str) -> None:
    table = pa.table({"c": NEWER[shape]()})
    pilum.write_dataset(table, tmp_path / "ours", data_storage_version="2.2")
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="2.2")
    ours, theirs = (_size(tmp_path / name) for name in ("ours", "theirs"))
    assert ours <= MARGIN * theirs + FEW, f"{ours / theirs:.2f} times as large"


def _size(table: Path) -> int:
    return sum(file.stat().st_size for file in (table / "data").iterdir())
