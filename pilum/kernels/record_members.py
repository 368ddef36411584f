"""Describe the members of records to `RecordDescription`.

    member    scope ┃ number ┃ form ┃ uses ┃ flags ┃ group ┃ argument

`rust/kernels/src/record_description.rs` reads these rows.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

__all__ = ["ODD", "Form", "RecordMember", "Use"]

ODD = 1
"""The flag of a record that is not as described."""


class Form(IntEnum):
    """The values that are usual for a member."""

    NUMBER = 0
    COLUMN = 1  # a number for the column of this index
    CODE = 2  # a number that is at most this
    NUMBERS = 3  # a number, or bytes that are nothing but varints
    BYTES = 4
    EMPTY = 5  # bytes of which there are none
    TEXT = 6  # UTF-8, not empty and without the banned texts
    RECORD = 7  # an inner record of this scope
    PART = 8  # one of several parts, of this scope


class Use(IntFlag):
    """The uses of a member."""

    FREE = 1  # no part of the layout of its part
    KEY = 2  # a part of the key in which the parts of a record differ
    REQUIRED = 4
    STRANGE = 8  # its presence makes the record odd


class RecordMember(NamedTuple):
    """A member that records may have.

    Attributes:
        scope: 0 for a member of the record, a greater one for what is inside it.
        number: Its number.
        form: The values that are usual for it.
        uses: Its uses (`Use`).
        flags: The flags of a record that has it.
        group: Only the last member of a group sets its flags; 0 for none.
        argument: A scope, a column or the greatest value, as the form says.
    """

    scope: int
    number: int
    form: Form
    uses: int = 0
    flags: int = 0
    group: int = 0
    argument: int = 0
