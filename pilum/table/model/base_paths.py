"""Base paths: folders outside the table's own that hold some of its files.

    base 0    /tables/a              root of a table    /tables/a/data/x.lance
    base 3    s3://bucket/fast       plain folder       s3://bucket/fast/y.lance

A data or deletion file with a base id lies in that base. All other files lie in the table's own
folder. Ids begin at 0, so an id of 0 differs from a missing one. Source: docs/format/table.md,
"Base paths".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import table_pb2

__all__ = ["BasePath", "base_id_from_json", "free_base_id", "require_distinct", "with_new_bases"]

_MAX_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class BasePath:
    """A folder outside the table's own folder.

    Attributes:
        id: Number by which files refer to this folder.
        path: URI or path of the folder.
        is_dataset_root: Whether the folder is laid out like a table (`data`, `_deletions`,
            `_indices`); otherwise data files lie directly in it.
        name: Name of the base for users, None if it has none.
    """

    id: int
    path: str
    is_dataset_root: bool = False
    name: str | None = None

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> BasePath:
        """Read one base path of a manifest."""
        name = message.name if message.HasField("name") else None
        return cls(message.id, message.path, message.is_dataset_root, name)

    def to_proto(self) -> table_pb2.BasePath:
        """Return the manifest message of the base path."""
        return table_pb2.BasePath(
            id=self.id, name=self.name, is_dataset_root=self.is_dataset_root, path=self.path
        )


def free_base_id(bases: Iterable[BasePath], first: int = 0) -> int:
    """Return the smallest id from `first` on that no base uses."""
    taken = {base.id for base in bases}
    number = first
    while number in taken:
        number += 1
    return number


def base_id_from_json(value: Any) -> int | None:
    """Read the base id of a file; None means the table's own folder.

    Raises:
        ValueError: If the value is not a 32-bit number.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not 0 <= int(value) <= _MAX_ID:
        raise ValueError(f"base_id {value!r}")
    return int(value)


def with_new_bases(bases: tuple[BasePath, ...], new: Iterable[BasePath]) -> tuple[BasePath, ...]:
    """Return the bases of a table with new ones; a new id of 0 is replaced by a free one, from 1.

    Raises:
        InvalidInputError: If an id, a name or a path is already used.
    """
    for base in new:
        if not base.id:
            base = replace(base, id=free_base_id(bases, 1))
        for other in bases:
            is_named = base.name is not None and base.name == other.name
            if is_named or base.path == other.path or base.id == other.id:
                raise InvalidInputError(f"base path {base} clashes with {other}")
        bases = (*bases, base)
    return bases


def require_distinct(bases: Iterable[BasePath]) -> None:
    """Check that each id refers to a single place.

    Raises:
        CorruptFileError: If two bases share an id.
    """
    ids = [base.id for base in bases]
    if len(set(ids)) < len(ids):
        raise CorruptFileError(f"base paths share an id: {sorted(ids)}")
