"""Damages files at random and reads them: the end must be values or an error of this library.

Runs as a program, so that a crash or a hunger for memory ends a process that nobody needs:

    python -m container.damage SEED FILES
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from container.files import MemorySource, read_rows, write_table
from explore.costs import Costs, limit_memory
from explore.setting import EXPLORES

from pilum.container.reader import FileReader
from pilum.errors import PilumError, UnsupportedTypeError
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion

__all__ = ["attempt", "columns", "newer_columns"]


@cache
def columns() -> dict[str, pa.Array]:
    """Columns that together use every layout and encoding of the writer."""
    numbers = np.random.default_rng(5)
    count = 300
    texts = [f"text number {i} of many" for i in range(count)]
    long = ["".join(numbers.choice(list("abcdef"), 300)) for _ in range(count)]
    lists = [[i] * (i % 4) if i % 7 else None for i in range(count)]
    return {
        "flat": pa.array(numbers.random(count)),
        "packed": pa.array([i % 50 if i % 9 else None for i in range(count)], pa.int64()),
        "runs": pa.array([i // 100 for i in range(count)], pa.int16()),
        "bits": pa.array([i % 3 == 0 for i in range(count)]),
        "nulls": pa.nulls(count, pa.int32()),
        "strings": pa.array(texts),
        "dictionary": pa.array([f"{i % 3}-{'x' * 20}" for i in range(count)]),
        "fsst": pa.array([text * 6 for text in texts]),
        "long": pa.array(long),
        "zstd": pa.array(["y" * 40_000 if i == 9 else "" for i in range(count)]),
        "decimals": pa.array([i % 5 for i in range(count)], pa.decimal128(9, 2)),
        "vectors": pa.array([[i, None, 3] for i in range(count)], pa.list_(pa.float32(), 3)),
        "wide": pa.array([[i] * 80 for i in range(count)], pa.list_(pa.float32(), 80)),
        "lists": pa.array(lists, pa.list_(pa.int32())),
        "empty lists": pa.array([[], None] * (count // 2), pa.list_(pa.int32())),
        "zipped lists": pa.array(
            [long[i : i + i % 3] for i in range(count)], pa.list_(pa.string())
        ),
        "structs": pa.array(
            [{"a": i % 99, "b": [{"c": str(i)}, None]} if i % 5 else None for i in range(count)],
            pa.struct([("a", pa.int8()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
        ),
    }


@cache
def newer_columns() -> dict[str, pa.Array]:
    """Small columns of the types that version 2.2 brings, and dictionaries."""
    count = 40
    keys = pa.array([i % 4 if i % 5 else None for i in range(count)], pa.int8())
    point = pa.struct([("x", pa.int32()), ("s", pa.string())])
    return {
        "maps": pa.array(
            [[("a", i), ("b", None)][: i % 3] if i % 7 else None for i in range(count)],
            pa.map_(pa.string(), pa.int64()),
        ),
        "vectors of structs": pa.array(
            [[{"x": i, "s": "a"}, None] if i % 3 else None for i in range(count)],
            pa.list_(point, 2),
        ),
        "dictionaries": pa.DictionaryArray.from_arrays(keys, pa.array(["a", "b", "c", "dd"])),
        "dictionaries of booleans": pa.DictionaryArray.from_arrays(
            keys, pa.array([True, False, True, True])
        ),
        "empty lists": pa.array([[], None, [], []] * (count // 4), pa.list_(pa.int32())),
        "levels in runs": pa.array([[1] * 200, [2] * 200, None], pa.list_(pa.int8())),
    }


def attempt(data: bytes) -> str:
    """Reads all rows and some; returns "values", the name of the error, or what went wrong."""
    costs = Costs()
    try:
        reader = FileReader.open(MemorySource(data))
        count = reader.num_rows
        if count <= 10_000:
            read_rows(reader, RowRanges.of((0, count)))
            rows = np.unique(np.array([0, 1, count // 2, count - 1]) % max(count, 1))
            read_rows(reader, RowRanges.of_rows(rows[: max(count, 0)]))
        else:
            read_rows(reader, RowRanges.of((0, 100), (count - 100, count)))
        end = "values"
    except PilumError as error:
        end = type(error).__name__
        # A type that is not known stands in the schema; the table has it, not only this file.
        # So is a list without items, which leaves no column in the file.
        of_schema = isinstance(error, UnsupportedTypeError) or "1 item field" in str(error)
        if "memory.lance" not in str(error) and not of_schema:
            end = f"BAD: no path: {type(error).__name__}: {error}"
    except pa.ArrowInvalid as error:
        # Bytes of values say nothing of the rules of their type: text, digits of decimals.
        is_value = "UTF8" in str(error) or "does not fit in precision" in str(error)
        end = "values" if is_value else f"BAD: {traceback.format_exc(limit=-4)}"
    except BaseException as error:  # a Rust panic is no Exception
        end = f"BAD: {type(error).__name__}: {traceback.format_exc(limit=-4)}"
    return costs.judge(end) if EXPLORES else end


_Damage = Callable[[bytearray, int, random.Random], None]


def _flip_bit(data: bytearray, at: int, source: random.Random) -> None:
    data[at] ^= 1 << source.randrange(8)


def _set_byte(data: bytearray, at: int, source: random.Random) -> None:
    data[at] = source.choice([0, 1, 2, 127, 128, 254, 255, source.randrange(256)])


def _set_word(data: bytearray, at: int, source: random.Random) -> None:
    size = source.choice([2, 4, 8])
    value = source.choice([0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1, source.randrange(2**16)])
    data[at : at + size] = value.to_bytes(size, "little")[: len(data) - at]


def _main(seed: int, count: int) -> dict[str, Any]:
    limit_memory()
    source = random.Random(seed)
    files = [write_table(pa.table({name: column}))[0] for name, column in columns().items()]
    for name, column in newer_columns().items():
        files.append(write_table(pa.table({name: column}), version=FileVersion.V2_2)[0])
    ends: dict[str, int] = {}
    bad: dict[str, list[Any]] = {}
    damages: list[_Damage] = [_flip_bit, _set_byte, _set_word]
    for _ in range(count):
        number = source.randrange(len(files))
        data = bytearray(files[number])
        changes = []
        for _ in range(source.choice([1, 1, 1, 2, 5])):
            # Half of the damage goes to the end of the file, where the descriptions are.
            near_end = source.random() < 0.5
            at = (
                len(data) - 1 - source.randrange(min(len(data), 900))
                if near_end
                else (source.randrange(len(data)))
            )
            source.choice(damages)(data, at, source)
            changes.append(at)
        end = attempt(bytes(data))
        key = end.splitlines()[-1] if end.startswith("BAD") else end
        ends[key] = ends.get(key, 0) + 1
        if end.startswith("BAD"):
            bad.setdefault(key, [number, changes, bytes(data).hex()[-4000:], end])
    return {"ends": ends, "bad": bad}


if __name__ == "__main__":
    print(json.dumps(_main(int(sys.argv[1]), int(sys.argv[2]))))
