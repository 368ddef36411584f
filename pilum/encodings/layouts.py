"""The registry of structural layouts, by the member of the protobuf oneof that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilum.encodings.page import Page, StoredPage
from pilum.encodings.structural.blob import BlobPage
from pilum.encodings.structural.constant import ConstantPage
from pilum.encodings.structural.full_zip import FullZipPage
from pilum.encodings.structural.mini_block import MiniBlockPage
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion

__all__ = ["page_of"]

_LAYOUTS: dict[str, Callable[[Any, StoredPage, FileVersion], Page]] = {
    "mini_block_layout": MiniBlockPage.from_proto,
    "full_zip_layout": FullZipPage.from_proto,
    "constant_layout": ConstantPage.from_proto,
    "blob_layout": BlobPage.from_proto,
}


def page_of(layout: pb.PageLayout, stored: StoredPage, version: FileVersion) -> Page:
    """Build a page from its description.

    Raises:
        CorruptFileError: If the description is empty or contradicts the format.
        UnsupportedFormatError: If the layout is unknown.
    """
    arm = layout.WhichOneof("layout")
    if arm is None:
        raise CorruptFileError("a page without a layout")
    if arm not in _LAYOUTS:
        raise UnsupportedFormatError(f"the structural layout {arm!r} is not supported")
    return _LAYOUTS[arm](getattr(layout, arm), stored, version)
