"""The forms in which scans return strings and bytes, apart from that of the table.

    "views"           16 bytes each, which contain a string of up to 12 bytes or refer to a longer
                      one; the strings themselves stay where they were decoded
    "dictionaries"    an int32 key each, and the distinct strings of a page

They are types of results only: no file stores them, and no schema of a table has them for this.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa

__all__ = ["TEXT_FORMS", "TEXT_NAMES", "TextForm", "formed", "has_forms"]

TextForm: TypeAlias = Literal["views", "dictionaries"]
"""The form in which a scan returns strings and bytes."""

TEXT_FORMS: tuple[TextForm, ...] = ("views", "dictionaries")

TEXT_NAMES = frozenset({"string", "large_string", "binary", "large_binary"})
"""The logical types that have these forms."""

_VIEWS = {
    pa.string(): pa.string_view(),
    pa.large_string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.large_binary(): pa.binary_view(),
}


def has_forms(arrow: pa.DataType) -> bool:
    """Return whether values of a type, not of types below it, are strings or bytes."""
    return arrow in _VIEWS


def formed(arrow: pa.DataType, form: TextForm) -> pa.DataType:
    """Return the type of strings or bytes in a form."""
    return _VIEWS[arrow] if form == "views" else pa.dictionary(pa.int32(), arrow)
