"""Arguments and reports of cleanups, which remove old versions and files of failed writers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from pilum.arguments import optional_count, require_count, require_known
from pilum.errors import InvalidInputError
from pilum.pictures.words import size_text
from pilum.table.read.snapshot import Snapshot

# The implementation is imported with the first cleanup: most processes never need it.
if TYPE_CHECKING:
    from pilum.table.upkeep.cleanup import CleanupPlan
    from pilum.table.upkeep.owned_files import OwnedFile

__all__ = [
    "CLEANUP_DEFAULTS",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupKeywords",
    "CleanupReferencedBranch",
    "CleanupStats",
    "explained_cleanup",
    "planned_cleanup",
]

CLEANUP_DEFAULTS = {"delete_unverified": False, "error_if_tagged_old_versions": True}
_DEFAULT_AGE = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """The result of a cleanup.

    Attributes:
        bytes_removed: Size of all removed files.
        old_versions: Number of removed versions.
        data_files_removed: Number of data files, including their blob files.
        transaction_files_removed: Number of transaction files.
        index_files_removed: Number of index files.
        deletion_files_removed: Number of deletion files.
        failed_deletes: Number of files that the store failed to delete; the other counts exclude
            them.
    """

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0

    @classmethod
    def of(cls, files: Iterable[OwnedFile], failed_deletes: int = 0) -> CleanupStats:
        """Count the files that a cleanup removed, or would remove."""
        from pilum.table.upkeep.owned_files import FileKind

        files = list(files)
        removed = Counter(file.kind for file in files)
        return cls(
            sum(file.size for file in files),
            removed[FileKind.MANIFEST],
            removed[FileKind.DATA],
            removed[FileKind.TRANSACTION],
            removed[FileKind.INDEX],
            removed[FileKind.DELETION],
            failed_deletes,
        )


@dataclass(frozen=True, slots=True)
class CleanupCandidateFile:
    """A file that a cleanup would remove.

    Attributes:
        path: Path below the root of the table.
        kind: "manifest", "transaction", "data", "deletion", "index" or "temporary".
        unverified: Whether no manifest refers to it, for example after a failed commit.
        size_bytes: Size of the file.
    """

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanupReferencedBranch:
    """A branch that retains a version.

    Attributes:
        name: Name of the branch.
        referenced_version: The first version that it needs.
        cleanup_candidate: Whether the cleanup would remove versions of the branch; always False.
    """

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, slots=True)
class CleanupExplanation:
    """A preview of a cleanup; prints as a table.

    Attributes:
        read_version: The first version from which all versions are retained.
        stats: What would be removed.
        candidate_files: The files, if they were requested.
        candidate_files_truncated: Whether there are more files than requested.
        candidate_file_limit: Number of requested files.
        referenced_branches: Branches that retain selected versions.
        warnings: Other reasons why versions are retained, and unreferenced files that are too
            recent.
    """

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]

    def __str__(self) -> str:
        lines = [
            f"{file.kind:12}{size_text(file.size_bytes):>12}  {file.path}"
            + ("  (unverified)" if file.unverified else "")
            for file in self.candidate_files
        ]
        if self.candidate_files_truncated:
            lines.append("…")
        stats = self.stats
        total = f"{stats.old_versions} versions, {size_text(stats.bytes_removed)}"
        return "\n".join([*lines, total, *self.warnings])


class CleanupKeywords(TypedDict, total=False):
    """Keywords of a cleanup and its preview; see `LanceDataset.cleanup_old_versions`."""

    delete_unverified: bool
    error_if_tagged_old_versions: bool
    delete_rate_limit: int | None
    versions: Iterable[int] | None


def planned_cleanup(
    snapshot: Snapshot, older_than: Any, retain_versions: Any, more: CleanupKeywords
) -> CleanupPlan:
    """Check the arguments of a cleanup and plan it."""
    from pilum.table.upkeep.cleanup import CleanupPolicy, plan_cleanup

    require_known("cleanups have", more, CleanupKeywords.__annotations__)
    optional_count("delete_rate_limit", more.get("delete_rate_limit"), 1)
    versions: Any = more.get("versions")
    if older_than is None and retain_versions is None and versions is None:
        older_than = _DEFAULT_AGE
    if not isinstance(older_than, timedelta | None):
        raise InvalidInputError(f"older_than: expected a timedelta, found {older_than!r}")
    if isinstance(versions, str) or not isinstance(versions, Iterable | None):
        raise InvalidInputError(f"versions: expected a list of numbers, found {versions!r}")
    chosen = (require_count("versions", number, 1) for number in versions or ())
    policy = CleanupPolicy(
        None if older_than is None else time.time() - older_than.total_seconds(),
        optional_count("retain_versions", retain_versions, 1),
        None if versions is None else frozenset(chosen),
        bool(more.get("delete_unverified", False)),
        bool(more.get("error_if_tagged_old_versions", True)),
    )
    return plan_cleanup(snapshot.store, snapshot.manifest, policy)


def explained_cleanup(plan: CleanupPlan, max_files: int) -> CleanupExplanation:
    """Return the preview of a planned cleanup, with at most this many files."""
    strays = {file.path for file in plan.strays}
    files = list(plan.files())
    candidates = [
        CleanupCandidateFile(file.path, file.kind.value, file.path in strays, file.size)
        for file in files[:max_files]
    ]
    # A branch of a branch needs several versions; the first of them is reported.
    needed = sorted(((pin.name, pin.version) for pin in plan.pins if not pin.is_tag), reverse=True)
    branches = [CleanupReferencedBranch(*item) for item in sorted(dict(needed).items())]
    warnings = [f"version {pin.version} stays: tag {pin.name!r}" for pin in plan.pins if pin.is_tag]
    warnings += _waiting(plan)
    return CleanupExplanation(
        plan.read_version,
        CleanupStats.of(files),
        candidates,
        0 < max_files < len(files),
        max_files,
        branches,
        warnings,
    )


def _waiting(plan: CleanupPlan) -> list[str]:
    """Return the warnings about unreferenced files that are too recent to be removed."""
    from pilum.table.upkeep.cleanup import IN_FLIGHT_SECONDS

    if not plan.waiting:
        return []
    size = size_text(sum(file.size for file in plan.waiting))
    times = [file.modified for file in plan.waiting if file.modified is not None]
    when = f" on {_day(max(times) + IN_FLIGHT_SECONDS)}" if times else ""
    warning = (
        f"{len(plan.waiting)} files ({size}) that no version refers to stay, as a commit may be "
        f"under way: they go when they are 7 days old, the last{when}; delete_unverified "
        "(--delete-unverified) removes them now, which is only safe if no one writes"
    )
    return [warning]


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
