"""Parse the messages of the formats; damaged bytes are a CorruptFileError.

The implementations of protobuf differ in what they raise for text that is not UTF-8: the compiled
one a DecodeError, the one in pure Python a UnicodeDecodeError.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from pilum.errors import CorruptFileError

__all__ = ["PARSE_ERRORS", "has_unknown_members", "parse_message"]

PARSE_ERRORS = (DecodeError, UnicodeDecodeError)
"""What the parsers of protobuf raise for damaged bytes."""

_M = TypeVar("_M", bound=Message)


def parse_message(kind: type[_M], data: bytes, *where: str, what: str = "") -> _M:
    """Parse a message of a type.

    Args:
        kind: The type.
        data: The bytes of the message.
        where: Where they were found, for the error; innermost first.
        what: What they describe, for the error; by default, the type.

    Raises:
        CorruptFileError: If the bytes are no message of this type.
    """
    message: _M = kind()
    try:
        message.ParseFromString(data)
    except PARSE_ERRORS as error:
        raise CorruptFileError(
            f"{what or f'not a {kind.DESCRIPTOR.name}'}: {error}", *where
        ) from error
    return message


def has_unknown_members(message: Message) -> bool:
    """Return whether a message has members, at any depth, that its type does not know."""
    # The copy is measured once: in pure Python, discarding does not change a size that is known.
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())
