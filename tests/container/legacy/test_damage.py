"""Hostile legacy files: the end is values or one clear error, soon, and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from container.files import MemorySource
from container.legacy.damage import columns
from container.legacy.files import read_legacy, write_legacy

from pilum.container.legacy.file import LegacyFile
from pilum.errors import CorruptFileError
from pilum.format.fields import FieldId

ROOT = Path(__file__).parents[3]
FILES = 1500


@pytest.mark.seeds(1)
def test_random_damage(seed: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-m", "container.legacy.damage", str(seed), str(FILES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["bad"] == {}
    assert {"values", "CorruptFileError"} <= set(found["ends"])


def test_every_beginning_of_a_file_is_refused() -> None:
    data = write_legacy(pa.table({"s": columns()["strings"]}), 25)
    for size in range(len(data)):
        with pytest.raises(CorruptFileError, match=r"memory\.lance"):
            LegacyFile.open(MemorySource(data[:size]))


def patched(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + number.to_bytes(8, "little", signed=True) + data[at + 8 :]


STRINGS = write_legacy(pa.table({"s": ["hello", None, "world"]}))
LISTS = write_legacy(pa.table({"l": pa.array([[1, 2], [3]], pa.large_list(pa.int64()))}))


@pytest.mark.parametrize(
    ("data", "at", "number", "message"),
    [
        (STRINGS, 10, -1, "before the start of the file"),
        (STRINGS, 18, 11, "offsets decrease"),
        (STRINGS, 34, 10**15, "offsets beyond the end"),
        (STRINGS, 42, 2**62, "impossible numbers"),
        (STRINGS, 42, -1, "impossible numbers"),
        (STRINGS, 50, 4, "rows of field 's'"),
        (STRINGS, 50, 2, "rows of field 's'"),
        (STRINGS, len(STRINGS) - 16, 10**9, "metadata at"),
        (STRINGS, len(STRINGS) - 16, -1, "metadata at"),
        (LISTS, 8, 4, "offsets decrease"),
        (LISTS, 0, -1, "negative offset"),
        (LISTS, 16, 2**62, "bytes in a file of|too short"),
        (LISTS, 16, 4, "too short"),
    ],
)
def test_absurd_numbers(data: bytes, at: int, number: int, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message) as caught:
        read_legacy(patched(data, at, number))
    assert "memory.lance" in str(caught.value)


@pytest.mark.parametrize("numbers", [(0, 3), (1, 0), (2, 1)])
def test_another_version_has_another_footer(numbers: tuple[int, int]) -> None:
    major, minor = numbers
    data = STRINGS[:-8] + bytes([major, 0, minor, 0]) + STRINGS[-4:]
    with pytest.raises(CorruptFileError, match=f"version {major}.{minor} in a legacy footer"):
        LegacyFile.open(MemorySource(data))


@pytest.mark.parametrize("minor", [0, 1, 2])
def test_all_legacy_footers_are_read_the_same(minor: int) -> None:
    """S2.5: old writers said 0.0."""
    data = STRINGS[:-6] + bytes([minor, 0]) + STRINGS[-4:]
    assert read_legacy(data)["s"].to_pylist() == ["hello", None, "world"]


def test_errors_of_the_schema_of_statistics_name_the_file() -> None:
    file = LegacyFile.open(MemorySource(STRINGS))
    place = file.metadata.statistics
    assert place is not None
    for number in range(1000, 1200):
        field = place.message.schema.add(name="x", id=number, logical_type="struct")
        field.parent_id = number - 1 if number > 1000 else -1
    with pytest.raises(CorruptFileError, match=r"nested deeper.*\n.*memory\.lance, statistics"):
        file.statistics_field(FieldId(0))
