"""Damages legacy files at random and reads them: the end must be values or a clear error.

Runs as a program, so that a crash or a hunger for memory ends a process that nobody needs:

    python -m container.legacy.damage SEED FILES
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from typing import Any

import numpy as np
import pyarrow as pa
from container.files import MemorySource
from container.legacy.files import field_reader, read_legacy, write_legacy
from explore.costs import Costs, limit_memory
from explore.setting import EXPLORES

from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.statistics import read_zones
from pilum.errors import PilumError
from pilum.format.rows import RowRanges

__all__ = ["attempt", "columns"]


def columns() -> dict[str, pa.Array]:
    """Columns that together use every kind of page."""
    count = 60
    lists = [[f"{k}"] * (i % 4) for i, k in enumerate(range(count))]
    return {
        "numbers": pa.array(range(count), pa.int32()),
        "floats": pa.array([i / 7 for i in range(count)]),
        "bits": pa.array([i % 3 == 0 for i in range(count)]),
        "strings": pa.array([f"text {i}" if i % 5 else None for i in range(count)]),
        "bytes": pa.array([b"x" * i for i in range(1, count + 1)], pa.large_binary()),
        "nulls": pa.nulls(count),
        "vectors": pa.array([[i, 1, 2] for i in range(count)], pa.list_(pa.int16(), 3)),
        "masks": pa.array(
            [[True, i % 2 == 0, False] for i in range(count)], pa.list_(pa.bool_(), 3)
        ),
        "lists": pa.array(lists, pa.list_(pa.string())),
        "large": pa.array([[[i], []] for i in range(count)], pa.large_list(pa.list_(pa.int8()))),
        "structs": pa.array([{"a": i, "b": [{"c": f"{i}"}] * (i % 3)} for i in range(count)]),
    }


def attempt(data: bytes) -> str:
    """Reads all that there is; returns "values", the name of the error, or what went wrong."""
    costs = Costs()
    try:
        _read(data)
        end = "values"
    except PilumError as error:
        end = type(error).__name__
    except pa.ArrowInvalid as error:
        # Bytes of values say nothing of the rules of their type.
        is_value = "UTF8" in str(error) or "does not fit" in str(error)
        end = "values" if is_value else f"BAD: {traceback.format_exc(limit=-4)}"
    except BaseException as error:
        end = f"BAD: {type(error).__name__}: {traceback.format_exc(limit=-4)}"
    return costs.judge(end) if EXPLORES else end


def _read(data: bytes) -> None:
    file = LegacyFile.open(MemorySource(data))
    for field in file.schema.fields:
        read_zones(file, field)
        assert field_reader(file, field).bytes_per_row >= 0
    count = file.num_rows
    if count <= 10_000:
        read_legacy(data)
        rows = np.unique(np.array([0, 1, count // 2, count - 1]) % max(count, 1))
        read_legacy(data, RowRanges.of_rows(rows[:count]))
    else:
        read_legacy(data, RowRanges.of((0, 100), (count - 100, count)))


def _main(seed: int, count: int) -> dict[str, Any]:
    limit_memory()
    source = random.Random(seed)
    table = pa.table(columns())
    files = [write_legacy(table.select([name]), 25) for name in table.column_names]
    files.append(write_legacy(table, 25))
    ends: dict[str, int] = {}
    bad: dict[str, list[Any]] = {}
    for _ in range(count):
        number = source.randrange(len(files))
        data = bytearray(files[number])
        changes = [_change(data, source) for _ in range(source.choice([1, 1, 1, 2, 5]))]
        end = attempt(bytes(data))
        key = end.splitlines()[-1] if end.startswith("BAD") else end
        ends[key] = ends.get(key, 0) + 1
        if end.startswith("BAD"):
            bad.setdefault(key, [number, changes, end])
    return {"ends": ends, "bad": bad}


def _change(data: bytearray, source: random.Random) -> tuple[int, int, int]:
    """Sets some bytes to a number that means something, anywhere."""
    size = source.choice([1, 1, 2, 4, 8])
    at = source.randrange(len(data) - size)
    top = 2 ** (8 * size)
    value = source.choice(
        [0, 1, top // 2, top - 1, top // 2 - 1, source.randrange(min(top, 2**16))]
    )
    data[at : at + size] = value.to_bytes(size, "little")
    return at, size, value


if __name__ == "__main__":
    print(json.dumps(_main(int(sys.argv[1]), int(sys.argv[2]))))
