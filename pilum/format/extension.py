"""The serialized form of Arrow extension types, which pyarrow shows of its own types to nobody.

Read from the C data interface: `struct ArrowSchema` begins with the pointers format, name and
metadata; metadata are an int32 count and then, for each key and each value, an int32 length and
the bytes.
"""

from __future__ import annotations

import ctypes
import struct
from typing import ClassVar

import pyarrow as pa

__all__ = ["extension_metadata"]

_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.restype = ctypes.c_void_p
_POINTER.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _ArrowSchema(ctypes.Structure):
    _fields_: ClassVar = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    ]


def extension_metadata(kind: pa.BaseExtensionType) -> bytes:
    """What `ARROW:extension:metadata` holds for a type."""
    capsule = pa.field("", kind).__arrow_c_schema__()
    address = _ArrowSchema.from_address(_POINTER(capsule, b"arrow_schema")).metadata
    place = address + 4
    texts = []
    for _ in range(2 * struct.unpack("=i", ctypes.string_at(address, 4))[0]):
        (size,) = struct.unpack("=i", ctypes.string_at(place, 4))
        texts.append(ctypes.string_at(place + 4, size))
        place += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True)).get(b"ARROW:extension:metadata", b"")
