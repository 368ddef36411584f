"""A naive twin of the kernels for JSON; see `pilum.kernels.reference`.

A container is a big-endian word of kind and count, one word of kind and size per entry, and the
entries. Objects begin with the words of their sorted keys, followed by those of their values.
"""

from __future__ import annotations

import json
import struct
from typing import Any

__all__ = ["binary_json"]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = (kind << 28 for kind in range(6))


def binary_json(text: str) -> bytes:
    """Return the binary form of a JSON text."""
    value = json.loads(text)
    if isinstance(value, list | dict):
        return _container(value)
    return _joined(_SCALAR, 0, [_entry(value)])


def _container(value: list[Any] | dict[str, Any]) -> bytes:
    if isinstance(value, list):
        return _joined(_ARRAY, len(value), [_entry(item) for item in value])
    keys = sorted(value, key=str.encode)
    entries = [*map(_entry, keys), *(_entry(value[key]) for key in keys)]
    return _joined(_OBJECT, len(value), entries)


def _joined(kind: int, count: int, entries: list[tuple[int, bytes]]) -> bytes:
    words = [kind | count, *(code | len(data) for code, data in entries)]
    return struct.pack(f">{len(words)}I", *words) + b"".join(data for _, data in entries)


def _entry(value: Any) -> tuple[int, bytes]:
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return (_TRUE if value else _FALSE), b""
    if isinstance(value, str):
        return _STRING, value.encode()
    if isinstance(value, list | dict):
        return _CONTAINER, _container(value)
    return _NUMBER, _number(value)


def _number(value: int | float) -> bytes:  # noqa: PYI041 - they differ here
    if not isinstance(value, int) or not -(2**63) <= value < 2**64:
        return b"\x60" + struct.pack(">d", value)
    if value == 0:
        return b"\x00"
    tag, codes = (b"\x50", "BHIQ") if value > 0 else (b"\x40", "bhiq")
    for code in codes:
        try:
            return tag + struct.pack(f">{code}", value)
        except struct.error:
            continue
    raise AssertionError(value)
