"""Comments of columns: the entry "comment" of the metadata of a field."""

from __future__ import annotations

import pyarrow as pa

import pilum

__all__ = ["comment_of", "set_comments"]

_KEY = "comment"


def comment_of(field: pa.Field) -> str | None:
    """Return the comment of a column; None if it has none."""
    text = (field.metadata or {}).get(_KEY.encode())
    return None if text is None else text.decode(errors="replace")


def set_comments(table: pilum.LanceDataset, comments: dict[str, str]) -> None:
    """Set the comments of columns, by name or path, with one commit; nothing if there are none."""
    if comments:
        table.update_field_metadata({path: {_KEY: text} for path, text in comments.items()})
