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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pilum.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from pilum.storage.base import Store, write_object
from pilum.table.model.manifest import Manifest
from pilum.table.model.missing import no_table
from pilum.table.model.names import BRANCHES_FOLDER, TABLE_FOLDERS, branch_folder
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.branch_records import Branch, branch_records, read_record
from pilum.table.refs.clone import begin_referring, reserved, withdraw
from pilum.table.refs.ref_files import SUFFIX, encode_ref, read_ref, require_no_folders
from pilum.table.refs.tags import list_tags
from pilum.table.versions.branch_root import MAIN, Line
from pilum.table.versions.history import latest_manifest, manifest_size

__all__ = [
    "Branch",
    "create_branch",
    "delete_branch",
    "list_branches",
    "load_branch",
    "replace_branch_metadata",
]

_SEGMENT = re.compile(r"[\w.-]+")


def list_branches(root: Store) -> dict[str, Branch]:
    """Return all branches of a table, by name.

    Args:
        root: Root of the main line.

    Raises:
        CorruptFileError: If the record of a branch is damaged.
    """
    return dict(sorted(branch_records(root, lambda name: not _fault(name))))


def load_branch(root: Store, name: str) -> Branch:
    """Read the record of a branch.

    Raises:
        InvalidInputError: If the name is not a valid branch name.
        BranchNotFoundError: If there is no such branch.
        DatasetNotFoundError: If there is no table.
        CorruptFileError: If its record is damaged.
    """
    try:
        return read_record(root, _path(_checked(name)))
    except NotFoundError:
        raise _not_found(root, name) from None


def create_branch(source: Snapshot, name: str) -> tuple[Line, Manifest]:
    """Create a branch.

    Args:
        source: The version that the branch begins from.
        name: Segments of letters, digits, `.`, `-` and `_`, with `/` between them.

    Returns:
        The branch, and its first manifest.

    Raises:
        BranchAlreadyExistsError: If the branch exists, or another writer creates it concurrently.
        InvalidInputError: If the name is not allowed, or the source is a detached version.
        UnsupportedFeatureError: If the table uses a feature that the branch would lose.
        OSError: If the store fails; the branch then does not exist.
    """
    if name in {MAIN, None}:
        raise InvalidInputError(f"branch {name!r}: this is the main line")
    line = source.line.other(_new_name(name))
    _require_absent(line.root, name)
    record = _record(source)
    try:
        with reserved(line.store):
            _require_absent(line.root, name)
            manifest = begin_referring(source, line.store, name)
            won = line.root.put_if_absent(_path(name), encode_ref(record.to_json()))
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
    """Replace the metadata of a branch.

    Raises:
        BranchNotFoundError: If there is no such branch.
        CorruptFileError: If its record is damaged.
    """
    load_branch(root, name)
    path = _path(name)
    values = {**read_ref(root, path), "metadata": dict(metadata)}
    write_object(root, path, encode_ref(values))


def delete_branch(line: Line, name: str) -> None:
    """Delete a branch: its record, then its files.

    This also removes what an interrupted creation left.

    Args:
        line: Any line of the table.
        name: Name of the branch.

    Raises:
        BranchNotFoundError: If there is neither a record nor a file of that name.
        InvalidInputError: If other branches or tags refer to it.
        CorruptFileError: If the record of another branch or a tag is damaged.
    """
    if name == MAIN:
        raise InvalidInputError("the main line cannot be deleted")
    branch = line.other(_checked(name))
    others = list_branches(line.root)
    if others.pop(name, None) is None and not _has_files(branch.store):
        raise _not_found(line.root, name)
    _require_unused(line.root, name, others)
    line.root.delete(_path(name))
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
    for folder in TABLE_FOLDERS:
        yield from _below(store, folder, nested)


def _below(store: Store, folder: str, nested: set[str]) -> Iterator[str]:
    if folder in nested:
        return
    yield from (f"{folder}/{entry.name}" for entry in store.list(folder))
    for name in store.folders(folder):
        yield from _below(store, f"{folder}/{name}", nested)


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
        root.source(_path(name)).close()
        raise _exists(root, name)


def _exists(root: Store, name: str) -> BranchAlreadyExistsError:
    return BranchAlreadyExistsError(f"{root.uri} has a branch {name!r} already")


def _not_found(root: Store, name: str) -> NotFoundError:
    require_no_folders(root, BRANCHES_FOLDER)
    if not latest_manifest(root):
        return no_table(root)
    return BranchNotFoundError(
        f"{root.uri} has no branch {name!r}; `branches.list()` shows those it has"
    )


def _checked(name: str) -> str:
    if fault := _fault(name):
        raise InvalidInputError(f"branch {name!r}: {fault}")
    return name


def _new_name(name: str) -> str:
    inner = _checked(name).split("/")[1:]
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


def _path(name: str) -> str:
    return f"{BRANCHES_FOLDER}/{quote(name, safe='')}{SUFFIX}"
