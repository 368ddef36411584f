"""Registration of extension types with Arrow, which has one registry for each process."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

__all__ = ["register"]


def register(*types: pa.ExtensionType) -> None:
    """Register types, except those whose name another library has registered already."""
    for kind in types:
        with suppress(pa.ArrowKeyError):
            pa.register_extension_type(kind)
