"""Verification: checks a table for missing, damaged and orphaned files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING

from pilum.dataset.base import DatasetBase
from pilum.errors import CorruptFileError, PilumError

# The implementation is imported with the first check: most processes never need it.
if TYPE_CHECKING:
    from pilum.table.upkeep.verify import Findings

__all__ = ["Fault", "VerifyReport", "Verifying", "report_of"]


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

    kind: str
    path: str
    size_bytes: int
    version: int | None
    what: str


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
    missing: list[Fault]
    damaged: list[Fault]
    orphaned: list[Fault]
    misread: list[Fault] = dataclass_field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Return whether nothing is missing or damaged."""
        return not self.missing and not self.damaged

    def __str__(self) -> str:
        faults = [*self.missing, *self.damaged, *self.orphaned, *self.misread]
        lines = [_line(fault) for fault in faults]
        counts = (
            f"{self.num_versions} versions, {self.num_files} files, {self.size_bytes:,} bytes: "
            f"{len(self.missing)} missing, {len(self.damaged)} damaged, "
            f"{len(self.orphaned)} orphaned, {len(self.misread)} misread"
        )
        return "\n".join([*lines, counts])


class Verifying(DatasetBase):
    """Methods of `LanceDataset` for verification."""

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check the structure of the table; change nothing, and report damage without raising.

        All versions are checked, including those of branches: manifests, transactions, footers and
        column metadata of data files, deletion files, sizes and numbers of rows where recorded, and
        files of indices, tags and branches. For the pinned version, the check also covers whether
        all readers see which structs are null.

        Args:
            deep: Whether to also decode all pages of the pinned version and read all payloads of
                blobs, except those outside the table. This takes as much memory as a scan.

        Raises:
            OSError: If the store cannot be listed.
        """
        from pilum.progress import progress
        from pilum.table.upkeep.verify import verify

        snapshot = self._snapshot
        num_rows = 0
        if deep:
            with suppress(PilumError, OSError):  # the check reports it
                num_rows = sum(one.physical_rows for one in snapshot.manifest.fragments)
        with progress("Verifying", num_rows) as on_rows:
            return report_of(verify(snapshot, deep=deep, all_versions=True, on_rows=on_rows), deep)

    def validate(self) -> None:
        """Check the structure of the pinned version.

        Raises:
            CorruptFileError: If a file is missing or damaged. The message lists all of them.
        """
        from pilum.table.upkeep.verify import verify

        report = report_of(verify(self._snapshot, deep=False, all_versions=False), False)
        if not report.is_valid:
            lines = [_line(fault) for fault in (*report.missing, *report.damaged)]
            where = f"{self._uri}, version {self._snapshot.manifest.version}"
            raise CorruptFileError("the table is not whole:\n" + "\n".join(lines), where)


def report_of(found: Findings, deep: bool) -> VerifyReport:
    """Convert findings to the public report."""
    from pilum.table.upkeep.verify import FaultKind

    faults: dict[FaultKind, list[Fault]] = {kind: [] for kind in FaultKind}
    for one in found.faults:
        fault = Fault(one.kind.value, one.path, one.size, one.version, one.what)
        faults[one.kind].append(fault)
    return VerifyReport(
        found.versions,
        found.files,
        found.size,
        deep,
        faults[FaultKind.MISSING],
        faults[FaultKind.DAMAGED],
        faults[FaultKind.ORPHANED],
        faults[FaultKind.MISREAD],
    )


def _line(fault: Fault) -> str:
    version = "" if fault.version is None else f"version {fault.version}: "
    what = fault.what.splitlines()[0]
    return f"{fault.kind:9}{fault.size_bytes:>15,}  {fault.path}  {version}{what}"
