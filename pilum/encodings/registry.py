"""The registries of encodings since 2.1: how values are stored, and how pages are laid out.

A page is described by a `PageLayout` message. Its member names the structural layout, and the
messages within it name the compressive encodings of values and levels:

    layout_of(description)                     a layout with its encodings
      └─ MiniBlockLayout.from_proto            one of `structural/`
           └─ compressive_of(values)           one of `compressive/`; these may nest

`read_pages` reads rows of pages of any layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pilum.encodings.base import Children, Compressive, Decoded, Layout, PageRead
from pilum.encodings.compressive.bitpacking import InlineBitpacking, OutOfLineBitpacking
from pilum.encodings.compressive.byte_stream_split import ByteStreamSplit
from pilum.encodings.compressive.constant import Constant
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.packed_struct import PackedStruct
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.compressive.variable_packed_struct import VariablePackedStruct
from pilum.encodings.structural.blob import BlobLayout
from pilum.encodings.structural.constant import ConstantLayout
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.encodings.structural.mini_block import MiniBlockLayout, read_mini_blocks
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.storage.base import Plan, gather

__all__ = ["COMPRESSIVE", "compressive_of", "layout_of", "read_pages"]

COMPRESSIVE: tuple[type[Compressive], ...] = (
    Flat,
    Variable,
    InlineBitpacking,
    OutOfLineBitpacking,
    Rle,
    Fsst,
    General,
    FixedSizeList,
    ByteStreamSplit,
    Constant,
    PackedStruct,
    VariablePackedStruct,
)
_BY_ARM = {encoding.arm: encoding for encoding in COMPRESSIVE}


def compressive_of(message: pb.CompressiveEncoding) -> Compressive:
    """Parse the description of a compressive encoding; UnsupportedFormatError if it is unknown."""
    arm = message.WhichOneof("compression")
    if arm is None:
        raise CorruptFileError("a page without a description of its values")
    if arm not in _BY_ARM:
        raise UnsupportedFormatError(f"the compressive encoding {arm!r} is not supported")
    return _BY_ARM[arm].from_proto(getattr(message, arm), compressive_of)


def _sparse_layout(message: pb.PlanarLayout, version: FileVersion, children: Children) -> Layout:
    from pilum.encodings.structural.sparse import SparseLayout  # few files need it

    return SparseLayout.from_proto(message, version, children)


_LAYOUTS: dict[str, Callable[[Any, FileVersion, Children], Layout]] = {
    "mini_block_layout": MiniBlockLayout.from_proto,
    "full_zip_layout": FullZipLayout.from_proto,
    "constant_layout": ConstantLayout.from_proto,
    "blob_layout": BlobLayout.from_proto,
    "sparse_layout": _sparse_layout,
}


def layout_of(description: pb.PageLayout, version: FileVersion) -> Layout:
    """Build a layout from its description; raise UnsupportedFormatError if it is unknown."""
    arm = description.WhichOneof("layout")
    if arm is None:
        raise CorruptFileError("a page without a layout")
    if arm not in _LAYOUTS:
        raise UnsupportedFormatError(f"the structural layout {arm!r} is not supported")
    return _LAYOUTS[arm](getattr(description, arm), version, compressive_of)


def read_pages(pages: Sequence[PageRead]) -> Plan[list[Decoded]]:
    """Read rows of pages of one file; each round of requests is one."""
    together: list[PageRead] = []
    others: list[PageRead] = []
    for page in pages:
        (together if isinstance(page.layout, MiniBlockLayout) else others).append(page)
    if not others:
        return (yield from read_mini_blocks(pages))
    plans: list[Plan[Any]] = [_read_alone(page) for page in others]
    if not together:
        return (yield from gather(plans))
    plans.append(read_mini_blocks(together))
    *alone, joint = yield from gather(plans)
    found = dict(zip(map(id, (*others, *together)), (*alone, *joint), strict=True))
    return [found[id(page)] for page in pages]


def _read_alone(page: PageRead) -> Plan[Decoded]:
    with page.located():
        return (yield from page.layout.read(page))
