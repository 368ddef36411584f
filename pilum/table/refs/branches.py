"""Branches: lines of history that begin from a version of another line.

    _refs/branches/dev%2Ffeature.json     the record, in the root of the main line
    tree/dev/feature/                     a shallow clone of the version where the branch began

    {
      "parentBranch": "dev",
      "identifier": {"version_mapping": [[2, "4d2c7449c5ec40c384a4b75c2bdfeb34"], [3, "7c6f…"]]},
      "parentVersion": 3,
      "createAt": 1795191182,
      "manifestSize": 702,
      "metadata": {}
    }

A branch exists if its record exists. The record is written last, and only if there is none yet.
Source: docs/format/table.md, "Branches".
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pilum.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    CorruptFileError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from pilum.storage.base import Store, entries_below
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import BRANCHES_FOLDER, TABLE_FOLDERS, branch_folder
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.clone import begin_referring, reserved, withdraw
from pilum.table.refs.ref_files import (
    RefFiles,
    encode_ref,
    number_in,
    object_in,
    read_ref,
    texts_in,
)
from pilum.table.refs.tags import list_tags
from pilum.table.versions.history import MAIN, Line, manifest_size

__all__ = [
    "Branch",
    "branch_records",
    "create_branch",
    "delete_branch",
    "list_branches",
    "load_branch",
    "replace_branch_metadata",
]

Lineage = tuple[tuple[int, str], ...]
_SEGMENT = re.compile(r"[\w.-]+")


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
        """Parse the content of a record file; raise CorruptFileError if it is no branch record."""
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

    A name may be one that no branch can have, unless `counts` excludes it.
    """
    for name, path in _FILES.names(root):
        if counts(name):
            with suppress(NotFoundError):  # deleted since the folder was listed
                yield name, Branch.from_json(read_ref(root, path), path)


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


def list_branches(root: Store) -> dict[str, Branch]:
    """Return all branches of a table, by name, given the root of its main line."""
    return dict(sorted(branch_records(root, lambda name: not _fault(name))))


def load_branch(root: Store, name: str) -> Branch:
    """Read the record of a branch, with the errors of `RefFiles.load`."""
    return _FILES.load(root, name)


def create_branch(source: Snapshot, name: str) -> tuple[Line, Manifest]:
    """Create a branch from a version; return it and its first manifest.

    The errors are those of `LanceDataset.create_branch`. If the store fails, the branch does not
    exist.
    """
    if name is None or name == MAIN:
        raise InvalidInputError(f"branch {name!r}: this is the main line")
    line = source.line.other(_new_name(name))
    _require_absent(line.root, name)
    record = _record(source)
    try:
        with reserved(line.store):
            _require_absent(line.root, name)
            manifest = begin_referring(source, line.store, name)
            won = line.root.put_if_absent(_FILES.path(name), encode_ref(record.to_json()))
            # The answer to a put may have been lost: the random id identifies the writer of the
            # record.
            if not won and load_branch(line.root, name).lineage != record.lineage:
                withdraw(line.store, manifest)
                raise _exists(line.root, name)
    except DatasetAlreadyExistsError:
        raise BranchAlreadyExistsError(
            f"{line.store.uri}: a branch {name!r} is being made, or its making or deleting was "
            f"interrupted; in that case branches.delete({name!r}) removes what is left of it"
        ) from None
    return line, manifest


def replace_branch_metadata(root: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Replace the metadata of a branch; the errors are those of `load_branch`."""
    _FILES.replace(root, name, {"metadata": dict(metadata)})


def delete_branch(line: Line, name: str) -> None:
    """Delete a branch, given any line of the table: its record, then its files.

    This also removes what an interrupted creation left. The errors are those of `Branches.delete`.
    """
    if name == MAIN:
        raise InvalidInputError("the main line cannot be deleted")
    branch = line.other(_FILES.checked(name))
    others = list_branches(line.root)
    if others.pop(name, None) is None and not _has_files(branch.store):
        raise _FILES.not_found(line.root, name)
    _require_unused(line.root, name, others)
    line.root.delete(_FILES.path(name))
    nested = {
        branch_folder(other).removeprefix(f"{branch_folder(name)}/")
        for other in others
        if other.startswith(f"{name}/")
    }
    for path in list(_files(branch.store, nested)):
        branch.store.delete(path)


def _require_unused(root: Store, name: str, others: Mapping[str, Branch]) -> None:
    if children := [other for other, branch in others.items() if branch.parent == name]:
        raise InvalidInputError(f"branch {name!r}: branches began on it: {children}")
    if tags := [tag for tag, found in list_tags(root).items() if found.branch == name]:
        raise InvalidInputError(f"branch {name!r}: tags are on it: {tags}")


def _has_files(store: Store) -> bool:
    return next(_files(store, set()), None) is not None


def _files(store: Store, nested: set[str]) -> Iterator[str]:
    """Yield the files of one line, without those of branches whose roots are below it."""
    others = tuple(f"{folder}/" for folder in nested)
    for folder in TABLE_FOLDERS:
        yield from (path for path, _ in entries_below(store, folder) if not path.startswith(others))


def _record(source: Snapshot) -> Branch:
    line, version = source.line, source.manifest.version
    lineage = load_branch(line.root, line.branch).lineage if line.branch else ()
    return Branch(
        line.branch,
        version,
        (*lineage, (version, uuid.uuid4().hex)),
        datetime.fromtimestamp(int(time.time()), UTC),
        manifest_size(line.store, version),
        {},
    )


def _require_absent(root: Store, name: str) -> None:
    with suppress(NotFoundError):
        root.source(_FILES.path(name)).close()
        raise _exists(root, name)


def _exists(root: Store, name: str) -> BranchAlreadyExistsError:
    return BranchAlreadyExistsError(f"{root.uri} has a branch {name!r} already")


def _new_name(name: str) -> str:
    inner = _FILES.checked(name).split("/")[1:]
    if taken := [segment for segment in inner if segment in TABLE_FOLDERS]:
        raise InvalidInputError(f"branch {name!r}: {taken[0]} is a folder of the branch above it")
    return name


def _fault(name: Any) -> str:
    """Return why this is not a valid name, or "" if it is valid."""
    if not isinstance(name, str) or not name:
        return "expected a name"
    if not all(map(_SEGMENT.fullmatch, name.split("/"))):
        return "expected letters, digits, '.', '-' and '_', with single '/' within"
    if ".." in name or "." in name.split("/"):
        return "a dot must be single and not alone"
    if name == MAIN:
        return "this is the main line"
    return "names must not end with .lock" if name.endswith(".lock") else ""


_FILES = RefFiles(BRANCHES_FOLDER, "branch", _fault, BranchNotFoundError, Branch.from_json)
