"""An array under another type of the same layout, by way of Arrow's C interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pilum.format.extension import storage_type

__all__ = ["retyped"]


def retyped(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """The same buffers under another type; nothing is copied or checked.

    Types that the metadata of fields below name stay storage, which else Arrow would change.
    """
    return pa.array(_Retyped(array, storage_type(arrow_type)))


@dataclass(frozen=True, slots=True)
class _Retyped:
    """What Arrow imports: the schema of a type, the buffers of an array."""

    array: pa.Array
    arrow_type: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.arrow_type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]
