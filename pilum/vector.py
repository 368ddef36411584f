"""Tables of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.errors import InvalidInputError

__all__ = ["vec_to_table"]


def vec_to_table(
    data: Mapping[str, Any] | Sequence[Any] | Any,
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """Return vectors as a table with a column of fixed-size lists of float32.

    Args:
        data: A dict from ids to vectors, a list of vectors, or an array of shape (n, D).
        names: Names of the columns: of ids and vectors for a dict, "id" and "vector" by default;
            otherwise of vectors, "vector" by default.
        ndim: Number of elements of a vector; None for that of the first one.
        check_ndim: Whether all vectors are checked to have as many; otherwise longer ones are
            cut into several rows.

    Raises:
        InvalidInputError: If a vector has another number of elements, or names do not fit.
    """
    is_named = isinstance(data, Mapping)
    columns = ["id", "vector"] if is_named else ["vector"]
    if names is not None:
        columns = [names] if isinstance(names, str) else list(names)
        if len(columns) != (2 if is_named else 1):
            raise InvalidInputError(f"names: {columns} do not fit; a dict has two, others have one")
    given = data.values() if isinstance(data, Mapping) else data
    rows = [np.asarray(one, np.float32).reshape(-1) for one in given]
    width = ndim if ndim is not None else (len(rows[0]) if rows else 0)
    if width < 1:
        raise InvalidInputError(f"ndim: vectors of {width} elements")
    if check_ndim and (wrong := {len(one) for one in rows} - {width}):
        raise InvalidInputError(f"vectors of {sorted(wrong)} elements, expected {width}")
    elements = np.concatenate(rows) if rows else np.empty(0, np.float32)
    if len(elements) % width:
        raise InvalidInputError(f"{len(elements)} elements are no vectors of {width}")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(elements), width)
    arrays = [pa.array(list(data)), vectors] if is_named else [vectors]
    return pa.table(arrays, names=columns)
