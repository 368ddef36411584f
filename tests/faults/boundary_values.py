"""Every field of a message, set to every boundary value: one change at a time, none left out.

    uint64       0 1 2 2^31-1 2^31 2^32-1 2^32 2^40 2^63-1 2^63 2^64-1, one less, one more
    int32        -2^31 -3 -2 -1 0 1 2 2^31-1, one less, one more
    string       "" "." "x" "../x" "a\\0b", twice itself, cut, 4,096 characters; other types
    bytes        none, a zero, FF x 9, itself cut, itself twice
    message      none, an empty one
    repeated     none, without one element, one element twice, backwards, and each of the above

The walk follows the descriptor, so that a field that is added to the format is covered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["Change", "boundary_changes"]

_WIDTHS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_NUMBERS = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
_NEGATIVE = [-1, -2, -3, -(2**31), -(2**63)]
_TEXTS = ["", ".", "x", "../x", "a\0b", "x" * 4096]
_TYPES = ["float", "uint32", "int64", "string", "struct", "list", "null", "dict:string:int8:false"]


@dataclass(frozen=True)
class Change:
    """One field of a message with one other value.

    Attributes:
        path: Names of the fields on the way, with the places of elements: `fragments[1].id`.
        kind: Type of the message and the field in it: `DataFragment.id`.
        value: What it becomes, for people.
        message: The whole message, changed.
    """

    path: str
    kind: str
    value: str
    message: Any


def boundary_changes(message: Message) -> Iterator[Change]:
    """Yields each change of one field to one boundary value, in a fixed order."""
    for path, find in _messages(message, "", lambda whole: whole):
        target = find(message)
        for field in target.DESCRIPTOR.fields:
            for value, change in _changes(target, field):
                copy = type(message)()
                copy.CopyFrom(message)
                change(find(copy))
                if copy != message:
                    kind = f"{target.DESCRIPTOR.name}.{field.name}"
                    yield Change(f"{path}{field.name}", kind, value, copy)


_Find = Callable[[Any], Any]


def _messages(message: Any, path: str, find: _Find) -> Iterator[tuple[str, _Find]]:
    """The message and all that are set below it, each with a way to find it in a copy."""
    yield path, find
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        name = field.name
        if not field.is_repeated:
            yield from _messages(
                value, f"{path}{name}.", lambda whole, name=name: getattr(find(whole), name)
            )
            continue
        for place, below in enumerate(value):
            yield from _messages(
                below,
                f"{path}{name}[{place}].",
                lambda whole, name=name, place=place: getattr(find(whole), name)[place],
            )


def _changes(target: Any, field: Any) -> Iterator[tuple[str, Callable[[Any], object]]]:
    name = field.name
    if _is_map(field):
        yield from _map_changes(getattr(target, name), field)
    elif field.is_repeated:
        yield from _list_changes(getattr(target, name), field)
    elif field.message_type is not None:
        yield "none", lambda found: found.ClearField(name)
        yield "empty", lambda found: (found.ClearField(name), getattr(found, name).SetInParent())
    else:
        if field.has_presence:
            yield "none", lambda found: found.ClearField(name)
        for value in _values(field, getattr(target, name)):
            yield _shown(value), lambda found, value=value: setattr(found, name, value)


def _list_changes(items: Any, field: Any) -> Iterator[tuple[str, Callable[[Any], object]]]:
    name = field.name

    def assign(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], object]:
        def apply(found: Any) -> None:
            changed = change(list(getattr(found, name)))
            found.ClearField(name)
            getattr(found, name).extend(changed)

        return apply

    yield "none", assign(lambda before: [])
    yield "backwards", assign(lambda before: before[::-1])
    for place in range(len(items)):
        yield f"without [{place}]", assign(lambda before, at=place: before[:at] + before[at + 1 :])
        yield f"[{place}] twice", assign(lambda before, at=place: [*before, before[at]])
        if field.message_type is None:
            for value in _values(field, items[place]):
                yield (
                    f"[{place}] = {_shown(value)}",
                    assign(
                        lambda before, at=place, value=value: [
                            *before[:at],
                            value,
                            *before[at + 1 :],
                        ]
                    ),
                )
    if field.message_type is not None:
        yield "an empty one more", lambda found: getattr(found, name).add()
    else:
        for value in _values(field, None):
            yield f"and {_shown(value)}", assign(lambda before, value=value: [*before, value])


def _map_changes(items: Any, field: Any) -> Iterator[tuple[str, Callable[[Any], object]]]:
    name, value_field = field.name, field.message_type.fields_by_name["value"]
    key_field = field.message_type.fields_by_name["key"]
    if value_field.message_type is not None:
        return
    for key in items:
        yield f"without {key!r}", lambda found, key=key: getattr(found, name).pop(key)
        for value in _values(value_field, items[key]):
            yield (
                f"[{key!r}] = {_shown(value)}",
                lambda found, key=key, value=value: getattr(found, name).__setitem__(key, value),
            )
    filler = next(_values(value_field, None))
    for key in _values(key_field, None):
        yield (
            f"[{_shown(key)}] too",
            lambda found, key=key: getattr(found, name).__setitem__(key, filler),
        )


def _values(field: Any, value: Any) -> Iterator[Any]:
    if field.type in _WIDTHS:
        low, high = _WIDTHS[field.type]
        near = [] if value is None else [value - 1, value + 1]
        found = [number for number in [*near, *_NUMBERS, *_NEGATIVE] if low <= number <= high]
        yield from dict.fromkeys(found)
    elif field.type == FieldDescriptor.TYPE_BOOL:
        yield from (True, False)
    elif field.type == FieldDescriptor.TYPE_ENUM:
        yield from [*field.enum_type.values_by_number, 99]
    elif field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        yield from (0.0, -1.0, float("inf"))
    elif field.type == FieldDescriptor.TYPE_STRING:
        texts = _TYPES if field.name == "logical_type" else []
        yield from dict.fromkeys([*_TEXTS, *texts, *([value * 2, value[:-1]] if value else [])])
    else:
        yield from dict.fromkeys(
            [b"", b"\0", b"\xff" * 9, *([value[:-1], value * 2] if value else [])]
        )


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:30]}… ({len(value)})"
