"""The report of a check of a table: its faults, and how those of tags and branches are found.

The records of tags and branches must be valid and name versions that exist. Source:
docs/format/table.md, "Tags" and "Branches".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, TypeAlias, get_args
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

__all__ = [
    "Fault",
    "FaultKind",
    "VerifyReport",
    "branch_names",
    "newest_readable",
    "reference_faults",
]


FaultKind: TypeAlias = Literal["missing", "damaged", "orphaned", "misread"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is missing, damaged, orphaned or misread.

    Attributes:
        kind: "missing", "damaged", "orphaned" or "misread".
        path: Path below the root of the table.
        size_bytes: Actual size of the file; 0 if it is missing.
        version: A version that refers to it; None for orphans, tags and folders.
        what: Description of the fault.
    """

    kind: FaultKind
    path: str
    size_bytes: int
    version: int | None
    what: str

    @property
    def line(self) -> str:
        """The fault as a line of text."""
        version = "" if self.version is None else f"version {self.version}: "
        what = self.what.splitlines()[0]
        return f"{self.kind:9}{self.size_bytes:>15,}  {self.path}  {version}{what}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check of a table; prints as a table.

    Attributes:
        num_versions: Number of checked versions.
        num_files: Number of files that they refer to, including manifests.
        size_bytes: Total size of the files that exist.
        is_deep: Whether pages were decoded.
        missing: Files that do not exist.
        damaged: Files that contradict the format or the records about them.
        orphaned: Files named as files of the table that no version refers to; they belong to a
            commit in progress, or to one that failed.
        misread: Files of the pinned version that pilum reads correctly, but not every reader of the
            format; `optimize.compact_files` rewrites their rows.
    """

    num_versions: int
    num_files: int
    size_bytes: int
    is_deep: bool
    missing: list[Fault] = field(default_factory=list)
    damaged: list[Fault] = field(default_factory=list)
    orphaned: list[Fault] = field(default_factory=list)
    misread: list[Fault] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Return whether nothing is missing or damaged."""
        return not self.missing and not self.damaged

    @property
    def faults(self) -> list[Fault]:
        """All faults, by kind."""
        return [*self.missing, *self.damaged, *self.orphaned, *self.misread]

    def with_faults(self, faults: Iterable[Fault]) -> VerifyReport:
        """Return the report with more faults."""
        found = [*self.faults, *faults]
        missing, damaged, orphaned, misread = (
            [fault for fault in found if fault.kind == kind] for kind in get_args(FaultKind)
        )
        return replace(self, missing=missing, damaged=damaged, orphaned=orphaned, misread=misread)

    def __str__(self) -> str:
        counts = (
            f"{self.num_versions} versions, {self.num_files} files, {self.size_bytes:,} bytes: "
            f"{len(self.missing)} missing, {len(self.damaged)} damaged, "
            f"{len(self.orphaned)} orphaned, {len(self.misread)} misread"
        )
        return "\n".join([*(fault.line for fault in self.faults), counts])


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
    """Yield the faults of the records of tags and branches, given the main line."""

    @cache
    def versions(branch: str | None) -> frozenset[int]:
        return frozenset(name.version for name in _names(line.other(branch).store))

    for folder in (TAGS_FOLDER, BRANCHES_FOLDER):
        for name in misplaced_folders(line.root, folder):
            what = "a folder, where a file is expected"
            yield Fault("damaged", f"{folder}/{name}", 0, None, what)
    for folder, load in ((TAGS_FOLDER, load_tag), (BRANCHES_FOLDER, load_branch)):
        for path, size, name in _records(line.root, folder):
            try:
                record: Tag | Branch = load(line.root, name)
            except InvalidInputError:
                continue  # no reference can have this name, so the file is not the table's
            except (PilumError, OSError) as error:
                kind: FaultKind = "missing" if isinstance(error, NotFoundError) else "damaged"
                yield Fault(kind, path, size, None, str(error))
                continue
            if isinstance(record, Tag):
                who, branch, version = f"tag {name!r}", record.branch, record.version
            else:
                who, branch, version = f"branch {name!r}", record.parent, record.parent_version
            if version not in versions(branch):
                on = f" of branch {branch!r}" if branch else ""
                what = f"{who} names version {version}{on}, which does not exist"
                yield Fault("missing", path, 0, None, what)
            if isinstance(record, Branch) and not versions(name):
                yield Fault("missing", path, size, None, f"{who} has no version")


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
