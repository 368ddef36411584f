"""Operations that only other writers commit, reduced to what may conflict with own commits.

They are read from the transactions of versions that came in between, never applied or written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind, Resource

__all__ = ["FOREIGN_OPERATIONS", "ForeignOperation"]


@dataclass(frozen=True, slots=True)
class ForeignOperation:
    """An operation of another writer, reduced to its footprint."""

    arm: str
    changes: Footprint

    def footprint(self) -> Footprint:
        """Return what the operation changes; its writer checks what it relies on."""
        return self.changes


def _nothing_of_ours(_: Any) -> Footprint:
    return Footprint()


_NEW_VALUES = frozenset({Resource(Kind.ROWS), Resource(Kind.WRITTEN_VALUES)})


def _data_overlay(_: transaction_pb2.Transaction.DataOverlay) -> Footprint:
    return Footprint(changes=_NEW_VALUES)


def _mem_wal(_: transaction_pb2.Transaction.UpdateMemWalState) -> Footprint:
    return Footprint.of(changes=(Kind.MEMTABLES,))


FOREIGN_OPERATIONS: Mapping[str, Callable[[Any], Footprint]] = {
    "update_mem_wal_state": _mem_wal,
    "data_overlay": _data_overlay,
}
"""Field name in the `Transaction` message -> the changes of its message that matter to us."""
