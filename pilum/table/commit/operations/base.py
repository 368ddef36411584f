"""What every operation is: one arm of the `Transaction` message, a footprint, an effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint
from pilum.table.model.manifest import Manifest

__all__ = ["Operation"]


class Operation(ABC):
    """A change of a table, independent of the version that it is applied to."""

    arm: ClassVar[str]
    """Name of its message in the oneof of `Transaction`."""

    creates: ClassVar[bool] = False
    """Whether it can be the first commit of a table."""

    mends: ClassVar[bool] = False
    """Whether it may follow a damaged version, of which nothing is kept."""

    writes_rows: ClassVar[bool] = True
    """Whether the rows of fragments that the version before lacks are new or changed."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> Self:
        """Reads the message of the arm."""

    @abstractmethod
    def to_proto(self) -> Any:
        """Builds the message of the arm."""

    @abstractmethod
    def footprint(self) -> Footprint:
        """What it relies on and what it changes."""

    def loaded(self, store: Store) -> Self:
        """The same change with what it needs of the table, read once before it is applied.

        Raises:
            NotFoundError: If that is not there.
        """
        del store
        return self

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """The same change with what it must read or write for exactly the version before it.

        Called before every `apply`, with the same manifest.

        Raises:
            CommitConflictError: If it cannot follow that version.
        """
        del store, manifest
        return self

    @abstractmethod
    def apply(self, manifest: Manifest) -> Manifest:
        """The content of the version after `manifest`; what all versions share is added later.

        Raises:
            InvalidInputError: If it does not fit the table.
        """

    def new_files(self) -> tuple[str, ...]:
        """Paths of the files that were written for it: of no use if it is not committed."""
        return ()

    def fits(self, read: Manifest, manifest: Manifest) -> bool:
        """Whether two versions show that it can follow, although those in between are gone.

        Args:
            read: The version that it was made for.
            manifest: The newest one.
        """
        del read, manifest
        return False

    @property
    def can_follow_more(self) -> bool:
        """Whether `rebase` is to be asked too after what has to be tried again otherwise."""
        return False

    def rebase(self, store: Store, manifest: Manifest) -> Operation | None:
        """The same change for a version in which others made changes that it can be merged with.

        Args:
            store: Where the table is; new files may be written to it.
            manifest: That version.

        Returns:
            None if it cannot be merged.

        Raises:
            CommitConflictError: If it cannot be merged and there is more to say about it.
            DatasetAlreadyExistsError: If it was to create the table.
        """
        del store, manifest
        return None
