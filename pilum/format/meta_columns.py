"""Names of the meta columns, which no schema lists: information that a table has about its rows.

"_rowid"                         the stable id; the address in tables without stable row ids
"_rowaddr"                       fragment id << 32 | physical row in the fragment
"_rowoffset"                     position among all rows that are not deleted, from 0
"_row_created_at_version"        the version that created the row, 1 if it was not recorded
"_row_last_updated_at_version"   the version that last changed it, 1 if it was not recorded

All are uint64 without nulls. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

__all__ = [
    "CREATED_AT_VERSION",
    "META_COLUMNS",
    "ROW_ADDRESS",
    "ROW_ID",
    "ROW_OFFSET",
    "UPDATED_AT_VERSION",
]

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
CREATED_AT_VERSION = "_row_created_at_version"
UPDATED_AT_VERSION = "_row_last_updated_at_version"

META_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET, CREATED_AT_VERSION, UPDATED_AT_VERSION)
