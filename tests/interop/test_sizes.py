"""Our files are not larger than those of the reference, by more than a tenth."""

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
MARGIN = 1.1
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
    "nulls": lambda: pa.nulls(ROWS, pa.string()),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_file_is_much_larger(tmp_path: Path, shape: str) -> None:
    table = pa.table({"c": SHAPES[shape]()})
    pilum.write_dataset(table, tmp_path / "ours")
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="2.1")
    ours, theirs = (_size(tmp_path / name) for name in ("ours", "theirs"))
    assert ours <= MARGIN * theirs + FEW, f"{ours / theirs:.2f} times as large"


def _size(table: Path) -> int:
    return sum(file.stat().st_size for file in (table / "data").iterdir())
