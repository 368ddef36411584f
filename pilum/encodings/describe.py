"""Describe encodings in a line, `general(zstd, flat(32))`, and pages without their buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pilum.format.pb import encodings20_pb2 as pb20
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["PageDescription", "describe_page", "encoding_text"]

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


@dataclass(frozen=True, slots=True)
class PageDescription:
    """The description of a page in words.

    Attributes:
        layout: "mini-block", "full-zip", "constant" or "blob", followed by the layout of the
            places.
        encoding: Encoding of the values.
        num_values: Number of value slots, including nulls.
        dictionary: Encoding and number of its values; empty without one.
        levels: How repetition and definition are stored; empty without any.
    """

    layout: str
    encoding: str
    num_values: int
    dictionary: str = ""
    levels: str = ""


def describe_page(layout: pb.PageLayout, num_rows: int, num_buffers: int) -> PageDescription:
    """Describe a page in words."""
    arm = layout.WhichOneof("layout")
    if arm == "mini_block_layout":
        return _mini_block(layout.mini_block_layout)
    if arm == "full_zip_layout":
        return _full_zip(layout.full_zip_layout)
    if arm == "constant_layout":
        return _constant(layout.constant_layout, num_rows, num_buffers)
    if arm == "blob_layout":
        inner = describe_page(layout.blob_layout.inner_layout, num_rows, num_buffers)
        return replace(inner, layout=f"blob, {inner.layout}")
    return PageDescription(arm or "unknown", "", num_rows)


def _mini_block(page: pb.MiniBlockLayout) -> PageDescription:
    dictionary = ""
    if page.HasField("dictionary"):
        dictionary = f"{page.num_dictionary_items} values as {encoding_text(page.dictionary)}"
    encoding = encoding_text(page.value_compression)
    levels = _level_text(page)
    return PageDescription("mini-block", encoding, page.num_items, dictionary, levels)


def _full_zip(page: pb.FullZipLayout) -> PageDescription:
    bits = {"repetition": page.bits_rep, "definition": page.bits_def}
    levels = ", ".join(f"{kind} in {width} bits" for kind, width in bits.items() if width)
    encoding = encoding_text(page.value_compression)
    return PageDescription("full-zip", encoding, page.num_visible_items, levels=levels)


def _constant(page: pb.ConstantLayout, num_rows: int, num_buffers: int) -> PageDescription:
    one_value = page.HasField("inline_value") or num_buffers % 2 == 1
    encoding = "one value" if one_value else "no value"
    return PageDescription("constant", encoding, num_rows, levels=_level_text(page))


def _level_text(page: pb.MiniBlockLayout | pb.ConstantLayout) -> str:
    parts = []
    if page.HasField("rep_compression"):
        parts.append(f"repetition {encoding_text(page.rep_compression)}")
    if page.HasField("def_compression"):
        parts.append(f"definition {encoding_text(page.def_compression)}")
    return ", ".join(parts)
