"""The path from a top-level field to each of its leaves, and what the fields on it require.

A file has one column per leaf, so whatever a type requires of a file is required on such a path. On
paths through fixed-size lists of structs, columns count *elements*: a row of `fixed_size_list[2]`
of `fixed_size_list[3]` (with structs in between) is 6 of them. Source:
docs/format/encodings-2.1.md, "Fixed-size lists of structs".
"""

from __future__ import annotations

from math import prod
from typing import TypeAlias

from pilum.errors import CorruptFileError, UnsupportedFormatError, UnsupportedTypeError
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

__all__ = ["LeafPath", "elements_per_row", "nullable_above_lists", "require_storable"]

LeafPath: TypeAlias = tuple[Field, ...]

_MAX_ELEMENTS = 2**31


def elements_per_row(path: LeafPath) -> int:
    """Return how many elements of its column a row has; 1 without fixed-size lists of structs.

    Raises:
        UnsupportedFormatError: If there are fixed-size lists of structs within lists, whose levels
            no reader can distinguish.
        CorruptFileError: If the sizes of the lists exceed all bounds.
    """
    elements = prod(field.list_size or 1 for field in path)
    if elements >= _MAX_ELEMENTS:
        raise CorruptFileError(f"field {path[0].name!r}: {elements} elements per row")
    if _list_above(path) is not None:
        raise UnsupportedFormatError(
            f"column {path[0].name!r}: fixed-size lists of structs within lists are not supported"
        )
    return elements


def nullable_above_lists(path: LeafPath) -> tuple[bool, ...]:
    """Return, for each field, whether its items may be null and contain lists of either kind.

    The outer-most is first; the result is empty if there is no such field.
    """
    if len(path) == 1:
        return ()
    found, holds_lists = [], False
    for field in reversed(path):
        holds_lists = holds_lists or field.list_size is not None
        found.append(field.nullable and holds_lists and not field.is_list)
        holds_lists = holds_lists or field.is_list
    return tuple(reversed(found)) if any(found) else ()


def require_storable(schema: Schema, version: FileVersion) -> None:
    """Raise UnsupportedTypeError if files of a version cannot hold the fields.

    The text names the column and the version that could.
    """
    for field in schema.fields:
        for path in field.leaf_paths() if field.children else ():
            _require_storable(path, version)


def _require_storable(path: LeafPath, version: FileVersion) -> None:
    for depth, field in enumerate(path):
        if (field.is_map or field.list_size is not None) and not version.has_maps:
            what = "maps" if field.is_map else "fixed-size lists of structs"
            raise UnsupportedTypeError(
                f"column {_name(path, depth)!r}: {what} need files of version 2.2, "
                f"and these are of version {version}; write with data_storage_version='2.2'"
            )
        if field.list_size is not None and any(inner.is_list for inner in path[depth:]):
            raise UnsupportedTypeError(
                f"column {_name(path, depth)!r}: no file version can store fixed-size lists of "
                "structs with lists or maps in them; use a list instead of the fixed-size one"
            )
    within = _list_above(path)
    if within is not None:
        raise UnsupportedTypeError(
            f"column {_name(path, within)!r}: no file version can store fixed-size lists of "
            "structs within lists or maps; use a list instead of the fixed-size one"
        )


def _list_above(path: LeafPath) -> int | None:
    """Return the depth of the first fixed-size list of structs within a list."""
    in_list = False
    for depth, field in enumerate(path):
        if in_list and field.list_size is not None:
            return depth
        in_list = in_list or field.is_list
    return None


def _name(path: LeafPath, depth: int) -> str:
    return ".".join(field.name for field in path[: depth + 1])
