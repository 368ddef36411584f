"""Descriptions of encodings in a line of text: `general(zstd, byte_stream_split(flat(32)))`."""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pilum.format.pb import encodings20_pb2 as pb20
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["encoding_text"]

_OF_ONE_PAGE = {"null_adjustment", "null_offset_adjustment", "num_items"}


def encoding_text(encoding: pb.CompressiveEncoding | pb20.ArrayEncoding) -> str:
    """Return the text of an encoding with its parameters and inner encodings.

    Symbol tables, buffer counts and parameters that differ from page to page are left out.
    """
    (oneof,) = encoding.DESCRIPTOR.oneofs
    arm = encoding.WhichOneof(oneof.name)
    if arm is None:
        return "nothing"
    inner = _parts(getattr(encoding, arm))
    return f"{arm}({', '.join(inner)})" if inner else arm


def _parts(message: Message) -> list[str]:
    parts: list[str] = []
    for field, value in message.ListFields():
        if field.name in _OF_ONE_PAGE:
            continue
        for one in value if hasattr(value, "append") else [value]:
            parts.extend(_part(field, one))
    return parts


def _part(field: FieldDescriptor, value: object) -> list[str]:
    if isinstance(value, pb.CompressiveEncoding | pb20.ArrayEncoding):
        return [encoding_text(value)]
    if isinstance(value, pb20.Buffer):
        return []
    if isinstance(value, bool):
        return [field.name]
    if isinstance(value, Message):
        return _parts(value)
    if isinstance(value, bytes):
        return []
    if field.enum_type is not None:
        return [field.enum_type.values_by_number[value].name.lower()]
    return [str(value)]
