"""Registration of extension types with Arrow, which has one registry for each process."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from pilum.errors import CorruptFileError

__all__ = ["register", "with_storage"]


def register(*types: pa.ExtensionType) -> None:
    """Register types, except those whose name another library has registered already."""
    for kind in types:
        with suppress(pa.ArrowKeyError):
            pa.register_extension_type(kind)


def with_storage(kind: pa.ExtensionType, storage_type: pa.DataType) -> pa.ExtensionType:
    """Return a type that a file names for values; CorruptFileError is raised if these differ.

    Arrow does not compare them, and would read beyond the end of smaller values.
    """
    if kind.storage_type != storage_type:
        raise CorruptFileError(
            f"{kind.extension_name}: expected values of {kind.storage_type}, found {storage_type}"
        )
    return kind
