"""The columns of a scan: how each is read and named.

"a"         the column a
"s.x"       a column named "s.x": member x of the struct s, null where s is
"_rowid"    uint64, the row's address as long as ids are not stable
"_rowaddr"  uint64, fragment id << 32 | physical row in the fragment
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.format.schema import Field, Schema

__all__ = ["ROW_ADDRESS", "ROW_ID", "ScanColumn", "addresses", "scan_columns"]

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"


class ScanColumn:
    """One column of a scan.

    Attributes:
        name: As it is asked for and given.
        field: The top-level field to read, with only the wanted members; None for row ids.
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
        if name in (ROW_ID, ROW_ADDRESS):
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


def addresses(fragment_id: int, rows: NDArray[np.int64]) -> pa.Array:
    """Addresses of physical rows of a fragment, uint64."""
    return pa.array(rows.astype(np.uint64) + (np.uint64(fragment_id) << np.uint64(32)))
