"""The columns of a scan: how each of them is read and named.

"a"         the column a
"s.x"       a column named "s.x": member x of the struct s, null where s is
"_rowid"    and other columns that are in no file: see `pilum.format.meta_columns`
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pilum.format.meta_columns import META_COLUMNS
from pilum.format.schema import Field, Schema

__all__ = [
    "ScanColumn",
    "scan_columns",
]


class ScanColumn:
    """A column of a scan.

    Attributes:
        name: Name in the request and in the result.
        field: The top-level field to read, reduced to the requested members; None for columns that
            are in no file.
        leaf: The part of `field` that is returned: the field itself or one of its members.
        arrow: Arrow field of the returned values.
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
        """Return the requested member of a column that was read."""
        return pc.struct_field(array, self._members) if self._members else array


def scan_columns(schema: Schema, names: Iterable[str]) -> list[ScanColumn]:
    """Resolve column names.

    Raises:
        ColumnNotFoundError: If a column does not exist.
    """
    return [ScanColumn(schema, name) for name in names]
