"""Rows of packed structs, joined and split, against their twin."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import Plan
from pilum.kernels.reference_rows import Member, join_rows, split_rows

MEMBERS = st.sampled_from([Member(1, 0), Member(4, 0), Member(13, 0), Member(0, 4), Member(0, 8)])


@st.composite
def structs(draw: st.DrawFn) -> tuple[list[Member], list[list[bytes] | None]]:
    """Members, and rows of them."""
    members = draw(st.lists(MEMBERS, min_size=1, max_size=4))
    values = [
        st.binary(min_size=m.width, max_size=m.width) if m.width else st.binary(max_size=20)
        for m in members
    ]
    rows = st.lists(st.none() | st.tuples(*values).map(list), min_size=1, max_size=30)
    return members, draw(rows)


def plan_of(member: Member) -> Plan:
    return Plan.flat(8 * member.width) if member.width else Plan.variable(8 * member.length_bytes)


def offsets_of(values: list[bytes], kind: Any = np.int64) -> Any:
    return np.cumsum([0, *map(len, values)], dtype=kind)


def bitmap(rows: list[list[bytes] | None]) -> Any:
    return np.packbits([row is not None for row in rows], bitorder="little")


def column(member: Member, values: list[bytes]) -> Any:
    data = as_bytes(b"".join(values))
    if member.width:
        return data, member.width
    return offsets_of(values, np.int32 if member.length_bytes == 4 else np.int64), data


def values_of(member: Member, buffers: list[Any]) -> list[bytes]:
    data = buffers[-1].tobytes()
    if member.width:
        return [data[at : at + member.width] for at in range(0, len(data), member.width)]
    return [data[start:end] for start, end in pairwise(buffers[0].tolist())]


@given(structs())
def test_rows_are_joined_and_split_as_their_twin_does(
    struct: tuple[list[Member], list[list[bytes] | None]],
) -> None:
    members, rows = struct
    filled = [[bytes(m.width) for m in members] if row is None else row for row in rows]
    columns = [column(m, [row[i] for row in filled]) for i, m in enumerate(members)]
    starts, data = kernels.join_rows(columns, len(rows), bitmap(rows))
    expected = join_rows(members, rows)
    assert data.tobytes() == b"".join(expected)
    assert starts.tolist() == offsets_of(expected).tolist()
    split = kernels.split_rows([plan_of(m) for m in members], starts, data)
    found = [values_of(m, buffers) for m, buffers in zip(members, split, strict=True)]
    twin = split_rows(members, expected)
    assert found == [list(values) for values in zip(*twin, strict=True)]


@given(structs(), st.data())
def test_damaged_rows_are_refused(
    struct: tuple[list[Member], list[list[bytes] | None]], data: st.DataObject
) -> None:
    members, rows = struct
    stored = [row for row in join_rows(members, rows) if row]
    if not stored or len(stored[0]) < 2:
        return
    row = stored[0]
    cut = data.draw(st.integers(1, len(row) - 1))
    for damaged in (row[:cut], row + b"\0"):
        offsets = np.array([0, len(damaged)])
        with pytest.raises(CorruptFileError):
            kernels.split_rows([plan_of(m) for m in members], offsets, as_bytes(damaged))
