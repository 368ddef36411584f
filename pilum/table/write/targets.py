"""Targets of new data files: the table's own folder, or some of its base paths in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.storage.open import open_beside
from pilum.table.model.base_paths import BasePath
from pilum.table.model.names import data_path

__all__ = ["Target", "all_targets", "chosen_targets"]


@dataclass(frozen=True, slots=True)
class Target:
    """A place for new data files.

    Attributes:
        store: The folder.
        base_id: Id of the base path, None for the table's own folder.
        is_root: Whether the place has the folders of a table; otherwise, files lie directly in it.
    """

    store: Store
    base_id: int | None = None
    is_root: bool = True

    def path(self, file_name: str) -> str:
        """Return the path of a data file."""
        return data_path(file_name) if self.is_root else file_name


def chosen_targets(
    own: Store, bases: Sequence[BasePath], wanted: Sequence[str]
) -> tuple[Target, ...]:
    """Return the targets for base paths, given by name or path, in this order.

    Args:
        own: The table's own folder.
        bases: The base paths of the table.
        wanted: Names or paths; the table's own folder if there are none.

    Raises:
        InvalidInputError: If there is no such base path.
        UnsupportedFormatError: If there is no store for a base path.
    """
    known = {base.path: base for base in bases}
    known |= {base.name: base for base in bases if base.name is not None}
    for name in wanted:
        if name not in known:
            raise InvalidInputError(
                f"target_bases: no base path {name!r}; there are {sorted(known)}"
            )
    return tuple(_target(own, known[name]) for name in wanted) or (Target(own),)


def all_targets(own: Store, bases: Sequence[BasePath]) -> tuple[Target, ...]:
    """Return the table's own folder, then every base path.

    Raises:
        UnsupportedFormatError: If there is no store for a base path.
    """
    ordered = sorted(bases, key=lambda base: base.id)
    return (Target(own), *(_target(own, base) for base in ordered))


def _target(own: Store, base: BasePath) -> Target:
    return Target(open_beside(own, base.path), base.id, base.is_dataset_root)
