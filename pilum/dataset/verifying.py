"""Upkeep that looks for damage: is the table whole?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING

from pilum.dataset.base import DatasetBase
from pilum.errors import CorruptFileError, PilumError

# What does the work is imported with the first check: most processes never need it.
if TYPE_CHECKING:
    from pilum.table.upkeep.verify import Findings

__all__ = ["Fault", "VerifyReport", "Verifying", "report_of"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One file that is not as it should be.

    Attributes:
        kind: "missing", "damaged", "orphaned" or "misread".
        path: Below the root of the table.
        size_bytes: Size that the file has; 0 if it is missing.
        version: A version that refers to it; None for orphans, tags and folders.
        what: In words.
    """

    kind: str
    path: str
    size_bytes: int
    version: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of a table saw; prints as a table.

    Attributes:
        num_versions: Versions that were looked at.
        num_files: Files that they refer to, manifests included.
        size_bytes: Size of those that are there.
        is_deep: Whether pages were decoded.
        missing: Files that are not there.
        damaged: Files that contradict the format, or what is recorded of them.
        orphaned: Files with names of the table's own that no version refers to; they belong to a
            commit under way, or to one that failed.
        misread: Files of the pinned version that are read rightly here, but not by every reader of
            the format; `optimize.compact_files` writes their rows again.
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
    """Methods of `LanceDataset` for looking for damage."""

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check the structure of the table; nothing is changed, and damage raises no error.

        All versions are looked at, also those of branches: manifests, transactions, the ends of
        data files and what they say of their columns, deletion files, sizes and numbers of rows as
        far as they are recorded, files of indices, tags and branches. Of the pinned version also
        whether all readers see which structs are null.

        Args:
            deep: Whether to decode all pages of the pinned version, too, and to read all payloads
                of blobs that are not outside of the table. It takes as much memory as a scan.

        Raises:
            OSError: If the store cannot be listed.
        """
        from pilum.progress import progress
        from pilum.table.upkeep.verify import verify

        snapshot = self._snapshot
        num_rows = 0
        if deep:
            with suppress(PilumError, OSError):  # which the check reports
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
    """The form for users."""
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
