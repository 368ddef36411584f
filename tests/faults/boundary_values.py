r"""Every field of a message, set to every boundary value: one change at a time, none left out.

    uint64       0 1 2 2^31-1 2^31 2^32-1 2^32 2^40 2^63-1 2^63 2^64-1, one less, one more
    int32        -2^31 -3 -2 -1 0 1 2 2^31-1, one less, one more
    string       "" "." "x" "../x" "a\0b", twice itself, cut, 4,096 characters; other types
    bytes        none, a zero, FF x 9, itself cut, itself twice
    message      none, an empty one
    repeated     none, without one element, one element twice, backwards, and each of the above

The walk follows the descriptor, so that a field that is added to the format is covered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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
_Apply = Callable[[Any], object]
_Edit = Callable[[list[Any]], list[Any]]


def _messages(message: Any, path: str, find: _Find) -> Iterator[tuple[str, _Find]]:
    """The message and all that are set below it, each with a way to find it in a copy."""
    yield path, find
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        if not field.is_repeated:
            yield from _messages(value, f"{path}{field.name}.", _below(find, field.name))
            continue
        for place, below in enumerate(value):
            found = _below(find, field.name, place)
            yield from _messages(below, f"{path}{field.name}[{place}].", found)


def _below(find: _Find, name: str, place: int | None = None) -> _Find:
    def found(whole: Any) -> Any:
        value = getattr(find(whole), name)
        return value if place is None else value[place]

    return found


def _changes(target: Any, field: Any) -> Iterator[tuple[str, _Apply]]:
    name = field.name
    if _is_map(field):
        yield from _map_changes(getattr(target, name), field)
    elif field.is_repeated:
        yield from _list_changes(getattr(target, name), field)
    elif field.message_type is not None:
        yield "none", partial(_clear, name=name)
        yield "empty", partial(_empty, name=name)
    else:
        if field.has_presence:
            yield "none", partial(_clear, name=name)
        for value in _values(field, getattr(target, name)):
            yield _shown(value), partial(_set, name=name, value=value)


def _clear(found: Any, *, name: str) -> None:
    found.ClearField(name)


def _empty(found: Any, *, name: str) -> None:
    found.ClearField(name)
    getattr(found, name).SetInParent()


def _set(found: Any, *, name: str, value: Any) -> None:
    setattr(found, name, value)


def _list_changes(items: Any, field: Any) -> Iterator[tuple[str, _Apply]]:
    is_message = field.message_type is not None
    for label, edit in _edits(len(items)):
        yield label, partial(_edit, name=field.name, edit=edit)
    for place in () if is_message else range(len(items)):
        for value in _values(field, items[place]):
            edit = partial(_with_item, place=place, value=value)
            yield f"[{place}] = {_shown(value)}", partial(_edit, name=field.name, edit=edit)
    if is_message:
        yield "an empty one more", partial(_add, name=field.name)
    for value in () if is_message else _values(field, None):
        edit = partial(_with_item, place=len(items), value=value)
        yield f"and {_shown(value)}", partial(_edit, name=field.name, edit=edit)


def _edits(count: int) -> Iterator[tuple[str, _Edit]]:
    yield "none", lambda items: []
    yield "backwards", lambda items: items[::-1]
    for place in range(count):
        yield f"without [{place}]", partial(_without_item, place=place)
        yield f"[{place}] twice", partial(_item_twice, place=place)


def _without_item(items: list[Any], *, place: int) -> list[Any]:
    return items[:place] + items[place + 1 :]


def _item_twice(items: list[Any], *, place: int) -> list[Any]:
    return [*items, items[place]]


def _with_item(items: list[Any], *, place: int, value: Any) -> list[Any]:
    return [*items[:place], value, *items[place + 1 :]]


def _edit(found: Any, *, name: str, edit: _Edit) -> None:
    changed = edit(list(getattr(found, name)))
    found.ClearField(name)
    getattr(found, name).extend(changed)


def _add(found: Any, *, name: str) -> None:
    getattr(found, name).add()


def _map_changes(items: Any, field: Any) -> Iterator[tuple[str, _Apply]]:
    members = field.message_type.fields_by_name
    if members["value"].message_type is not None:
        return
    for key in items:
        yield f"without {key!r}", partial(_drop_key, name=field.name, key=key)
        for value in _values(members["value"], items[key]):
            put = partial(_put, name=field.name, key=key, value=value)
            yield f"[{key!r}] = {_shown(value)}", put
    value = next(_values(members["value"], None))
    for key in _values(members["key"], None):
        yield f"[{_shown(key)}] too", partial(_put, name=field.name, key=key, value=value)


def _drop_key(found: Any, *, name: str, key: Any) -> None:
    del getattr(found, name)[key]


def _put(found: Any, *, name: str, key: Any, value: Any) -> None:
    getattr(found, name)[key] = value


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
