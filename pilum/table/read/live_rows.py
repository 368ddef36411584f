"""The rows of fragments as they are written again: without deleted ones, blobs with payloads.

    descriptors    inline, packed, dedicated    ──▶    data
                   external                     ──▶    uri, position, size

Payloads are in memory for a part of a batch only, so that about `_PAYLOAD_BYTES` of them are at
hand, or one that is larger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import validity_mask
from pilum.container.blobs import map_blobs
from pilum.errors import UnsupportedFeatureError, UnsupportedTypeError
from pilum.format.blobs import GIVEN_V2, BlobKind, given
from pilum.format.schema import Field, Schema
from pilum.table.model.fragment import Fragment
from pilum.table.read.blobs import payloads
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.scan import ScanOptions, scan, scan_tables
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import batches, joined_batch

__all__ = ["gathered", "live_rows", "with_payloads", "written_schema"]

_PAYLOAD_BYTES = 32 * 1024 * 1024
_GATHERED_ROWS = 8192
_GATHERED_BYTES = 1024 * 1024
_SESSION_BYTES = 4 * 1024 * 1024
"""Nobody reads the old files again, so few of them are kept open."""


def written_schema(snapshot: Snapshot) -> Schema:
    """What the rows are written with."""
    return given(snapshot.schema)


def live_rows(
    snapshot: Snapshot, fragments: Sequence[Fragment], batch_size: int | None
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of fragments that are not deleted, in order.

    Args:
        snapshot: A version that has the fragments.
        fragments: Of the version.
        batch_size: Rows per batch; None for the default.

    Yields:
        Batches of `written_schema`.

    Raises:
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If blobs refer to a base path.
    """
    part = replace(
        snapshot,
        manifest=replace(snapshot.manifest, fragments=tuple(fragments)),
        session=Session(metadata_cache_size_bytes=_SESSION_BYTES),
    )
    if snapshot.described is snapshot.schema:
        yield from gathered(scan_tables(part, ScanOptions(batch_size=batch_size)), batch_size)
        return
    for fragment in fragments:
        options = ScanOptions(batch_size=batch_size, fragment_ids=(int(fragment.id),))
        home = FragmentReader.of(part.session, snapshot.store, fragment)
        for batch in scan(part, options):
            yield from with_payloads(home, snapshot.schema, batch)


def gathered(tables: Iterable[pa.Table], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of tables: what is done per batch costs more than copying tiny ones.

    Args:
        tables: Of one schema, not empty.
        batch_size: Rows of a batch; None for the default. Only batches of small tables have more.
    """
    size = batch_size or _GATHERED_ROWS
    waiting: list[pa.Table] = []
    num_rows = num_bytes = 0
    for table in tables:
        is_small = table.num_rows < size
        if is_small:
            waiting.append(table)
            num_rows += table.num_rows
            num_bytes += table.nbytes
        if not is_small or num_rows >= _GATHERED_ROWS or num_bytes >= _GATHERED_BYTES:
            yield from _joined(waiting)
            waiting, num_rows, num_bytes = [], 0, 0
        if not is_small:
            yield from batches([table], size)
    yield from _joined(waiting)


def _joined(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    """One batch of all, if there are any and their dictionaries go together."""
    if not tables:
        return []
    try:
        return [joined_batch(pa.concat_tables(tables))]
    except UnsupportedTypeError:
        return [joined_batch(table) for table in tables]


def with_payloads(
    home: FragmentReader, schema: Schema, batch: pa.RecordBatch, written: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows with payloads in place of descriptors, a part of them at a time.

    Args:
        home: The fragment that they are of.
        schema: Of the table.
        batch: All columns, as a scan gives them.
        written: Names of columns that have the form that is written.

    Yields:
        Batches of `written_schema`.

    Raises:
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If blobs refer to a base path.
    """
    if batch.num_rows > 1 and _payload_bytes(schema, batch, written) > _PAYLOAD_BYTES:
        half = batch.num_rows // 2
        yield from with_payloads(home, schema, batch.slice(0, half), written)
        yield from with_payloads(home, schema, batch.slice(half), written)
        return
    columns = [
        column if field.name in written else map_blobs(field, column, partial(_given, home))
        for field, column in zip(schema.fields, batch.columns, strict=True)
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=given(schema).arrow)


def _payload_bytes(schema: Schema, batch: pa.RecordBatch, written: Collection[str]) -> int:
    total = 0

    def add(field: Field, descriptors: pa.Array) -> pa.Array:
        nonlocal total
        sizes = descriptors.field("size").fill_null(0).to_numpy()
        there = ~_is_external(field, descriptors) & validity_mask(descriptors)
        total += int(sizes[there].sum())
        return descriptors

    for field, column in zip(schema.fields, batch.columns, strict=True):
        if field.name not in written:
            map_blobs(field, column, add)
    return total


def _is_external(field: Field, descriptors: pa.Array) -> NDArray[np.bool_]:
    if field.blob_version == 1:
        return np.zeros(len(descriptors), np.bool_)
    kinds = descriptors.field("kind").fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray((kinds == BlobKind.EXTERNAL) & validity_mask(descriptors))


def _given(home: FragmentReader, field: Field, descriptors: pa.Array) -> pa.Array:
    """Blobs as users would write them."""
    if field.blob_version == 1:
        return payloads(home, field, descriptors)
    external = _is_external(field, descriptors)
    alive = validity_mask(descriptors)
    own = _masked(descriptors, alive & ~external)
    uris = _masked_values(descriptors, "blob_uri", external)
    if external.any() and descriptors.field("blob_id").to_numpy()[external].any():
        raise UnsupportedFeatureError(f"column {field.name!r}: blobs below a base path")
    children = [
        payloads(home, field, own),
        uris,
        _masked_values(descriptors, "position", external),
        _masked_values(descriptors, "size", external),
    ]
    fields = [member.arrow for member in GIVEN_V2]
    mask = None if alive.all() else pa.array(~alive)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _masked(descriptors: pa.Array, wanted: NDArray[np.bool_]) -> pa.Array:
    """The descriptors with nulls for those that are not wanted."""
    if wanted.all():
        return descriptors
    children = [descriptors.field(index) for index in range(descriptors.type.num_fields)]
    return pa.StructArray.from_arrays(
        children, fields=list(descriptors.type), mask=pa.array(~wanted)
    )


def _masked_values(descriptors: pa.Array, name: str, wanted: NDArray[np.bool_]) -> pa.Array:
    """A member, null where it is not wanted."""
    rows = np.arange(len(descriptors))
    return descriptors.field(name).take(pa.array(rows, mask=~wanted))
