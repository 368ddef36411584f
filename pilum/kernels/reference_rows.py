"""Naive twins of the kernels for rows of packed structs; see `pilum.kernels.reference`.

A member is a list of values, each of them bytes. Members of fixed width have `width`; the values of
others follow a length of `length_bytes`. A row that is null is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Member", "join_rows", "split_rows"]


class Member(NamedTuple):
    """The storage of a member: exactly one of both widths is 0."""

    width: int
    length_bytes: int


def join_rows(members: Sequence[Member], rows: Sequence[Sequence[bytes] | None]) -> list[bytes]:
    """Return the bytes of each row."""
    return [b"" if row is None else b"".join(map(_stored, members, row)) for row in rows]


def _stored(member: Member, value: bytes) -> bytes:
    return value if member.width else len(value).to_bytes(member.length_bytes, "little") + value


def split_rows(members: Sequence[Member], rows: Sequence[bytes]) -> list[list[bytes]]:
    """Return the values of each row; zeros or nothing for members of rows without bytes."""
    return [
        _values(members, row) if row else [bytes(member.width) for member in members]
        for row in rows
    ]


def _values(members: Sequence[Member], row: bytes) -> list[bytes]:
    values = []
    for member in members:
        head, size = member.length_bytes, member.width
        if head:
            size = int.from_bytes(row[:head], "little")
        values.append(row[head : head + size])
        row = row[head + size :]
    assert not row
    return values
