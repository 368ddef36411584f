"""The interface of operations: a message of `Transaction`, a footprint, an effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint
from pilum.table.model.base_paths import BasePath
from pilum.table.model.fragment import Fragment
from pilum.table.model.manifest import Manifest

__all__ = ["Operation"]


class Operation(ABC):
    """A change of a table, independent of the version that it is applied to."""

    arm: ClassVar[str]
    """Name of its message in the oneof of `Transaction`."""

    creates: ClassVar[bool] = False
    """Whether it can be the first commit of a table."""

    mends: ClassVar[bool] = False
    """Whether it may follow a damaged version, whose content is discarded."""

    writes_rows: ClassVar[bool] = True
    """Whether rows of fragments that the version before lacks are new or changed."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> Self:
        """Read the operation from its message."""

    @abstractmethod
    def to_proto(self) -> Any:
        """Build the message of the operation."""

    @abstractmethod
    def footprint(self) -> Footprint:
        """Return what the operation relies on and what it changes."""

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation prepared for exactly one preceding version.

        It reads or writes whatever it needs for that version.

        Called before every `apply`, with the same manifest. The next attempt prepares the result,
        so that an operation reads only once what is the same for all versions.

        Raises:
            CommitConflictError: If the operation cannot follow that version.
            NotFoundError: If table data that it needs does not exist.
        """
        del store, manifest
        return self

    @abstractmethod
    def apply(self, manifest: Manifest) -> Manifest:
        """Return the content of the version after `manifest`.

        The parts that all versions share are added later.

        Raises:
            InvalidInputError: If the operation does not fit the table.
            SchemaMismatchError: If new files do not fit the schema.
            UnsupportedVersionError: If the version of new files is not the table's.
            CorruptFileError: If the indices of the table are damaged.
        """

    def new_files(self) -> tuple[str, ...]:
        """Return the paths of files written for it, which are unused if it is not committed."""
        return ()

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments that it adds; `new_files` lacks their data files in base paths."""
        return ()

    @property
    def new_bases(self) -> tuple[BasePath, ...]:
        """The base paths of a table that it creates."""
        return ()

    def fits(self, read: Manifest, manifest: Manifest) -> bool:
        """Return whether two versions show that it can follow, although those between are gone.

        `read` is the version that it was made for, `manifest` the newest one.
        """
        del read, manifest
        return False

    @property
    def can_follow_more(self) -> bool:
        """Return whether to call `rebase` also after conflicts that otherwise require a retry."""
        return False

    def rebase(self, store: Store, manifest: Manifest) -> Operation | None:
        """Return the operation for a version with mergeable changes of others; None if impossible.

        New files may be written to the store.

        Raises:
            CommitConflictError: If it cannot be merged for a specific reason.
            DatasetAlreadyExistsError: If the operation was to create the table.
        """
        del store, manifest
        return None
