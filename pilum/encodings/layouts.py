"""The registry of structural layouts, by the member of the protobuf oneof that names them.

`read_pages` reads rows of pages of any layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pilum.encodings.base import Decoded, Layout, PageRead
from pilum.encodings.structural.blob import BlobLayout
from pilum.encodings.structural.constant import ConstantLayout
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.encodings.structural.mini_block import MiniBlockLayout, read_mini_blocks
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.storage.base import Plan, gather

__all__ = ["layout_of", "read_pages"]

_LAYOUTS: dict[str, Callable[[Any, FileVersion], Layout]] = {
    "mini_block_layout": MiniBlockLayout.from_proto,
    "full_zip_layout": FullZipLayout.from_proto,
    "constant_layout": ConstantLayout.from_proto,
    "blob_layout": BlobLayout.from_proto,
}


def layout_of(description: pb.PageLayout, version: FileVersion) -> Layout:
    """Build a layout from its description; raise UnsupportedFormatError if it is unknown."""
    arm = description.WhichOneof("layout")
    if arm is None:
        raise CorruptFileError("a page without a layout")
    if arm not in _LAYOUTS:
        raise UnsupportedFormatError(f"the structural layout {arm!r} is not supported")
    return _LAYOUTS[arm](getattr(description, arm), version)


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
