"""Protobuf messages, wrong in one place: a number, a branch of a oneof, an element too many."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["mutate_message"]

_NUMBERS = [0, 1, 2, 3, 7, 8, 16, 31, 33, 64, 65, 255, 1024, 2**15, 2**31 - 1, 2**31, 2**32 - 1]
_LARGE = [2**39, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
_MANY = 2000
_BITS = {"int32": (32, True), "uint32": (32, False), "int64": (64, True), "uint64": (64, False)}


def mutate_message(message: Any, source: random.Random) -> None:
    """Changes one field of the message or of one below it."""
    target = source.choice(list(_messages(message)))
    fields = [field for field in target.DESCRIPTOR.fields if not _is_map(field)]
    if not fields:
        return
    present = [field for field, _ in target.ListFields() if not _is_map(field)]
    field = source.choice(present if present and source.random() < 0.7 else fields)
    if field.is_repeated:
        _repeated(getattr(target, field.name), field, source)
    elif field.message_type is not None:
        _message(target, field, source)
    else:
        setattr(target, field.name, _value(field, getattr(target, field.name), source))


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for below in value if field.is_repeated else [value]:
            yield from _messages(below)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _repeated(items: Any, field: Any, source: random.Random) -> None:
    way = source.randrange(4)
    if way == 0 and len(items):
        del items[source.randrange(len(items))]
    elif way == 1 and len(items):
        chosen = items[source.randrange(len(items))]
        items.extend([chosen] * source.choice([1, 2, 20, _MANY]))
    elif way == 2 and len(items) > 1:
        one, other = source.randrange(len(items)), source.randrange(len(items))
        kept = [items[other] if at == one else item for at, item in enumerate(items)]
        del items[:]
        items.extend(kept)
    elif field.message_type is None:
        at = source.randrange(len(items) + 1)
        value = _value(field, items[at] if at < len(items) else None, source)
        items.append(value) if at == len(items) else items.__setitem__(at, value)
    else:
        items.add()


def _message(target: Any, field: Any, source: random.Random) -> None:
    way = source.randrange(3)
    if way == 0:
        target.ClearField(field.name)
    elif way == 1:
        getattr(target, field.name).SetInParent()
    else:  # a description in itself, or the one of something else
        donors = [below for below in _messages(target) if below.DESCRIPTOR is field.message_type]
        if donors:
            copy = type(donors[0]).FromString(source.choice(donors).SerializeToString())
            getattr(target, field.name).CopyFrom(copy)


def _value(field: Any, value: Any, source: random.Random) -> Any:
    kind = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool"}
    kind |= {9: "string", 12: "bytes", 13: "uint32", 14: "enum"}
    name = kind.get(field.type, "uint32")
    if name == "bool":
        return not value
    if name in ("double", "float"):
        return source.choice([0.0, -1.0, 1e300, float("nan")]) if name == "double" else 0.0
    if name == "string":
        return source.choice(["", "x", "struct", "list", "int32", "string", "x" * 5000])
    if name == "bytes":
        out = bytearray(value or b"\0")
        out[source.randrange(len(out))] ^= 1 << source.randrange(8)
        return bytes(out)
    if name == "enum":
        return source.choice([*field.enum_type.values_by_number, 99])
    bits, signed = _BITS[name]
    near = [(value or 0) + step for step in (-1, 1, 8)]
    number = source.choice([*near, *_NUMBERS, *_LARGE]) % 2**bits
    return number - 2**bits if signed and number >= 2 ** (bits - 1) else number
