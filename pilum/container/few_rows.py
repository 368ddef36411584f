"""Write few rows of many columns of numbers: the pages of each type together.

A file of thousands of columns that gets one batch of few rows consists mostly of descriptions. The
columns that can be written together are kept until it is known whether more rows follow. Columns
with nulls are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress

import numpy as np
import pyarrow as pa

from pilum.blocks import NUMBERS, fixed_bytes
from pilum.container.frame import FileBody, pack_pages_without_buffers, pack_single_pages
from pilum.encodings.joined_pages import (
    JoinedPages,
    join_pages,
    scalar_columns,
    scalar_layouts,
)
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

__all__ = ["MANY_COLUMNS", "number_columns", "write_joined"]

MANY_COLUMNS = 16
"""Fewest columns for which it is worth it."""


def number_columns(schema: Schema) -> frozenset[int]:
    """Return the top-level fields that are columns of numbers; none if they are not many."""
    found = [
        place
        for place, field in enumerate(schema.fields)
        if not (field.children or field.metadata) and field.arrow_type.id in NUMBERS
    ]
    return frozenset(found if len(found) >= MANY_COLUMNS else ())


def write_joined(
    body: FileBody, arrays: Mapping[int, pa.Array], version: FileVersion
) -> dict[int, bytes]:
    """Write the pages of columns of one length; return the metadata of each.

    Columns with nulls are left out.
    """
    kinds: dict[pa.DataType, list[int]] = {}
    for place, array in arrays.items():
        kinds.setdefault(array.type, []).append(place)
    metadata: dict[int, bytes] = {}
    for places in kinds.values():
        metadata.update(_write_kind(body, arrays, places, version))
    return metadata


def _write_kind(
    body: FileBody, arrays: Mapping[int, pa.Array], places: list[int], version: FileVersion
) -> Iterator[tuple[int, bytes]]:
    joined = pa.concat_arrays([arrays[place] for place in places])
    if joined.null_count:
        places = [place for place in places if not arrays[place].null_count]
        joined = pa.concat_arrays([arrays[place] for place in places] or [joined.slice(0, 0)])
    if not places:
        return
    num_rows = len(arrays[places[0]])
    bits = joined.type.bit_width
    values = fixed_bytes(joined)
    is_scalar = scalar_columns(values, bits, num_rows, version)
    if is_scalar.any():
        rows = values.reshape(len(places), num_rows, -1)
        layouts = scalar_layouts(rows[is_scalar, 0], bits // 8, num_rows, version)
        own = compress(places, is_scalar)
        yield from zip(own, pack_pages_without_buffers(layouts, num_rows), strict=True)
        values = rows[~is_scalar].reshape(-1)
        places = list(compress(places, ~is_scalar))
    if not places:
        return
    for pages in join_pages(values, bits, num_rows, version, body.padding):
        found = _write_pages(body, pages, num_rows)
        yield from zip((places[i] for i in pages.columns.tolist()), found, strict=True)


def _write_pages(body: FileBody, pages: JoinedPages, num_rows: int) -> Iterator[bytes]:
    alignment = len(body.padding)
    padded = (pages.sizes.reshape(-1) + alignment - 1) // alignment * alignment
    offsets = np.cumsum(padded) - padded + body.aligned(pages.data)
    places = zip(offsets.reshape(-1, 2).tolist(), pages.sizes.tolist(), strict=True)
    return pack_single_pages(pages.layout, num_rows, places)
