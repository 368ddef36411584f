"""Rows of fragments in the form in which they are rewritten: live rows, blobs with payloads.

    descriptors    inline, packed, dedicated, managed    ──▶    data
                   external                              ──▶    uri (absolute), position, size

A compaction of a table with managed blobs copies inline payloads only, and refers to the others:

    descriptors    inline                                ──▶    data
                   packed, dedicated                     ──▶    managed: the former sidecar
                   managed, external                     ──▶    the same place

Payloads are loaded for a part of a batch at a time, so that about `_PAYLOAD_BYTES` of them are in
memory, or a single larger one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.blocks import validity_mask
from pilum.container.blobs import distinct_uris, map_blobs
from pilum.errors import UnsupportedTypeError
from pilum.format.blobs import GIVEN_V2, PREPARED_V2, BlobKind, given, prepared
from pilum.format.fields import Field
from pilum.format.rows import BATCH_ROWS
from pilum.format.schema import Schema
from pilum.storage.open import object_uri
from pilum.table.model.base_paths import data_file_place
from pilum.table.model.fragment import Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.names import sidecar_beside
from pilum.table.read.blobs import payloads
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.scan import ScanOptions, scan, scan_tables
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import batches, joined_batch

__all__ = ["gathered", "live_rows", "with_payloads"]

_PAYLOAD_BYTES = 32 * 1024 * 1024
_GATHERED_BYTES = 1024 * 1024
_SESSION_BYTES = 4 * 1024 * 1024
"""Cache size of the session; it is small because the old files are not read again."""


def live_rows(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    batch_size: int | None,
    *,
    refers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of fragments that are not deleted, in order, as `Snapshot.written` has them.

    If `refers`, blobs of version 2 are prepared descriptors: only inline payloads are read.
    """
    part = replace(
        snapshot,
        manifest=replace(snapshot.manifest, fragments=Fragments(fragments)),
        session=Session(metadata_cache_size_bytes=_SESSION_BYTES),
    )
    if snapshot.described is snapshot.schema:
        yield from gathered(scan_tables(part, ScanOptions(batch_size=batch_size)), batch_size)
        return
    for fragment in fragments:
        options = ScanOptions(batch_size=batch_size, fragment_ids=(int(fragment.id),))
        home = part.reader(fragment)
        for batch in scan(part, options):
            yield from with_payloads(home, snapshot.schema, batch, refers=refers)


def gathered(tables: Iterable[pa.Table], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    """Merge small tables into batches, as the cost per batch exceeds that of copying tiny ones.

    The tables are not empty and have one schema. Only batches of small tables can have more rows
    than requested.
    """
    size = batch_size or BATCH_ROWS
    waiting: list[pa.Table] = []
    num_rows = num_bytes = 0
    for table in tables:
        is_small = table.num_rows < size
        if is_small:
            waiting.append(table)
            num_rows += table.num_rows
            num_bytes += table.nbytes
        if not is_small or num_rows >= BATCH_ROWS or num_bytes >= _GATHERED_BYTES:
            yield from _joined(waiting)
            waiting, num_rows, num_bytes = [], 0, 0
        if not is_small:
            yield from batches([table], size)
    yield from _joined(waiting)


def _joined(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    """Join tables into one batch; one batch each if their dictionaries are not compatible."""
    if not tables:
        return []
    try:
        return [joined_batch(pa.concat_tables(tables))]
    except UnsupportedTypeError:
        return [joined_batch(table) for table in tables]


def with_payloads(
    home: FragmentReader,
    schema: Schema,
    batch: pa.RecordBatch,
    written: Collection[str] = (),
    *,
    refers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Replace blob descriptors by their payloads, for a part of the rows at a time.

    The batch has all columns, as returned by a scan of the fragment; those `written` already have
    the form in which they are written. The schema of the results is `Snapshot.written`; if
    `refers`, it has prepared descriptors.
    """
    if batch.num_rows > 1 and _payload_bytes(schema, batch, written, refers) > _PAYLOAD_BYTES:
        half = batch.num_rows // 2
        yield from with_payloads(home, schema, batch.slice(0, half), written, refers=refers)
        yield from with_payloads(home, schema, batch.slice(half), written, refers=refers)
        return
    form = partial(_referring if refers else _given, home)
    columns = [
        column if field.name in written else map_blobs(field, column, form)
        for field, column in zip(schema.fields, batch.columns, strict=True)
    ]
    result = prepared(schema) if refers else given(schema)
    yield pa.RecordBatch.from_arrays(columns, schema=result.arrow)


def _payload_bytes(
    schema: Schema, batch: pa.RecordBatch, written: Collection[str], refers: bool
) -> int:
    total = 0

    def add(field: Field, descriptors: pa.Array) -> pa.Array:
        nonlocal total
        sizes = descriptors.field("size").fill_null(0).to_numpy()
        there = validity_mask(descriptors)
        if field.blob_version == 2:
            kinds = _kinds(descriptors)
            there &= kinds == BlobKind.INLINE if refers else kinds != BlobKind.EXTERNAL
        total += int(sizes[there].sum())
        return descriptors

    for field, column in zip(schema.fields, batch.columns, strict=True):
        if field.name not in written:
            map_blobs(field, column, add)
    return total


def _kinds(descriptors: pa.Array) -> NDArray[np.uint8]:
    """Return the kinds of descriptors of version 2; 0, as for inline ones, where they are null."""
    kinds = descriptors.field("kind").fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(validity_mask(descriptors), kinds, 0).astype(np.uint8)


def _given(home: FragmentReader, field: Field, descriptors: pa.Array) -> pa.Array:
    """Return blobs in the form in which users write them."""
    if field.blob_version == 1:
        return payloads(home, field, descriptors)
    external = _kinds(descriptors) == BlobKind.EXTERNAL
    alive = validity_mask(descriptors)
    own = _masked(descriptors, alive & ~external)
    children = [
        payloads(home, field, own),
        _absolute_uris(home, descriptors, external),
        _masked_values(descriptors, "position", external),
        _masked_values(descriptors, "size", external),
    ]
    fields = [member.arrow for member in GIVEN_V2]
    mask = None if alive.all() else pa.array(~alive)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _absolute_uris(
    home: FragmentReader, descriptors: pa.Array, external: NDArray[np.bool_]
) -> pa.Array:
    """Return the URIs of external blobs; null for others."""
    uris = _masked_values(descriptors, "blob_uri", external)
    ids = descriptors.field("blob_id").fill_null(0).to_numpy()
    below = external & (ids > 0)
    kinds = np.where(below, BlobKind.EXTERNAL, 0)
    for _, base_id, rows, relative in distinct_uris(kinds, ids, descriptors.field("blob_uri")):
        places = (home.blob_below(base_id, uri) for uri in relative.dictionary.to_pylist())
        absolute = pa.array([object_uri(*place) for place in places], pa.string())
        mask = np.zeros(len(uris), np.bool_)
        mask[rows] = True
        uris = pc.replace_with_mask(uris, pa.array(mask), absolute.take(relative.indices))
    return uris


def _referring(home: FragmentReader, field: Field, descriptors: pa.Array) -> pa.Array:
    """Return blobs as prepared descriptors, which refer to all payloads but inline ones."""
    file = home.fragment.file_of(field.id)
    if field.blob_version == 1:
        return payloads(home, field, descriptors)
    alive, kinds = validity_mask(descriptors), _kinds(descriptors)
    ids = descriptors.field("blob_id").fill_null(0).to_numpy().copy()
    uris = descriptors.field("blob_uri")
    beside = np.isin(kinds, (BlobKind.PACKED, BlobKind.DEDICATED))
    if file is not None and beside.any():
        _, path = data_file_place(home.store, file)
        numbers, index = np.unique(ids[beside], return_inverse=True)
        sidecars = [sidecar_beside(path, number) for number in numbers.tolist()]
        found = pa.array(sidecars, pa.string()).take(pa.array(index))
        uris = pc.replace_with_mask(uris, pa.array(beside), found)
    own = beside | (kinds == BlobKind.MANAGED)
    base_id = None if file is None else file.base_id
    ids[own] = base_id or 0
    inline = alive & (kinds == BlobKind.INLINE)
    kinds[own] = BlobKind.MANAGED if base_id is None else BlobKind.MANAGED_IN_BASE
    children = [
        pa.array(kinds),
        payloads(home, field, _masked(descriptors, inline)),
        uris,
        pa.array(ids),
        descriptors.field("size"),
        descriptors.field("position"),
    ]
    fields = [member.arrow for member in PREPARED_V2]
    mask = None if alive.all() else pa.array(~alive)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _masked(descriptors: pa.Array, wanted: NDArray[np.bool_]) -> pa.Array:
    """Return the descriptors, with nulls for those that are not selected."""
    if wanted.all():
        return descriptors
    children = [descriptors.field(index) for index in range(descriptors.type.num_fields)]
    return pa.StructArray.from_arrays(
        children, fields=list(descriptors.type), mask=pa.array(~wanted)
    )


def _masked_values(descriptors: pa.Array, name: str, wanted: NDArray[np.bool_]) -> pa.Array:
    """Return a member of the descriptors, null where it is not selected."""
    rows = np.arange(len(descriptors))
    return descriptors.field(name).take(pa.array(rows, mask=~wanted))
