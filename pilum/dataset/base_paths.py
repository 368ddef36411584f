"""Base paths of a dataset: other folders that contain some of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.model.base_paths import BasePath, with_new_bases
from pilum.table.model.places import own_store
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.write import Target, all_targets, chosen_targets

__all__ = ["BaseRequest", "DatasetBasePath", "bases_to_commit"]


@dataclass(frozen=True)
class DatasetBasePath:
    """A folder outside a table that may contain some of its data files.

    Attributes:
        path: A URI or an absolute path.
        name: Its name; None if it has none.
        is_dataset_root: Whether it has the folder structure of a table. If not, it contains data
            files directly.
        id: Id, unique in the table; None to have one assigned.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    @classmethod
    def from_table(cls, base: BasePath) -> DatasetBasePath:
        """Convert a manifest entry to its public form."""
        return cls(base.path, base.name, base.is_dataset_root, base.id)


@dataclass(frozen=True)
class BaseRequest:
    """The base paths that a write goes to.

    Attributes:
        initial: Base paths of a new table.
        targets: Names or paths of the base paths that data files are written to, in turn; None for
            the table's own folder.
        all_targets: Whether data files are written, in turn, to the table's own folder and to every
            base path.
    """

    initial: tuple[BasePath, ...] = ()
    targets: tuple[str, ...] = ()
    all_targets: bool = False

    def __post_init__(self) -> None:
        if self.all_targets and self.targets:
            raise InvalidInputError("pass target_bases or target_all_bases, not both")

    def chosen(self, store: Store, bases: tuple[BasePath, ...]) -> tuple[Target, ...]:
        """Return the places for new data files of a table with these base paths."""
        if self.all_targets:
            return all_targets(own_store(store), bases)
        return chosen_targets(own_store(store), bases, self.targets)

    def known(self, snapshot: Snapshot | None) -> tuple[BasePath, ...]:
        """Return the base paths that the table has, or will have once it is created.

        Raises:
            InvalidInputError: If base paths are given for a table that exists, or if they clash.
        """
        if snapshot is None:
            return with_new_bases((), self.initial)
        if self.initial:
            raise InvalidInputError(
                f"initial_bases: there is a table at {snapshot.store.uri} already; use add_bases"
            )
        return snapshot.manifest.base_paths

    @classmethod
    def of(
        cls,
        initial: Iterable[DatasetBasePath] | None,
        targets: Iterable[str] | None,
        all_targets: bool | None,
    ) -> BaseRequest:
        """Build the request from `initial_bases`, `target_bases` and `target_all_bases`.

        Raises:
            InvalidInputError: If the request is invalid.
        """
        if isinstance(targets, str):
            raise InvalidInputError(f"target_bases: expected a list of names, found {targets!r}")
        return cls(bases_to_commit(initial or ()), tuple(targets or ()), bool(all_targets))


def bases_to_commit(bases: Iterable[DatasetBasePath]) -> tuple[BasePath, ...]:
    """Convert base paths for an operation; the id 0 requests a free id.

    Raises:
        InvalidInputError: If an item is not a base path.
    """
    return tuple(map(_to_commit, bases))


def _to_commit(base: DatasetBasePath) -> BasePath:
    path, number = getattr(base, "path", None), getattr(base, "id", None) or 0
    name = getattr(base, "name", None)
    is_path = isinstance(path, str | os.PathLike) and os.fspath(path)
    is_id = isinstance(number, int) and 0 <= number < 1 << 32
    if not (is_path and is_id and isinstance(name, str | None)):
        raise InvalidInputError(f"expected a DatasetBasePath, found {base!r}")
    return BasePath(number, str(os.fspath(base.path)), bool(base.is_dataset_root), name)
