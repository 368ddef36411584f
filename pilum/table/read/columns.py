"""The columns of a scan: how each is read and named.

"a"         the column a
"s.x"       a column named "s.x": member x of the struct s, null where s is
"_rowid"    and others that no file has: see `pilum.table.read.meta_columns`
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pilum.format.schema import Field, Schema
from pilum.table.model.stored_sequence import CREATED_AT, ROW_IDS, UPDATED_AT

__all__ = [
    "META_COLUMNS",
    "ROW_ADDRESS",
    "ROW_ID",
    "ROW_OFFSET",
    "ScanColumn",
    "scan_columns",
]

ROW_ID = ROW_IDS.column
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
META_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET, CREATED_AT.column, UPDATED_AT.column)


class ScanColumn:
    """One column of a scan.

    Attributes:
        name: As it is asked for and given.
        field: The top-level field to read, with only the wanted members; None for
            columns that no file has.
        leaf: What is given of it: the field itself or one of its members.
        arrow: Of the values given.
    """

    def __init__(self, schema: Schema, name: str) -> None:
        self.name = name
        self.field: Field | None = None
        self.leaf: Field | None = None
        self._members: list[str] = []
        if name in schema.by_name:
            self.field = self.leaf = schema.by_name[name]
            self.arrow = self.field.arrow
            return
        if name in META_COLUMNS:
            self.arrow = pa.field(name, pa.uint64())
            return
        self.field = member = schema.project([name]).fields[0]
        nullable = member.nullable
        self._members = name.split(".")[1:]
        for _ in self._members:
            member = member.children[0]
            nullable = nullable or member.nullable
        self.leaf = member
        self.arrow = member.arrow.with_name(name).with_nullable(nullable)

    def pick(self, array: pa.Array) -> pa.Array:
        """The wanted member of what was read."""
        return pc.struct_field(array, self._members) if self._members else array


def scan_columns(schema: Schema, names: Iterable[str]) -> list[ScanColumn]:
    """Resolves names.

    Raises:
        ColumnNotFoundError: If one leads nowhere.
    """
    return [ScanColumn(schema, name) for name in names]
