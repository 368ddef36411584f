"""Batches of Arrow as tensors, which share memory where `pilum.training.numpy_columns` does.

uint64                 int64, with the same bits
bfloat16               torch.bfloat16; nulls are NaN
tensors of one shape   (n, size), flat
images                 lists of images, as Hugging Face describes them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import torch

from pilum.errors import UnsupportedTypeError
from pilum.training.arrays import is_bfloat16, items_of, numpy_array

__all__ = ["Converter", "ToTensorFn", "tensor_of", "to_tensors"]

_KINDS = (pt.is_integer, pt.is_floating, pt.is_boolean)
"""Types that tensors can have."""


class Converter(Protocol):
    """Converts columns that Hugging Face describes; such as `pilum.hf.HuggingFaceConverter`."""

    def to_pytorch(self, col: str, array: pa.Array) -> Any:
        """Return the values of a column; None if there is no description of it."""


class ToTensorFn(Protocol):
    """Converts a batch, or its columns by name if some of them are lists of blobs."""

    def __call__(
        self,
        batch: Any,
        *,
        hf_converter: Any = None,
        use_blob_api: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return what the dataset returns for the batch."""


def to_tensors(
    batch: pa.RecordBatch | Mapping[str, Any],
    *,
    uint64_as_int64: bool = True,
    hf_converter: Converter | None = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> Any:
    """Return the tensors of a batch by name; the tensor alone if there is one column.

    Args:
        batch: The batch, or its columns by name.
        uint64_as_int64: Whether columns of uint64 become int64, which more operations take.
        hf_converter: Converts columns that have no tensors.
        use_blob_api: Whether there are columns of blobs.
        **kwargs: Is ignored.

    Raises:
        UnsupportedTypeError: If a column has no tensors.
        InvalidInputError: If a column has nulls that no tensor can have.
    """
    del kwargs
    found = {
        field.name: _converted(column, field, uint64_as_int64, hf_converter)
        for field, column in _fields(batch)
    }
    return next(iter(found.values())) if len(found) == 1 else found


def _fields(batch: pa.RecordBatch | Mapping[str, Any]) -> Iterable[tuple[pa.Field, Any]]:
    if isinstance(batch, Mapping):
        named = batch.items()
        return [(pa.field(name, getattr(one, "type", pa.null())), one) for name, one in named]
    return zip(batch.schema, batch.columns, strict=True)


def _converted(column: Any, field: pa.Field, as_int64: bool, converter: Converter | None) -> Any:
    if not isinstance(column, pa.Array):
        raise UnsupportedTypeError(
            f"column {field.name!r} has blobs: pass a to_tensor_fn that reads and converts them"
        )
    found = tensor_of(column, field, uint64_as_int64=as_int64)
    if found is None and converter is not None:
        found = converter.to_pytorch(field.name, column)
    if found is None:
        raise UnsupportedTypeError(
            f"column {field.name!r}: {column.type} has no tensor; leave it out of the columns, or "
            "pass a to_tensor_fn that converts it"
        )
    return found


def tensor_of(column: pa.Array, field: pa.Field, *, uint64_as_int64: bool = True) -> Any:
    """Return a column as a tensor, or None if its type has none."""
    if isinstance(column.type, pa.FixedShapeTensorType):
        column = column.storage
        field = field.with_type(column.type)
    kind = items_of(field)
    if is_bfloat16(kind):
        return torch.from_numpy(numpy_array(column, field).view(np.int16)).view(torch.bfloat16)
    if not any(is_kind(kind.type) for is_kind in _KINDS):
        return None
    values = numpy_array(column, field)
    if values.dtype == np.uint64 and uint64_as_int64:
        values = values.view(np.int64)
    return torch.from_numpy(values)
