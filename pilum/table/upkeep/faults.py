"""The faults that a check of a table can find, and those of its tags and branches.

The records of tags and branches must be valid and name versions that exist. Source:
docs/format/table.md, "Tags" and "Branches".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from urllib.parse import unquote

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, PilumError
from pilum.storage.base import Store
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import BRANCHES_FOLDER, TAGS_FOLDER, ManifestName
from pilum.table.refs.branches import Branch, load_branch
from pilum.table.refs.ref_files import SUFFIX, misplaced_folders
from pilum.table.refs.tags import Tag, load_tag
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.history import Line

__all__ = ["Fault", "FaultKind", "Findings", "branch_names", "newest_readable", "reference_faults"]


class FaultKind(Enum):
    """The kind of a fault in a file."""

    MISSING = "missing"
    DAMAGED = "damaged"
    ORPHANED = "orphaned"
    MISREAD = "misread"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one file.

    Attributes:
        kind: Kind of the fault.
        path: Path below the root of the table.
        size: Size of the file in bytes; 0 if it is missing.
        version: A version that refers to it; None for orphans.
        what: Description of the fault.
    """

    kind: FaultKind
    path: str
    size: int
    version: int | None
    what: str


@dataclass
class Findings:
    """The result of a check.

    Attributes:
        versions: Number of versions that were checked.
        files: Number of files that they refer to.
        size: Size in bytes of those that exist.
        faults: The faults that were found.
    """

    versions: int = 0
    files: int = 0
    size: int = 0
    faults: list[Fault] = field(default_factory=list)


def branch_names(root: Store) -> list[str]:
    """Return the names of all branches, also of those with damaged records."""
    return sorted(name for _, _, name in _records(root, BRANCHES_FOLDER))


def newest_readable(store: Store) -> ManifestName | None:
    """Return the newest version of a line whose manifest can be read; None if there is none."""
    for name in reversed(_names(store)):
        try:
            load_named(store, name)
        except (PilumError, OSError):
            continue
        return name
    return None


def reference_faults(line: Line) -> Iterator[Fault]:
    """Yield the faults of the records of tags and branches.

    Args:
        line: The main line.
    """

    @cache
    def versions(branch: str | None) -> frozenset[int]:
        return frozenset(name.version for name in _names(line.other(branch).store))

    for folder in (TAGS_FOLDER, BRANCHES_FOLDER):
        for name in misplaced_folders(line.root, folder):
            what = "a folder, where a file is expected"
            yield Fault(FaultKind.DAMAGED, f"{folder}/{name}", 0, None, what)
    for folder, load in ((TAGS_FOLDER, load_tag), (BRANCHES_FOLDER, load_branch)):
        for path, size, name in _records(line.root, folder):
            try:
                record: Tag | Branch = load(line.root, name)
            except InvalidInputError:
                continue  # no reference can have this name, so the file is not the table's
            except (PilumError, OSError) as error:
                kind = FaultKind.MISSING if isinstance(error, NotFoundError) else FaultKind.DAMAGED
                yield Fault(kind, path, size, None, str(error))
                continue
            if isinstance(record, Tag):
                who, branch, version = f"tag {name!r}", record.branch, record.version
            else:
                who, branch, version = f"branch {name!r}", record.parent, record.parent_version
            if version not in versions(branch):
                on = f" of branch {branch!r}" if branch else ""
                what = f"{who} names version {version}{on}, which does not exist"
                yield Fault(FaultKind.MISSING, path, 0, None, what)
            if isinstance(record, Branch) and not versions(name):
                yield Fault(FaultKind.MISSING, path, size, None, f"{who} has no version")


def _records(root: Store, folder: str) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and name of each record."""
    for entry in root.list(folder):
        if entry.name.endswith(SUFFIX):
            name = unquote(entry.name.removesuffix(SUFFIX))
            yield f"{folder}/{entry.name}", entry.size, name


def _names(store: Store) -> list[ManifestName]:
    try:
        return list_manifests(store)
    except CorruptFileError:
        return []
