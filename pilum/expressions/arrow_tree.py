"""The tree of an Arrow expression, which Arrow shows only in the form in which it is pickled.

    pickled         an Arrow IPC file without rows to speak of: a column for each literal and option
    its metadata    call greater | field_ref a | literal 0 | end greater        a > column 0

The entries of the metadata are in pre-order, and keys repeat. PyArrow returns them as a dictionary
without repetitions, so they are read from the footer of the file, a FlatBuffer. Source: Arrow, "IPC
format" (`Footer`, `Schema`, `KeyValue`), and the entries that expressions of each kind have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ArrowCall", "ArrowField", "ArrowNode", "ArrowValue", "arrow_tree"]

_SCHEMA_OF_FOOTER, _METADATA_OF_SCHEMA = 1, 2
_KEY, _VALUE = 0, 1
_TAIL_BYTES = len(b"ARROW1")


@dataclass(frozen=True, slots=True)
class ArrowNode:
    """Base of the nodes."""


@dataclass(frozen=True, slots=True)
class ArrowField(ArrowNode):
    """A column, or a member of a struct column.

    Attributes:
        path: The name of the column, then of each member below it.
    """

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrowValue(ArrowNode):
    """A constant."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class ArrowCall(ArrowNode):
    """A function of Arrow.

    Attributes:
        name: Name of the function.
        arguments: Its arguments.
        options: Its options by name.
    """

    name: str
    arguments: tuple[ArrowNode, ...]
    options: dict[str, Any]


def arrow_tree(expression: pc.Expression) -> ArrowNode | None:
    """Return the tree of an expression; None if it has a part that cannot be read."""
    try:
        [pickled] = expression.__reduce__()[1]
        data = memoryview(pickled)
        columns = pa.ipc.open_file(pickled).read_all().columns
        entries = iter(list(_entries(data.cast("B"))))
        tree = _node(next(entries), entries, [column[0] for column in columns])
    except (pa.ArrowException, struct.error, ValueError, IndexError, StopIteration, KeyError):
        return None
    return tree if next(entries, None) is None else None


def _node(
    entry: tuple[str, str], entries: Iterator[tuple[str, str]], values: list[pa.Scalar]
) -> ArrowNode:
    match entry:
        case "literal", place:
            return ArrowValue(values[int(place)])
        case "field_ref", name:
            return ArrowField((name,))
        case "nested_field_ref", count:
            return ArrowField(tuple(_name(next(entries)) for _ in range(int(count))))
        case "call", function:
            arguments, options = [], {}
            while (below := next(entries)) != ("end", function):
                if below[0] == "options":
                    options = dict(values[int(below[1])].items())
                else:
                    arguments.append(_node(below, entries, values))
            return ArrowCall(function, tuple(arguments), options)
    raise ValueError(f"an entry {entry}")


def _name(entry: tuple[str, str]) -> str:
    key, name = entry
    if key != "field_ref":
        raise ValueError(f"an entry {entry} in the place of a name")
    return name


def _entries(data: memoryview) -> Iterator[tuple[str, str]]:
    """Yield the metadata of the schema of an IPC file."""
    (size,) = struct.unpack_from("<i", data, len(data) - _TAIL_BYTES - 4)
    footer = data[len(data) - _TAIL_BYTES - 4 - size :]
    schema = _followed(footer, _field(footer, _followed(footer, 0), _SCHEMA_OF_FOOTER))
    listed = _followed(footer, _field(footer, schema, _METADATA_OF_SCHEMA))
    (count,) = struct.unpack_from("<I", footer, listed)
    for number in range(count):
        entry = _followed(footer, listed + 4 + 4 * number)
        yield (
            _text(footer, _field(footer, entry, _KEY)),
            _text(footer, _field(footer, entry, _VALUE)),
        )


def _field(data: memoryview, table: int, number: int) -> int:
    """Return where a field of a table is stored."""
    (back,) = struct.unpack_from("<i", data, table)
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * number)
    if not offset:
        raise ValueError(f"a table without field {number}")
    return table + int(offset)


def _followed(data: memoryview, place: int) -> int:
    """Return the place to which an offset leads."""
    (offset,) = struct.unpack_from("<I", data, place)
    return place + int(offset)


def _text(data: memoryview, place: int) -> str:
    start = _followed(data, place)
    (size,) = struct.unpack_from("<I", data, start)
    return bytes(data[start + 4 : start + 4 + size]).decode()
