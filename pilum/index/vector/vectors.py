"""Arrow columns of vectors as matrices.

    fixed_size_list<float32, 128>          one vector per row
    fixed_shape_tensor[float32, [128]]     the same
    list<fixed_size_list<float32, 128>>    any number of vectors per row ("multi-vector")

Elements are float16, float32, float64, uint8 or int8. Source: docs/format/vector-indices.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import storage_type
from pilum.blocks import number_array, number_values, validity_mask
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.index.vector.metrics import Metric

__all__ = [
    "Matrix",
    "VectorType",
    "matrix",
    "normalized",
    "require_query",
    "unnested",
    "usable",
    "vector_column",
]

Matrix: TypeAlias = NDArray[Any]
"""Vectors as rows, shape (n, D)."""

_DTYPES: dict[pa.DataType, np.dtype[Any]] = {
    pa.float16(): np.dtype(np.float16),
    pa.float32(): np.dtype(np.float32),
    pa.float64(): np.dtype(np.float64),
    pa.uint8(): np.dtype(np.uint8),
    pa.int8(): np.dtype(np.int8),
}


@dataclass(frozen=True)
class VectorType:
    """The type of a column of vectors.

    Attributes:
        dtype: Type of the elements.
        dimension: Number of elements of a vector.
        is_multi: Whether a row has a list of vectors.
    """

    dtype: np.dtype[Any]
    dimension: int
    is_multi: bool = False

    @classmethod
    def of(cls, column: str, type: pa.DataType) -> VectorType:
        """Return the type of a column.

        Args:
            column: Name of the column, for the error.
            type: Its Arrow type.

        Raises:
            UnsupportedTypeError: If it is not a column of vectors.
        """
        if isinstance(type, pa.BaseExtensionType) and "bfloat16" in str(type):
            raise _unsupported(column, type)
        stored = storage_type(type)
        is_multi = pt.is_list(stored) or pt.is_large_list(stored)
        vector = stored.value_type if is_multi else stored
        if not pt.is_fixed_size_list(vector) or vector.value_type not in _DTYPES:
            raise _unsupported(column, type)
        if vector.list_size == 0:
            raise _unsupported(column, type)
        return cls(_DTYPES[vector.value_type], vector.list_size, is_multi)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of one vector."""
        return pa.list_(pa.from_numpy_dtype(self.dtype), self.dimension)

    @property
    def is_binary(self) -> bool:
        """Whether elements are bytes of bits, which are compared by hamming only."""
        return self.dtype == np.uint8


def _unsupported(column: str, type: pa.DataType) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {column!r} has type {type}; nearest vectors are searched in columns of type "
        "fixed_size_list of float16, float32, float64, uint8 or int8, and in lists of them"
    )


def matrix(array: pa.Array | pa.ChunkedArray) -> tuple[Matrix, NDArray[np.bool_] | None]:
    """Return vectors as a matrix, without copying if the array is one aligned chunk.

    Args:
        array: Fixed-size lists, or tensors of a fixed shape.

    Returns:
        The vectors of shape (n, D), where those of null rows have any value; and which rows are
        neither null nor have a null element, None if all rows are so.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    width = array.type.list_size
    # `values` includes the items of null rows, and those before the offset.
    items = array.values.slice(array.offset * width, len(array) * width)
    valid = None if not array.null_count else validity_mask(array)
    if items.null_count:
        valid = _both(valid, np.asarray(validity_mask(items).reshape(-1, width).all(axis=1)))
    dtype = _DTYPES[items.type]
    buffer = items.buffers()[1]
    if buffer is None or not len(items):
        return np.empty((len(array), width), dtype), valid
    flat = np.frombuffer(buffer, dtype, len(items), items.offset * dtype.itemsize)
    return np.require(flat.reshape(len(array), width), requirements="A"), valid


def unnested(array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the vectors of lists of vectors, and the row that each belongs to.

    Args:
        array: Lists of fixed-size lists; a null has no vectors.

    Returns:
        The vectors, and an int64 array of the same length.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    lengths = number_values(array.value_lengths())
    return array.flatten(), np.repeat(np.arange(len(array)), lengths)


def vector_column(vectors: Matrix) -> pa.FixedSizeListArray:
    """Return vectors as an Arrow array, without copying if they are contiguous."""
    flat = number_array(vectors.reshape(-1))
    field = pa.field("item", flat.type)
    return pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(field, vectors.shape[1]))


def usable(
    vectors: Matrix, valid: NDArray[np.bool_] | None, metric: Metric
) -> NDArray[np.bool_] | None:
    """Return which vectors an index contains; None if it contains all of them.

    Null rows and vectors with an element that is not finite are left out; for cosine, also
    vectors of length 0.
    """
    found = valid
    if vectors.dtype.kind == "f" and len(vectors):
        found = _both(found, _finite(vectors))
        if metric is Metric.COSINE:
            found = _both(found, np.asarray(vectors.any(axis=1)))
    return None if found is None or found.all() else found


def _finite(vectors: Matrix) -> NDArray[np.bool_]:
    if vectors.dtype == np.float16:
        return np.asarray(np.isfinite(vectors).all(axis=1))
    with np.errstate(all="ignore"):
        finite = np.isfinite(vectors.sum(axis=1))
    doubtful = np.flatnonzero(~finite)  # the sum of large numbers may overflow
    finite[doubtful] = np.isfinite(vectors[doubtful]).all(axis=1)
    return np.asarray(finite)


def _both(left: NDArray[np.bool_] | None, right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return right if left is None else left & right


def normalized(vectors: Matrix) -> Matrix:
    """Return vectors scaled to length 1, in the same element type; those of length 0 become NaN.

    Args:
        vectors: Shape (n, D) or (D,).
    """
    wide = vectors.astype(np.float32) if vectors.dtype == np.float16 else vectors
    with np.errstate(all="ignore"):
        squares = np.einsum("...i,...i->...", wide, wide)
        found = wide / np.sqrt(squares)[..., None]
        limits = np.finfo(wide.dtype)
        doubtful = ~((squares >= limits.tiny / limits.eps) & (squares <= limits.max))
        if doubtful.any():  # their squares are not among the numbers of the type
            rows = wide[doubtful] / np.abs(wide[doubtful]).max(axis=-1, keepdims=True)
            found[doubtful] = rows / np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]
    return np.asarray(found.astype(vectors.dtype, copy=False))


def require_query(query: Any, type: VectorType, column: str) -> Matrix:
    """Return a query, or several, in the element type of a column.

    Args:
        query: Anything that is an array of numbers, of shape (D,) or (b, D).
        type: The type of the column.
        column: Its name, for errors.

    Returns:
        An array of the same shape, contiguous.

    Raises:
        InvalidInputError: If it is not, or its dimension differs from that of the column.
    """
    if _is_vector(query, type):
        return np.asarray(query)
    try:
        found = np.asarray(_plain(query))
        if found.dtype == object:
            found = np.asarray([np.asarray(_plain(one), np.float64) for one in found])
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidInputError(f"query for column {column!r}: {error}") from error
    if found.dtype.kind not in "fiu" or found.ndim not in (1, 2) or found.size == 0:
        raise InvalidInputError(
            f"query for column {column!r}: expected numbers of shape ({type.dimension},) or "
            f"(any, {type.dimension}), found {found.dtype} of shape {found.shape}"
        )
    if found.shape[-1] != type.dimension:
        raise InvalidInputError(
            f"Query vector size {found.shape[-1]} does not match index column size "
            f"{type.dimension} of column {column!r}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.ascontiguousarray(found.astype(type.dtype, copy=False))
    if type.dtype.kind in "iu" and not np.array_equal(own, found):
        limits = np.iinfo(type.dtype)
        raise InvalidInputError(
            f"query for column {column!r}: expected integers from {limits.min} to {limits.max}, as "
            f"elements are {type.dtype}"
        )
    return own


def _is_vector(query: Any, type: VectorType) -> bool:
    """Return whether a query is one vector already, as `require_query` returns it."""
    if query.__class__ is not np.ndarray or query.dtype != type.dtype:
        return False
    return bool(query.shape == (type.dimension,) and query.flags.c_contiguous)


def _plain(query: Any) -> Any:
    """Return Arrow values, and those that offer the array protocol, as arrays."""
    if isinstance(query, pa.Scalar):
        return query.as_py()
    if isinstance(query, (pa.Array, pa.ChunkedArray)):
        if isinstance(query, pa.ChunkedArray):
            query = query.combine_chunks()
        if isinstance(query.type, pa.BaseExtensionType):
            query = query.storage
        if pt.is_fixed_size_list(query.type):
            return matrix(query)[0]
        if pt.is_list(query.type) or pt.is_large_list(query.type):
            return query.to_pylist()
        return query.to_numpy(zero_copy_only=False)
    return query
