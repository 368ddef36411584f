"""Write few rows of many columns of numbers or booleans: the pages of each type together.

A file of thousands of columns that gets one batch of few rows consists mostly of descriptions. The
columns that can be written together are kept until it is known whether more rows follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from pilum.blocks import NUMBERS
from pilum.container.frame import FileBody, pack_pages_without_buffers, pack_single_pages
from pilum.encodings.joined_pages import EqualColumns, JoinedPages, join_pages, scalar_layouts
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.types import PLAIN_TYPES, arrow_of_leaf
from pilum.format.version import FileVersion

__all__ = ["MANY_COLUMNS", "number_columns", "write_joined"]

MANY_COLUMNS = 16
"""Fewest columns for which it is worth it."""

_NUMBERS = frozenset(
    name for name in PLAIN_TYPES if name == "bool" or arrow_of_leaf(name).id in NUMBERS
)
_JOINED_BYTES = 1024 * 1024
"""Bytes of values that are joined at once: they are copied, and stay in the cache."""


def number_columns(schema: Schema) -> frozenset[int]:
    """Return the top-level fields that are numbers or booleans; none if they are not many."""
    found = [place for place, field in enumerate(schema.fields) if _is_number(field)]
    return frozenset(found if len(found) >= MANY_COLUMNS else ())


def _is_number(field: Field) -> bool:
    if field.children or field.metadata:
        return False
    name = field.logical_type
    if name in _NUMBERS:  # most fields; tables may have thousands of them
        return True
    return name not in PLAIN_TYPES and field.arrow_type.id in NUMBERS


def write_joined(
    body: FileBody, arrays: Mapping[int, pa.Array], version: FileVersion
) -> dict[int, bytes]:
    """Write the pages of columns of one length; return the metadata of each.

    Columns whose pages differ from those of others are left out, see `joined_pages.py`.
    """
    kinds: dict[tuple[pa.DataType, bool], list[int]] = {}
    for place, array in arrays.items():
        kinds.setdefault((array.type, array.null_count > 0), []).append(place)
    metadata: dict[int, bytes] = {}
    for (kind, _), places in kinds.items():
        row_bytes = (kind.bit_width + 7) // 8
        step = max(_JOINED_BYTES // (row_bytes * len(arrays[places[0]])), 1)
        for start in range(0, len(places), step):
            metadata.update(_write_some(body, arrays, places[start : start + step], version))
    return metadata


def _write_some(
    body: FileBody, arrays: Mapping[int, pa.Array], places: Sequence[int], version: FileVersion
) -> Iterator[tuple[int, bytes]]:
    columns = EqualColumns.of([arrays[place] for place in places])
    num_rows = columns.shape[1]
    are_alike = columns.are_alike(version)
    if are_alike.any() and columns.valid is None:
        layouts = scalar_layouts(columns.only(are_alike), version)
        alike = compress(places, are_alike)
        yield from zip(alike, pack_pages_without_buffers(layouts, num_rows), strict=True)
    differ = ~(are_alike | columns.may_have_dictionaries())
    own = list(compress(places, differ))
    if not own:
        return
    some = columns if len(own) == len(places) else columns.only(differ)
    for pages in join_pages(some, version, body.padding):
        found = _write_pages(body, pages, num_rows)
        yield from zip((own[i] for i in pages.columns.tolist()), found, strict=True)


def _write_pages(body: FileBody, pages: JoinedPages, num_rows: int) -> Iterator[bytes]:
    alignment = len(body.padding)
    padded = (pages.sizes.reshape(-1) + alignment - 1) // alignment * alignment
    offsets = np.cumsum(padded) - padded + body.aligned(pages.data)
    places = zip(offsets.reshape(-1, 2).tolist(), pages.sizes.tolist(), strict=True)
    return pack_single_pages(pages.layout, num_rows, places)
