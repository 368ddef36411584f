"""Which secondary indices stay when columns go."""

from __future__ import annotations

from pilum.format.pb import table_pb2
from pilum.format.schema import Schema

__all__ = ["retained_indices"]

_SYSTEM_PREFIX = "__lance_"


def retained_indices(section: bytes, schema: Schema) -> bytes:
    """An `IndexSection` without the indices that need a column which the schema does not have.

    Indices of the system, which are about no column, stay.
    """
    message = table_pb2.IndexSection.FromString(section)
    known = {field.id for field in schema.walk()}
    kept = [
        index
        for index in message.indices
        if index.name.startswith(_SYSTEM_PREFIX)
        or known.issuperset([*index.fields, *index.covering_fields])
    ]
    if len(kept) == len(message.indices):
        return section
    if not kept:
        return b""
    del message.indices[:]
    message.indices.extend(kept)
    data: bytes = message.SerializeToString(deterministic=True)
    return data
