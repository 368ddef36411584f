"""Describe a page in words, without reading its buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilum.encodings.base import StoredPage
from pilum.encodings.notation import encoding_text
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["PageDescription", "describe_page"]


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


def describe_page(layout: pb.PageLayout, stored: StoredPage) -> PageDescription:
    """Describe a page in words."""
    arm = layout.WhichOneof("layout")
    if arm == "mini_block_layout":
        return _mini_block(layout.mini_block_layout)
    if arm == "full_zip_layout":
        return _full_zip(layout.full_zip_layout)
    if arm == "constant_layout":
        return _constant(layout.constant_layout, stored)
    if arm == "blob_layout":
        inner = describe_page(layout.blob_layout.inner_layout, stored)
        return replace(inner, layout=f"blob, {inner.layout}")
    return PageDescription(arm or "unknown", "", stored.num_rows)


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


def _constant(page: pb.ConstantLayout, stored: StoredPage) -> PageDescription:
    one_value = page.HasField("inline_value") or len(stored.buffers) % 2 == 1
    encoding = "one value" if one_value else "no value"
    return PageDescription("constant", encoding, stored.num_rows, levels=_level_text(page))


def _level_text(page: pb.MiniBlockLayout | pb.ConstantLayout) -> str:
    parts = []
    if page.HasField("rep_compression"):
        parts.append(f"repetition {encoding_text(page.rep_compression)}")
    if page.HasField("def_compression"):
        parts.append(f"definition {encoding_text(page.def_compression)}")
    return ", ".join(parts)
