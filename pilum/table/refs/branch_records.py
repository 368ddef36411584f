"""The records of branches: JSON files that say where each branch began; see `branches.py`.

Source: docs/format/table.md, "Branches".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from pilum.errors import CorruptFileError, NotFoundError
from pilum.storage.base import Store
from pilum.table.model.names import BRANCHES_FOLDER
from pilum.table.refs.ref_files import (
    SUFFIX,
    number_in,
    object_in,
    read_ref,
    ref_files,
    texts_in,
)

__all__ = ["Branch", "Lineage", "branch_records", "read_record"]

Lineage = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The record of a branch.

    Attributes:
        parent: Name of the branch that it began from, None for the main line.
        parent_version: Number of the version that it began from.
        lineage: The path from the main line to this branch: for each branch on the way, the version
            where it began and a random id. Empty in records of older writers.
        created_at: When the branch was created, UTC.
        manifest_size: Size in bytes of the manifest that it began from.
        metadata: Key-value notes, set by users.
    """

    parent: str | None
    parent_version: int
    lineage: Lineage
    created_at: datetime
    manifest_size: int
    metadata: Mapping[str, str]

    @classmethod
    def from_json(cls, values: Any, where: str) -> Branch:
        """Parse the content of a record file.

        Raises:
            CorruptFileError: If the content is not a branch record.
        """
        what = "a branch"
        values = object_in(values, what, where)
        parent, created = values.get("parentBranch"), number_in(values, "createAt", what, where)
        if not (parent is None or isinstance(parent, str)):
            raise CorruptFileError(f"a branch of branch {parent!r:.50}", where)
        try:
            moment = datetime.fromtimestamp(created, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise CorruptFileError(f"a branch whose createAt is {created}", where) from error
        return cls(
            parent,
            number_in(values, "parentVersion", what, where),
            _lineage(values.get("identifier"), where),
            moment,
            number_in(values, "manifestSize", what, where),
            texts_in(values, "metadata", what, where),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the content of the record file."""
        return {
            "parentBranch": self.parent,
            "identifier": {"version_mapping": [list(step) for step in self.lineage]},
            "parentVersion": self.parent_version,
            "createAt": int(self.created_at.timestamp()),
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }


def branch_records(
    root: Store, counts: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, Branch]]:
    """Yield the records of all branches and the names in their file names.

    A name may be one that no branch can have.

    Args:
        root: Root of the main line.
        counts: Returns whether to read the record of a name; by default, all are read.

    Raises:
        CorruptFileError: If a record is damaged.
    """
    for entry in ref_files(root, BRANCHES_FOLDER):
        name = unquote(entry.name.removesuffix(SUFFIX))
        if counts(name):
            with suppress(NotFoundError):  # deleted since the folder was listed
                yield name, read_record(root, f"{BRANCHES_FOLDER}/{entry.name}")


def read_record(root: Store, path: str) -> Branch:
    """Read one record.

    Raises:
        NotFoundError: If there is no such record.
        CorruptFileError: If the record is damaged.
    """
    return Branch.from_json(read_ref(root, path), path)


def _lineage(values: Any, where: str) -> Lineage:
    if values is None:
        return ()
    try:
        steps = [(version, number) for version, number in values["version_mapping"]]
    except (KeyError, TypeError, ValueError):
        steps = [(None, None)]
    if not all(
        type(version) is int and version >= 0 and isinstance(number, str)
        for version, number in steps
    ):
        raise CorruptFileError(f"a branch whose identifier is {values!r:.80}", where)
    return tuple(steps)
