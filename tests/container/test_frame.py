"""The footer and its tables: bytes to numbers and back, and every contradiction."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.container.frame import FOOTER_BYTES, Footer, pack_table, parse_table
from pilum.errors import CorruptFileError, PilumError
from pilum.format.version import FileVersion

GOOD: dict[str, Any] = {
    "column_metadata": 100,
    "column_table": 200,
    "global_table": 232,
    "num_global_buffers": 1,
    "num_columns": 2,
    "version": FileVersion.V2_1,
}
SIZE = 232 + 16 + FOOTER_BYTES


@pytest.mark.checklist("S0.1")
def test_bytes() -> None:
    packed = Footer(**GOOD).pack()
    assert packed == struct.pack("<QQQII", 100, 200, 232, 1, 2) + b"\x02\0\x01\0LANC"
    assert Footer.parse(packed, SIZE) == Footer(**GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"column_metadata": 201},
        {"column_table": 233},
        {"global_table": SIZE},
        {"global_table": 2**63},
        {"column_metadata": 2**64 - 1},
        {"num_columns": 3},
        {"num_columns": 2**32 - 1},
        {"num_global_buffers": 0},
        {"num_global_buffers": 2},
        {"num_global_buffers": 2**32 - 1},
    ],
)
@pytest.mark.checklist("S0.1")
def test_contradictions(change: dict[str, int]) -> None:
    packed = Footer(**(GOOD | change)).pack()
    with pytest.raises(CorruptFileError, match="footer"):
        Footer.parse(packed, SIZE)


@given(st.binary(min_size=FOOTER_BYTES, max_size=FOOTER_BYTES), st.booleans())
def test_noise(noise: bytes, with_magic: bool) -> None:
    tail = noise[:-8] + b"\x02\0\x01\0LANC" if with_magic else noise
    try:
        footer = Footer.parse(tail, SIZE)
    except PilumError:
        return
    assert footer.column_metadata <= footer.column_table <= footer.global_table < SIZE


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500))))
@pytest.mark.checklist("S0.1")
def test_tables(entries: list[tuple[int, int]]) -> None:
    data = np.frombuffer(pack_table(entries), np.uint8)
    assert len(data) == 16 * len(entries)
    assert parse_table(data, 1000) == tuple(entries)
    if any(position + size > 400 for position, size in entries):
        with pytest.raises(CorruptFileError, match="beyond position 400"):
            parse_table(data, 400)


@pytest.mark.parametrize("entry", [(2**64 - 1, 1), (1, 2**64 - 1), (2**63, 2**63), (2**64 - 8, 16)])
def test_entries_that_wrap_around(entry: tuple[int, int]) -> None:
    data = np.frombuffer(struct.pack("<QQ", *entry), np.uint8)
    with pytest.raises(CorruptFileError):
        parse_table(data, 1000)
