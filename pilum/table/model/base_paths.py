"""Base paths: other folders that hold some files of a table.

    base 0    /tables/a              root of a table    /tables/a/data/x.lance
    base 3    s3://bucket/fast       plain folder       s3://bucket/fast/y.lance

A data or deletion file with a base id lies in that base, all others in the table's own folder. Ids
begin at 0, so that the presence of an id counts, not its value. Source: docs/format/table.md,
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
    """One other folder.

    Attributes:
        id: What files say to lie there.
        path: A URI or a path.
        is_dataset_root: Whether it has the folders of a table (`data`, `_deletions`, `_indices`);
            else data files lie directly in it.
        name: What users call it, None if it has no name.
    """

    id: int
    path: str
    is_dataset_root: bool = False
    name: str | None = None

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> BasePath:
        """Reads one entry of a manifest."""
        name = message.name if message.HasField("name") else None
        return cls(message.id, message.path, message.is_dataset_root, name)

    def to_proto(self) -> table_pb2.BasePath:
        """The entry of a manifest."""
        return table_pb2.BasePath(
            id=self.id, name=self.name, is_dataset_root=self.is_dataset_root, path=self.path
        )


def free_base_id(bases: Iterable[BasePath], first: int = 0) -> int:
    """The smallest id from `first` on that no base has."""
    taken = {base.id for base in bases}
    number = first
    while number in taken:
        number += 1
    return number


def base_id_from_json(value: Any) -> int | None:
    """Reads the base id of a file; None for a file in the table's own folder.

    Raises:
        ValueError: If it is no number of 32 bits.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not 0 <= int(value) <= _MAX_ID:
        raise ValueError(f"base_id {value!r}")
    return int(value)


def with_new_bases(bases: tuple[BasePath, ...], new: Iterable[BasePath]) -> tuple[BasePath, ...]:
    """The bases of a table with further ones; an id of 0 asks for one that is free, from 1.

    Raises:
        InvalidInputError: If an id, a name or a path is taken.
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
    """Checks that an id means one place.

    Raises:
        CorruptFileError: If it does not.
    """
    ids = [base.id for base in bases]
    if len(set(ids)) < len(ids):
        raise CorruptFileError(f"base paths share an id: {sorted(ids)}")
