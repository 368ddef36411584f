"""Arrow has one registry of extension types, which this package and the reference both fill."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import pyarrow as pa

import pilum.arrow
from pilum.arrow.registration import register

OURS: list[pa.ExtensionType] = [
    pilum.arrow.BFloat16Type(),
    pilum.arrow.ImageURIType(),
    pilum.arrow.EncodedImageType(),
    pilum.arrow.FixedShapeImageTensorType(pa.uint8(), (0,)),
]


def reference_arrow() -> Any:
    """Import `lance.arrow`, which fails where others have its names, and register ours again."""
    _unregister()
    module = importlib.import_module("lance.arrow")
    _unregister()
    register(*OURS)
    return module


def _unregister() -> None:
    for kind in OURS:
        with suppress(pa.ArrowKeyError):
            pa.unregister_extension_type(kind.extension_name)
