"""Zone maps of batches from page statistics, for filters.

Statistics describe the values that were written; filters see the values that are read. Where the
format loses nulls, the two differ, so a batch with nulls is unknown. Where it turns empty strings
into nulls, an empty minimum denotes nulls. Source: docs/format/legacy.md, "Statistics".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.legacy.file import LegacyFile, page_owners, read_field
from pilum.container.legacy.slots import Slots
from pilum.container.legacy.statistics import MAX_VALUE, MIN_VALUE, NULL_COUNT
from pilum.container.legacy.var_binary import is_var_binary
from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.expressions.prune import Zones
from pilum.format.schema import Field
from pilum.storage.base import run_plan

__all__ = ["read_zones"]


def read_zones(file: LegacyFile, field: Field) -> Zones | None:
    """Return the zone map of a column; None if it has no statistics.

    Raises:
        CorruptFileError: If the statistics are damaged.
    """
    found = file.statistics_field(field.id)
    if found is None:
        return None
    try:
        return _zones(field, _read(file, found), file.metadata.batch_bounds)
    except CorruptFileError as error:
        raise error.at(f"statistics of column {field.name!r}").at(file.source.path) from None


def _read(file: LegacyFile, statistics: Field) -> pa.StructArray:
    """Read the statistics of a column, one row per batch."""
    assert file.metadata.statistics is not None
    first = min(file.metadata.statistics.message.fields, default=0)
    table = file.statistics_table(first)
    pages = run_plan(table.read(owner.id for owner in page_owners(statistics)), file.source)
    num_batches = file.metadata.num_batches
    whole = all((own.lengths == num_batches).all() for own in pages.values())
    demand(whole, f"rows: expected {num_batches}, one per batch")
    slots = Slots.of_batches(np.array([num_batches], dtype=np.int64))
    return run_plan(read_field(statistics, pages, {}, slots), file.source)


def _zones(field: Field, found: pa.StructArray, bounds: NDArray[np.int64]) -> Zones | None:
    members = {member.name: found.field(index) for index, member in enumerate(found.type)}
    least, most, counts = (members.get(name) for name in (MIN_VALUE, MAX_VALUE, NULL_COUNT))
    if least is None or most is None or counts is None:
        return None
    if least.type != field.arrow_type or most.type != least.type or counts.type != pa.int64():
        return None
    num_nulls = counts.to_numpy()
    if is_var_binary(field.arrow_type):
        return _of_strings(field.nullable, least, most, num_nulls, bounds)
    never, always = np.zeros(len(num_nulls), np.bool_), np.ones(len(num_nulls), np.bool_)
    known = Zones(
        bounds, _unless(num_nulls > 0, least), _unless(num_nulls > 0, most), never, always
    )
    if not pt.is_floating(least.type):
        return known
    return replace(known, least=_without_nan(known.least), most=_without_nan(known.most))


def _of_strings(
    nullable: bool,
    least: pa.Array,
    most: pa.Array,
    num_nulls: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> Zones:
    no_bytes = [np.asarray(pc.binary_length(ends).fill_null(0)) == 0 for ends in (least, most)]
    # An empty maximum is unknown; an empty minimum is unknown or empty, which is as low.
    return Zones(
        bounds,
        least,
        _unless(no_bytes[1], most),
        ((num_nulls > 0) | no_bytes[0]) & nullable,
        (num_nulls < np.diff(bounds)) | (not nullable),
    )


def _unless(unknown: NDArray[np.bool_], ends: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(unknown), pa.scalar(None, ends.type), ends)


def _without_nan(ends: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(ends), pa.scalar(None, ends.type), ends)
