"""The primary key of a table: columns marked in the schema metadata; uniqueness is not checked."""

from __future__ import annotations

from pilum.errors import InvalidInputError
from pilum.format.schema import Field, Schema

__all__ = ["require_sound_keys"]


def require_sound_keys(schema: Schema) -> None:
    """Check that the key can never be null; some readers refuse tables where it can.

    Raises:
        InvalidInputError: If a column of the key, or one that contains it, is nullable.
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
