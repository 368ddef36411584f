"""Hostile files: the end is values or one clear error, soon, and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from container.claims import CLAIMS
from container.damage import attempt, columns, newer_columns
from container.files import MemorySource, read_table, write_table

from pilum.container.reader import FileReader
from pilum.errors import CorruptFileError, PilumError, UnsupportedVersionError
from pilum.format.version import FileVersion

ROOT = Path(__file__).parents[2]
FILES = 4000
SMALL = ("packed", "bits", "runs", "nulls", "decimals", "lists", "empty lists", "structs")


def run(*arguments: str) -> Any:
    """Runs one of the programs; returns what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ends() -> Any:
    """How reading each claim ends."""
    return run("container.claims")


# These may be true, or nobody can tell: a last chunk may be padded, a run may overshoot.
PLAUSIBLE = ("of nulls", "1 rows of", "301 rows of", "at an odd place", "footer field")


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim(claim: str, ends: dict[str, str]) -> None:
    end = ends[claim]
    assert not end.startswith("BAD"), end
    assert end != "values" or any(part in claim for part in PLAUSIBLE), end


@pytest.mark.seeds(1)
def test_random_damage(seed: int) -> None:
    found = run("container.damage", str(seed), str(FILES))
    assert found["bad"] == {}
    assert {"values", "CorruptFileError"} <= set(found["ends"])


@pytest.mark.parametrize("name", SMALL)
def test_every_beginning_of_a_file_is_refused(name: str) -> None:
    data, _ = write_table(pa.table({name: columns()[name].slice(0, 40)}))
    for size in range(len(data)):
        with pytest.raises(PilumError, match=r"memory\.lance"):
            FileReader.open(MemorySource(data[:size]))


@pytest.mark.parametrize("name", SMALL)
def test_every_end_of_a_file_is_refused_or_read(name: str) -> None:
    data, _ = write_table(pa.table({name: columns()[name].slice(0, 40)}))
    for first in range(1, len(data)):
        end = attempt(data[first:])
        assert end in ("CorruptFileError", "UnsupportedVersionError"), (first, end)


@pytest.mark.parametrize("name", SMALL)
def test_every_byte_may_be_wrong(name: str) -> None:
    data, _ = write_table(pa.table({name: columns()[name].slice(0, 40)}))
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= change
            end = attempt(bytes(damaged))
            assert not end.startswith("BAD"), (at, change, end)


@pytest.mark.parametrize("name", newer_columns())
def test_every_byte_of_newer_types_may_be_wrong(name: str) -> None:
    data, _ = write_table(pa.table({name: newer_columns()[name]}), version=FileVersion.V2_2)
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= change
            end = attempt(bytes(damaged))
            assert not end.startswith("BAD"), (at, change, end)


def test_an_error_says_where() -> None:
    data, _ = write_table(pa.table({"first": [1, 2], "second": ["a", "b"]}))
    at = data.index(b"\x0c\0\0\0\x0d\0\0\0\x0e\0\0\0ab")
    with pytest.raises(CorruptFileError, match=r"memory\.lance, column 1, page 0") as caught:
        read_table(data[:at] + b"\xff" + data[at + 1 :])
    assert "string" in str(caught.value)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((2, 4), "2.4 is not supported"),
        ((3, 0), "3.0 is not supported"),
    ],
)
@pytest.mark.checklist("S0.3")
def test_other_versions_are_refused_by_name(version: tuple[int, int], text: str) -> None:
    data, _ = write_table(pa.table({"a": [1]}))
    major, minor = (number.to_bytes(2, "little") for number in version)
    with pytest.raises(UnsupportedVersionError, match=text) as caught:
        FileReader.open(MemorySource(data[:-8] + major + minor + b"LANC"))
    assert "memory.lance" in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"L", b"LANC", b"PAR1" * 20, bytes(100), b"\x02\0\x01\0LANC"]
)
def test_what_is_no_lance_file(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"memory\.lance"):
        FileReader.open(MemorySource(data))
