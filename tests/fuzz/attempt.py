"""Reads a damaged file: values or an error of this library, soon, and in little memory."""

from __future__ import annotations

import traceback
from dataclasses import replace
from itertools import count
from typing import cast

import pyarrow as pa
from container.files import MemorySource
from explore.costs import Costs
from fuzz.seeds import Seed

from pilum.container.open import open_file
from pilum.errors import CorruptFileError, PilumError
from pilum.format.rows import RowRanges
from pilum.storage.base import Source, Store
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.session import Session

__all__ = ["attempt"]

_MOST_ROWS = 10_000
_RULES_OF_VALUES = ("UTF8", "does not fit in precision", "whole number of days", "acceptable range")
_NUMBERS = count()


class _OneFile:
    """A store of one file in memory; its name is new each time, for the caches."""

    def __init__(self, data: bytes) -> None:
        self.uri = self.identity = f"memory:{next(_NUMBERS)}"
        self._source = MemorySource(data)

    def source(self, _path: str, _size: int | None = None) -> Source:
        return cast(Source, self._source)


def attempt(seed: Seed, data: bytes, judges_costs: bool = False) -> str:
    """Reads all rows and some; returns "values", the name of the error, or "BAD: …".

    Args:
        seed: What the file was.
        data: The file.
        judges_costs: Whether it is bad, too, to take much time or memory of this machine.
    """
    costs = Costs()
    try:
        _read(seed, data)
        end = "values"
    except PilumError as error:
        end = type(error).__name__
        if problem := _says_not_where(error):
            end = f"BAD: {problem}: {end}: {error}"
    except pa.ArrowInvalid as error:
        # Bytes of values say nothing of the rules of their type: text, digits of decimals.
        is_value = any(rule in str(error) for rule in _RULES_OF_VALUES)
        end = "values" if is_value else f"BAD: {traceback.format_exc(limit=-4)}"
    except BaseException as error:  # a Rust panic is no Exception
        end = f"BAD: {type(error).__name__}: {traceback.format_exc(limit=-4)}"
    return costs.judge(end) if judges_costs else end


def _read(seed: Seed, data: bytes) -> None:
    """Reads by the reader that tables use, which asks a fragment for its fields."""
    store = _OneFile(data)
    num_rows = open_file(store.source("")).num_rows
    fragment = replace(seed.fragment, physical_rows=num_rows)
    reader = FragmentReader(Session(), cast(Store, store), fragment)
    for wanted in _asked(num_rows):
        for field in seed.schema.fields:
            for segment in reader.field(field).segments(wanted):
                segment.read().validate(full=True)


def _asked(num_rows: int) -> list[RowRanges]:
    if num_rows == 0:
        return []
    if num_rows > _MOST_ROWS:
        return [RowRanges.of((0, 100), (num_rows - 100, num_rows))]
    some = sorted({0, 1 % num_rows, num_rows // 2, num_rows - 1})
    return [RowRanges.of((0, num_rows)), RowRanges.of(*((row, row + 1) for row in some))]


def _says_not_where(error: PilumError) -> str:
    """What an error should tell and does not."""
    if not isinstance(error, CorruptFileError):
        return ""
    return "" if "memory.lance" in str(error) else "no path"
