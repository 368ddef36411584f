"""Damages files of version 2.0 at random: the end must be values or an error of this library.

Runs as a program, so that a crash or a hunger for memory ends a process that nobody needs:

    python -m container.paged_damage SEED FILES
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections import Counter
from functools import cache

import pyarrow as pa
from container.damage import columns
from container.paged import open_paged, read_paged, write_paged
from explore.costs import Costs, limit_memory
from explore.setting import EXPLORES

from pilum.errors import PilumError
from pilum.format.rows import RowRanges

_ANY_VALUE = ("UTF8", "does not fit in precision")
"""Values that Arrow does not like, but files may hold."""
_COMPRESSIONS = ("zstd", "lz4", "fsst")


@cache
def files() -> list[bytes]:
    """One file per column, and compressed text."""
    arrays = {name: array for name, array in columns().items() if not _has_null_structs(array)}
    tables = [pa.table({name: array}) for name, array in arrays.items()]
    for scheme in _COMPRESSIONS:
        field = pa.field("text", pa.string(), metadata={"lance-encoding:compression": scheme})
        texts = [f"text number {i} of many " * 5 for i in range(300)]
        tables.append(pa.table([pa.array(texts)], schema=pa.schema([field])))
    tables.append(pa.table({"structs": [{"a": i, "b": [{"c": str(i)}]} for i in range(300)]}))
    return [write_paged(table) for table in tables]


def _has_null_structs(array: pa.Array) -> bool:
    return bool(pa.types.is_struct(array.type) and array.null_count)


def attempt(data: bytes) -> str:
    """Reads all rows and some; returns "values", the name of the error, or what went wrong."""
    costs = Costs()
    try:
        reader = open_paged(data)
        count = reader.num_rows
        read_paged(reader, RowRanges.of((0, min(count, 1000))))
        if count > 9:
            read_paged(reader, RowRanges.of((1, 2), (5, 9)))
        end = "values"
    except PilumError as error:
        end = type(error).__name__
    except pa.ArrowInvalid as error:
        end = "values" if any(part in str(error) for part in _ANY_VALUE) else f"BAD {error}"
    except BaseException:
        return "BAD " + traceback.format_exc()[-1500:]
    return costs.judge(end) if EXPLORES else end


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, most of them in the descriptions at the end."""
    copy = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        back = chance.randrange(1, min(len(copy), chance.choice([600, 600, len(copy)])) + 1)
        copy[-back] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
    return bytes(copy)


def main(seed: int, count: int) -> None:
    """Reads so many damaged files; prints how they ended."""
    limit_memory()
    chance = random.Random(seed)
    ends: Counter[str] = Counter()
    bad: dict[str, str] = {}
    for _ in range(count):
        data = damaged(chance.choice(files()), chance)
        end = attempt(data)
        if end.startswith("BAD"):
            bad[end] = data.hex()[-3000:]
        ends[end[:30]] += 1
    print(json.dumps({"ends": ends, "bad": bad}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
