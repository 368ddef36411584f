"""What the files say that record branches; see `branches.py`.

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
    """What the record of a branch says.

    Attributes:
        parent: Name of the branch that it began on, None for the main line.
        parent_version: Number of the version that it began with.
        lineage: How it came from the main line: for each branch on the way the version where it
            began, and a random id. Empty in records of old writers.
        created_at: When it was made, UTC.
        manifest_size: Bytes of the manifest that it began with.
        metadata: Notes of its users.
    """

    parent: str | None
    parent_version: int
    lineage: Lineage
    created_at: datetime
    manifest_size: int
    metadata: Mapping[str, str]

    @classmethod
    def from_json(cls, values: Any, where: str) -> Branch:
        """Reads the content of a file.

        Raises:
            CorruptFileError: If it is not that of a branch.
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
        """The content of its file."""
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
    """Records with the names that they are for, which may be such as no branch can have.

    Args:
        root: Root of the main line.
        counts: Whether to read the record of a name; all if it is not said.

    Raises:
        CorruptFileError: If one is damaged.
    """
    for entry in ref_files(root, BRANCHES_FOLDER):
        name = unquote(entry.name.removesuffix(SUFFIX))
        if counts(name):
            with suppress(NotFoundError):  # deleted since the folder was read
                yield name, read_record(root, f"{BRANCHES_FOLDER}/{entry.name}")


def read_record(root: Store, path: str) -> Branch:
    """Reads a record.

    Raises:
        NotFoundError: If there is none.
        CorruptFileError: If it is damaged.
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
