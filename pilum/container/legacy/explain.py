"""Describe the pages of a legacy file: one per field and batch, with its size.

The page table says how many values a page has. The size of strings follows from their first and
last offsets, which is all that is read of the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.explain import PageExplanation, explained
from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.page_table import Pages
from pilum.container.legacy.plain import width_bits
from pilum.container.legacy.var_binary import is_var_binary, text_bytes
from pilum.encodings.describe import PageDescription
from pilum.format.schema import Field, FieldId
from pilum.storage.base import run_plan

__all__ = ["explain_field"]

_Sizes = NDArray[np.int64]


def explain_field(
    file: LegacyFile,
    field: Field,
    pages: Mapping[int, Pages],
    dictionaries: Mapping[FieldId, pa.Array],
    name: str,
) -> Iterator[PageExplanation]:
    """Describe the pages of a field and of all fields below it that the file has.

    Args:
        file: The file.
        field: The field.
        pages: Pages by field id.
        dictionaries: Values of the dictionary fields, by field id.
        name: Path of the field.

    Raises:
        CorruptFileError: If the offsets of strings are damaged.
    """
    own = pages.get(field.id)
    if own is not None:
        yield from _explain_pages(file, field, own, dictionaries.get(field.id), name)
    for child in field.children:
        yield from explain_field(file, child, pages, dictionaries, f"{name}.{child.name}")


def _explain_pages(
    file: LegacyFile, field: Field, pages: Pages, dictionary: pa.Array | None, name: str
) -> Iterator[PageExplanation]:
    counts = pages.lengths - int(field.is_list)
    firsts = np.cumsum(counts) - counts
    encoding, sizes = _encoding(file, field.arrow_type, pages)
    values = "" if dictionary is None else f"{len(dictionary)} values of type {dictionary.type}"
    for number, (first, count, *buffers) in enumerate(
        zip(firsts.tolist(), counts.tolist(), *(size.tolist() for size in sizes), strict=True)
    ):
        page = PageDescription("batch", encoding, count, values)
        rows = first, count
        path = file.source.path
        yield explained(path, name, field.arrow_type, number, rows, page, tuple(buffers))


def _encoding(file: LegacyFile, kind: pa.DataType, pages: Pages) -> tuple[str, list[_Sizes]]:
    """Return the encoding of the values, and the size of each buffer in all pages."""
    counts = pages.lengths
    if pt.is_null(kind):
        return "no value", []
    if pt.is_list(kind) or pt.is_large_list(kind):
        width = 64 if pt.is_large_list(kind) else 32
        return f"offsets({width})", [counts * (width // 8)]
    if is_var_binary(kind):
        return "var_binary", [run_plan(text_bytes(pages), file.source), (counts + 1) * 8]
    stored = kind.index_type if pt.is_dictionary(kind) else kind
    width = width_bits(stored)
    return f"plain({width})", [(counts * width + 7) // 8]
