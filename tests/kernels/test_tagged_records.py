"""Records are tabulated as a naive version does it, whole and damaged ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels.record_members import ODD, Form, RecordMember, Use
from pilum.kernels.reference_records import DamagedError, Record, tabulate_records

NUMBER = 3
BANNED = ["..", "ä"]
MEMBERS = [
    RecordMember(0, 1, Form.COLUMN, argument=1),
    RecordMember(0, 2, Form.PART, Use.REQUIRED, argument=2),
    RecordMember(0, 3, Form.RECORD, flags=2, argument=1),
    RecordMember(0, 4, Form.BYTES, flags=4, group=1),
    RecordMember(0, 5, Form.EMPTY, flags=12, group=1),
    RecordMember(0, 6, Form.EMPTY, flags=16, group=7),
    RecordMember(0, 20, Form.BYTES, Use.STRANGE, flags=64),
    RecordMember(1, 1, Form.CODE, argument=2),
    RecordMember(1, 2, Form.COLUMN, argument=0),
    RecordMember(1, 3, Form.RECORD, flags=32, argument=3),
    RecordMember(2, 1, Form.TEXT, Use.FREE | Use.KEY | Use.REQUIRED),
    RecordMember(2, 2, Form.NUMBERS),
    RecordMember(2, 3, Form.NUMBER, Use.FREE),
    RecordMember(2, 4, Form.NUMBER, Use.KEY),
    RecordMember(3, 1, Form.NUMBER, Use.REQUIRED),
]
CODES = st.integers(0, 3) | st.integers(0, 2**64 - 1)


def varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def of_bytes(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


@st.composite
def values(draw: st.DrawFn, member: RecordMember) -> bytes:
    """Returns a value that is usual for a member, most of the time."""
    number, form = member.number, member.form
    if form in (Form.RECORD, Form.PART):
        return of_bytes(number, draw(bodies(member.argument)))
    if form in (Form.NUMBER, Form.COLUMN, Form.CODE) or (
        form == Form.NUMBERS and draw(st.booleans())
    ):
        return varint(number << 3) + varint(draw(CODES))
    if form == Form.NUMBERS:
        packed = [varint(one) for one in draw(st.lists(CODES, max_size=3))]
        return of_bytes(number, b"".join(packed))
    if form == Form.TEXT:
        return of_bytes(number, draw(st.sampled_from(("a", "b", "", "a..b", "ö", "ä"))).encode())
    size = 1 if form == Form.EMPTY else 2
    return of_bytes(number, draw(st.just(b"") | st.binary(max_size=size)))


@st.composite
def bodies(draw: st.DrawFn, scope: int) -> bytes:
    """Returns some values of a scope, in any order, and at times one that is none of its own."""
    own = [member for member in MEMBERS if member.scope == scope]
    wanted = [one for one in own if one.uses & Use.REQUIRED and draw(st.integers(0, 9))]
    wanted += draw(st.lists(st.sampled_from(own), max_size=4))
    found = [draw(values(member)) for member in wanted]
    found += draw(
        st.sampled_from(([],) * 9 + ([b"\x7b\x08\x01\x7c"], [b"\x25abcd"], [b"\xf8\xff\x01\x05"]))
    )
    return b"".join(draw(st.permutations(found)))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    records = [of_bytes(NUMBER, body) for body in draw(st.lists(bodies(0), max_size=4))]
    others = [of_bytes(1, b"ab"), varint(NUMBER << 3) + b"\5", b"\x09abcdefgh"]
    found = bytearray(
        b"".join(
            draw(st.permutations([*records, *draw(st.lists(st.sampled_from(others), max_size=2))]))
        )
    )
    for _ in range(draw(st.sampled_from((0, 0, 1, 3)))):
        if found:
            found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found)


def tabulated(message: bytes, members: list[RecordMember] = MEMBERS) -> Any:
    rows = np.array(members, np.int64).reshape(len(members), 7)
    return kernels.RecordDescription(NUMBER, rows, BANNED).tabulate(message)


def samples_of(records: list[Record]) -> list[int]:
    known: set[bytes] = set()
    found = []
    for place, record in enumerate(records):
        if not known.issuperset(record.layouts):
            found.append(place)
            known.update(record.layouts)
    return found


@given(messages())
def test_records_are_those_of_the_naive_version(message: bytes) -> None:
    try:
        expected = tabulate_records(message, NUMBER, MEMBERS, BANNED)
    except DamagedError:
        with pytest.raises(CorruptFileError):
            tabulated(message)
        return
    starts, ends, columns, flags, samples = tabulated(message)
    assert starts.tolist() == [one.start for one in expected]
    assert ends.tolist() == [one.end for one in expected]
    assert [one.tolist() for one in columns] == [
        [one.columns.get(column, 0) for one in expected] for column in range(2)
    ]
    assert flags.tolist() == [one.flags for one in expected]
    assert samples.tolist() == samples_of(expected)


def test_records_without_described_members() -> None:
    empty, other = of_bytes(NUMBER, b""), of_bytes(NUMBER, b"\x08\x01")
    starts, ends, columns, flags, samples = tabulated(empty + other, [])
    assert (starts.tolist(), ends.tolist()) == ([0, 2], [2, 6])
    assert (columns, flags.tolist(), samples.tolist()) == ([], [0, ODD], [])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([RecordMember(0, 256, Form.NUMBER)], "number of a member: expected less than 256"),
        ([RecordMember(0, 1, Form.RECORD)], "scope inside a scope: expected a greater one"),
        ([RecordMember(0, 1, Form.NUMBER, Use.KEY)], "scope of a key"),
        ([RecordMember(0, 1, Form.NUMBER)] * 2, "members of one number: expected 1, found 2"),
        ([RecordMember(-1, 1, Form.NUMBER)], "a negative size"),
    ],
)
def test_impossible_descriptions_are_refused(members: list[RecordMember], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tabulated(b"", members)
