"""The offsets in a stream's checkpoint: Spark logs the end of each micro-batch as JSON.

    {"version": 7, "fragment": 2, "snapshot": false,          the offset
     "began": {"version": 5, "fragment": 0, "snapshot": true},
     "table": {"version": 6, "timestamp_ns": 1763…, "transaction": "5-3b0c….txn"},
     "columns": {"id": 0, "text": 1}}

Spark does not log the beginning: it asks for it again whenever it plans the first batch. So the end
of the first batch records where the query began, and all later offsets repeat it. `table` is the
newest version that the offset has reached. `columns` are the ids of the fields that the query
reads. Older releases logged the first line only; such offsets can still be read. Source:
docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pilum.spark.stream_offsets import BEGINNING, Offset, foreign_offset
from pilum.table.change_feed.steps import Mark

__all__ = ["LoggedOffset"]


@dataclass(frozen=True, slots=True)
class LoggedOffset:
    """The logged end of a micro-batch, with the state of the query.

    Attributes:
        offset: The position in the history of the table.
        began: Where the query began; None in logs of older releases.
        table: The newest version that the offset has reached; None if there was none, or if it is
            unknown.
        columns: Ids of the fields that the query reads, by path; None in logs of older releases.
    """

    offset: Offset
    began: Offset | None = None
    table: Mark | None = None
    columns: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the checkpoint. Spark compares the texts: the order is fixed."""
        values = self.offset.to_json()
        if self.began is not None:
            values["began"] = self.began.to_json()
        if self.table is not None:
            values["table"] = self.table.to_json()
        if self.columns is not None:
            values["columns"] = dict(self.columns)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LoggedOffset:
        """Parse an offset that `to_json` of this release or an older one wrote.

        Raises:
            InvalidInputError: If it is not such an offset.
        """
        offset = Offset.from_json(values)
        began, table, columns = (values.get(name) for name in ("began", "table", "columns"))
        try:
            return cls(
                offset,
                None if began is None else Offset.from_json(began),
                None if table is None else Mark.from_json(table),
                None if columns is None else {str(k): int(v) for k, v in columns.items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise foreign_offset(values) from error

    @property
    def begins(self) -> bool:
        """Return whether nothing has been read yet."""
        return self.offset == BEGINNING

    @property
    def last_version(self) -> int:
        """Return the newest version that the offset has reached; 0 if there is none."""
        offset = self.offset
        return offset.version if offset.fragment or offset.snapshot else offset.version - 1
