"""Folders of the segments that one call builds: their uuids start alike, so lost ones are found.

    bytes 0 to 9    of the call        10    round        11 to 13    task        14, 15    attempt

An attempt that is killed, or whose result does not count, leaves a folder that no version refers
to. When its call ends, the driver deletes all folders of the call except those that it needs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from pilum.distributed.jobs import Attempt
from pilum.storage.base import Store
from pilum.table.model.names import INDICES_FOLDER, index_folder
from pilum.tracing import JOB_EVENTS, emit

__all__ = ["SegmentFolders"]

_CALL_BYTES = 10
_CALL_TEXT = 24
"""Length of the bytes of a call in the text of a uuid, with hyphens."""


@dataclass(frozen=True)
class SegmentFolders:
    """The folders of the segments of one call; picklable.

    Attributes:
        call: Uuid of the call.
    """

    call: UUID = field(default_factory=uuid4)

    def uuid(self, attempt: Attempt, round: int = 0) -> UUID:
        """Return the uuid of the segment of an attempt in a round of tasks."""
        own = bytes([round]) + attempt.task.to_bytes(3) + attempt.number.to_bytes(2)
        return UUID(bytes=self.call.bytes[:_CALL_BYTES] + own)

    def sweep(self, store: Store, kept: Collection[str]) -> None:
        """Delete the folders of the call, except those with the given uuids."""
        start = str(self.call)[:_CALL_TEXT]
        for uuid in [*store.folders(INDICES_FOLDER)]:
            if uuid.startswith(start) and uuid not in kept:
                names = [*store.names(index_folder(uuid))]
                for name in names:
                    store.delete(f"{index_folder(uuid)}/{name}")
                emit(JOB_EVENTS, event="swept", uri=store.uri, files=len(names))
