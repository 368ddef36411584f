"""A naive version of `RecordDescription.tabulate`: one list per question.

Messages are lists of values.

Tests compare the kernel with it; no other module imports this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pilum.kernels.record_members import ODD, Form, RecordMember, Use

__all__ = ["DamagedError", "Record", "tabulate_records"]

_PARTS = (Form.RECORD, Form.PART)


class DamagedError(Exception):
    """The bytes are no message."""


class _Tagged(NamedTuple):
    number: int
    value: int | bytes | None
    start: int
    end: int


@dataclass
class Record:
    """A record with what is known of it; layouts are those of its parts."""

    start: int
    end: int
    columns: dict[int, int] = field(default_factory=dict)
    flags: int = 0
    layouts: list[bytes] = field(default_factory=list)


@dataclass
class _Reader:
    members: Sequence[RecordMember]
    banned: Sequence[str]
    columns: dict[int, int] = field(default_factory=dict)
    flags: list[tuple[int, int]] = field(default_factory=list)
    keys: list[dict[int, int | bytes]] = field(default_factory=list)
    layouts: list[bytes] = field(default_factory=list)
    is_usual: bool = True

    def read(self, scope: int, body: bytes, *, is_part: bool = False) -> None:
        usual = {one.number: one for one in self.members if one.scope == scope}
        seen, layout = set(), b""
        place = 0
        if is_part:
            self.keys.append({})
        while place < len(body):
            tagged = _next(body, place)
            member = usual.get(tagged.number)
            if member is None:
                self.is_usual = False
            else:
                self.take(member, tagged.value)
                seen.add(tagged.number)
            if member is None or not member.uses & Use.FREE:
                layout += body[tagged.start : tagged.end]
            place = tagged.end
        self.is_usual &= all(n in seen for n, one in usual.items() if one.uses & Use.REQUIRED)
        if is_part:
            self.layouts.append(layout)

    def take(self, member: RecordMember, value: int | bytes | None) -> None:
        form = member.form
        is_number = form in (Form.NUMBER, Form.COLUMN, Form.CODE, Form.NUMBERS)
        is_bytes = form not in (Form.NUMBER, Form.COLUMN, Form.CODE)
        if isinstance(value, int) and is_number:
            if form == Form.COLUMN:
                self.columns[member.argument] = value
            self.is_usual &= form != Form.CODE or value <= member.argument
        elif isinstance(value, bytes) and is_bytes:
            if form in _PARTS:
                self.read(member.argument, value, is_part=form == Form.PART)
            self.is_usual &= self.are_usual(form, value)
        else:
            self.is_usual = False
            return
        self.flags.append((member.group, member.flags))
        self.is_usual &= not member.uses & Use.STRANGE
        if member.uses & Use.KEY:
            self.keys[-1][member.number] = value

    def are_usual(self, form: Form, value: bytes) -> bool:
        if form == Form.EMPTY:
            return not value
        if form == Form.NUMBERS:
            ends = [place for place, byte in enumerate(value, 1) if byte < 0x80]
            sizes = [
                end - start for start, end in zip([0, *ends], [*ends, len(value)], strict=True)
            ]
            return sizes[-1] == 0 and max(sizes) <= 10
        if form == Form.TEXT:
            try:
                text = value.decode()
            except UnicodeDecodeError:
                return False
            return bool(text) and not any(banned in text for banned in self.banned)
        return True


def _next(message: bytes, start: int) -> _Tagged:
    """Return the value at a place; raise DamagedError if there is none."""
    key, place = _varint(message, start)
    number, kind = key >> 3, key & 7
    if number == 0 or key >= 2**32:
        raise DamagedError
    value: int | bytes | None = None
    if kind == 0:
        value, place = _varint(message, place)
    elif kind == 1:
        place += 8
    elif kind == 2:
        size, place = _varint(message, place)
        value = message[place : place + size]
        place += size
    elif kind == 3:
        place = _end_of_group(message, place)
    elif kind == 5:
        place += 4
    else:
        raise DamagedError
    if place > len(message):
        raise DamagedError
    return _Tagged(number, value, start, place)


def _end_of_group(message: bytes, place: int) -> int:
    while True:
        key, end = _varint(message, place)
        if key & 7 == 4 and 8 <= key < 2**32:
            return end
        place = _next(message, place).end


def _varint(message: bytes, start: int) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(message[start : start + 10]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return found & (2**64 - 1), start + place + 1
    raise DamagedError


def tabulate_records(
    message: bytes, number: int, members: Sequence[RecordMember], banned: Sequence[str]
) -> list[Record]:
    """Return the records of a number; raise DamagedError if the message is none."""
    found, place = [], 0
    while place < len(message):
        tagged = _next(message, place)
        if tagged.number == number and isinstance(tagged.value, bytes):
            found.append(_record(tagged, members, banned))
        place = tagged.end
    return found


def _record(tagged: _Tagged, members: Sequence[RecordMember], banned: Sequence[str]) -> Record:
    reader = _Reader(members, banned)
    assert isinstance(tagged.value, bytes)
    try:
        reader.read(0, tagged.value)
    except DamagedError:
        reader.is_usual = False
    last = {group: flags for group, flags in reader.flags if group}
    flags = 0 if reader.is_usual and _differ(reader.keys) else ODD
    for one in (*last.values(), *(one for group, one in reader.flags if not group)):
        flags |= one
    return Record(tagged.start, tagged.end, reader.columns, flags, reader.layouts)


def _differ(keys: list[dict[int, int | bytes]]) -> bool:
    return not any(one == other for place, one in enumerate(keys) for other in keys[:place])
