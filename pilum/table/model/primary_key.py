"""The primary key of a table: columns that metadata name; nobody checks that it is unique."""

from __future__ import annotations

from pilum.errors import InvalidInputError
from pilum.format.schema import Field, Schema

__all__ = ["require_sound_keys"]


def require_sound_keys(schema: Schema) -> None:
    """Checks that the key is never null; there are readers that refuse such tables.

    Raises:
        InvalidInputError: If a column of it may be null, or what is around one.
    """
    for field in schema.fields:
        _require_values(field, field.name, nullable=False)


def _require_values(field: Field, path: str, *, nullable: bool) -> None:
    nullable = nullable or field.nullable
    if field.is_key and nullable:
        raise InvalidInputError(
            f"column {path!r} is in the primary key, so it and what is around it must not be "
            "nullable"
        )
    for child in field.children:
        _require_values(child, f"{path}.{child.name}", nullable=nullable)
