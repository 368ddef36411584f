"""Reject fields that files of version 2.0 cannot hold, before a byte is written."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.choose import is_packed
from pilum.encodings.v2_0.fixed_width import bits_of
from pilum.encodings.v2_0.packed_struct import packed_bytes
from pilum.errors import UnsupportedTypeError
from pilum.format.schema import Field

__all__ = ["require_storable"]


def require_storable(field: Field, path: str | None = None) -> None:
    """Raise an error if files of version 2.0 cannot hold a field.

    Raises:
        UnsupportedTypeError: If the field cannot be stored; the text names the field, and a version
        that can store it if there is one.
    """
    path = path or field.name
    kind = field.arrow_type
    if field.is_struct:
        _require_struct(field, path)
    elif pt.is_map(kind):
        raise _refused(path, kind, "files since version 2.2 can")
    elif field.is_list:
        require_storable(field.item, f"{path}.{field.item.name}")
    elif pt.is_dictionary(kind):
        if bits_of(kind.value_type) is None and kind.value_type.id not in OFFSET_BITS:
            raise _refused(path, kind, "no version stores dictionaries of nested values")
    elif pt.is_fixed_size_list(kind):
        _require_items(kind, path)
    elif bits_of(kind) is None and kind.id not in OFFSET_BITS and not pt.is_null(kind):
        raise _refused(path, kind, "write another type")


def _require_struct(field: Field, path: str) -> None:
    if not field.children:
        raise _refused(path, field.arrow_type, "give the struct a member")
    if not is_packed(field.metadata):
        for child in field.children:
            require_storable(child, f"{path}.{child.name}")
        return
    for child in field.children:
        if packed_bytes(child.arrow_type) is None:
            raise _refused(
                f"{path}.{child.name}", child.arrow_type, "packed structs hold whole bytes only"
            )


def _require_items(kind: pa.DataType, path: str) -> None:
    item = kind
    while pt.is_fixed_size_list(item):
        item = item.value_type
    if bits_of(item) is None and not pt.is_null(item):
        advice = "files since version 2.2 can" if pt.is_struct(item) else "use a list"
        raise _refused(path, kind, advice)


def _refused(path: str, kind: pa.DataType, advice: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {path!r}: files of version 2.0 cannot hold {kind}; {advice}"
    )
