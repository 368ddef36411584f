"""Delete and update rows: mark them as deleted where they were, and write new values elsewhere.

    fragment 0     a b c d          deleted: b, d, in a new deletion file
    fragment 1     e f        ──▶   removed
                   (new)            b' d' e' f', unless they are only deleted

Rows are found by one scan: a delete reads the columns of its filter, an update reads whole rows and
streams them through its expressions. Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import UnsupportedFeatureError
from pilum.format.fields import FieldId
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.rows import fragment_ids_of, rows_of
from pilum.format.schema import Schema
from pilum.progress_display import counted, progress
from pilum.table.commit.operations.base import Marked, data_paths
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.update import Update
from pilum.table.indices.use import with_selection
from pilum.table.model.deletion_vector import DeletionVector, store_deletions
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.lineage import lineage_of_rows, with_lineage
from pilum.table.read.live_rows import with_payloads
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import WriteOptions, write_fragments

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = [
    "Rewritten",
    "delete_all_rows",
    "delete_rows",
    "discarded_on_failure",
    "finish_update",
    "matching_rows",
    "moved",
    "require_rewritable",
    "rewrite_matching",
    "update_rows",
    "with_blobs",
    "write_rows",
]

_BATCH_ROWS = 1 << 20


def matching_rows(
    snapshot: Snapshot, filter: BoundFilter | None, fragment_ids: tuple[int, ...] | None = None
) -> dict[FragmentId, DeletionVector]:
    """Return the rows of each fragment, not yet deleted, for which a filter is true; None is all.

    Only the columns of the filter are read. UnsupportedFeatureError is raised if a column of the
    table hides the addresses.
    """
    if ROW_ADDRESS in snapshot.schema.names:
        raise UnsupportedFeatureError(
            f"the table has a column named {ROW_ADDRESS}, which is reserved; rename it"
        )
    options = ScanOptions(
        columns=(ROW_ADDRESS,), filter=filter, batch_size=_BATCH_ROWS, fragment_ids=fragment_ids
    )
    found: dict[FragmentId, list[NDArray[np.uint32]]] = {}
    for batch in scan(snapshot, with_selection(snapshot, options)):
        for own in _of_each_fragment(batch):
            addresses = own.column(0).to_numpy()
            number = FragmentId(int(fragment_ids_of(addresses[:1])[0]))
            found.setdefault(number, []).append(rows_of(addresses).astype(np.uint32))
    return {number: DeletionVector(np.concatenate(rows)) for number, rows in found.items()}


def _of_each_fragment(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch of a scan with addresses: rows that an index found may be of many fragments."""
    ids = fragment_ids_of(batch.column(ROW_ADDRESS).to_numpy())
    cuts = (np.flatnonzero(np.diff(ids)) + 1).tolist()
    for start, stop in pairwise([0, *cuts, len(ids)]):
        yield batch.slice(start, stop - start)


def delete_rows(
    snapshot: Snapshot, rows: dict[FragmentId, DeletionVector], predicate: str = ""
) -> Delete:
    """Write new deletion files; the table changes only when the result is committed.

    No row is deleted already. The predicate is for readers of the history.
    """
    marked, parts = {}, []
    for number, vector in rows.items():
        fragment = snapshot.manifest.fragments.find(number)
        assert fragment is not None
        if len(vector) == fragment.num_rows:
            marked[number] = Marked(fragment, None)
        else:
            deleted = snapshot.deletions(fragment)
            marked[number] = Marked(fragment, vector)
            parts.append((fragment, deleted.union(vector) if deleted else vector))
    updated = store_deletions(snapshot.store, parts, snapshot.manifest.version)
    removed = tuple(number for number, mark in marked.items() if mark.rows is None)
    return Delete(updated, removed, predicate, marked=marked)


def delete_all_rows(snapshot: Snapshot) -> Delete:
    """Drop all fragments: nothing is read, and no file is written."""
    marked = {one.id: Marked(one, None) for one in snapshot.manifest.fragments}
    return Delete((), tuple(marked), "true", marked=marked)


@dataclass(frozen=True)
class Rewritten:
    """Rows that one task wrote to new fragments.

    Attributes:
        fragments: The new fragments, not yet part of any version.
        addresses: uint64, shape (n,): old addresses of their first rows, in the order in which they
            were written; the other rows are new.
    """

    fragments: tuple[Fragment, ...]
    addresses: NDArray[np.uint64]


def require_rewritable(snapshot: Snapshot) -> None:
    """Raise UnsupportedFeatureError if a column of the table hides the ids or addresses of rows."""
    if own := {ROW_ADDRESS, ROW_ID}.intersection(snapshot.schema.names):
        raise UnsupportedFeatureError(
            f"the table has a column named {own.pop()}, which is reserved; rename it"
        )


def write_rows(
    snapshot: Snapshot,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions | None = None,
) -> tuple[Fragment, ...]:
    """Write rows to new fragments in the version of the table's files, as `write_fragments`.

    Limits that the options lack are the target sizes of the table.
    """
    manifest = snapshot.manifest
    options = (options or WriteOptions()).for_table(manifest.config)
    # References to places outside of the table existed before.
    options = replace(options, version=manifest.data_version, allow_uris=True)
    options = options.for_stream(len(schema.fields))
    with progress("Writing", None) as done:
        return write_fragments(snapshot.store, schema, counted(batches, done), options)


def with_blobs(
    snapshot: Snapshot,
    addresses: NDArray[np.uint64],
    batch: pa.RecordBatch,
    written: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield rows of one fragment with the payloads of their blobs, in the form that is written.

    Columns in `written` already have that form; the others are as a scan returns them.
    """
    if snapshot.described is snapshot.schema:
        yield batch
        return
    number = int(fragment_ids_of(addresses[:1])[0])
    fragment = snapshot.manifest.fragments.find(number)
    assert fragment is not None  # its rows were read
    yield from with_payloads(snapshot.reader(fragment), snapshot.schema, batch, written)


@contextmanager
def discarded_on_failure(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Iterator[None]:
    """Remove the files of new fragments if the block fails."""
    try:
        yield
    except BaseException:
        for path in data_paths(fragments):
            discard_file(snapshot.store, path)
        raise


def moved(
    snapshot: Snapshot,
    parts: Iterable[Rewritten],
    fields: Iterable[FieldId],
    deleted: Iterable[NDArray[np.uint64]] = (),
    *,
    inserts_keys: bool = False,
) -> Update:
    """Mark the rows that moved; the table changes only when the result is committed.

    `fields` have new values; the addresses `deleted` are of further rows, of which none is marked
    already, or twice. After any exception, the files of the parts are removed.
    """
    parts = tuple(parts)
    with discarded_on_failure(snapshot, (one for part in parts for one in part.fragments)):
        fragments = [one for part in parts for one in _with_lineage(snapshot, part)]
        gone = [np.empty(0, np.uint64), *(part.addresses for part in parts), *deleted]
        found = delete_rows(snapshot, _rows_by_fragment(np.sort(np.concatenate(gone))))
    return Update(
        found.updated,
        found.removed,
        tuple(fragments),
        fields_updated=tuple(fields),
        inserts_keys=inserts_keys,
        marked=found.marked,
    )


def _rows_by_fragment(addresses: NDArray[np.uint64]) -> dict[FragmentId, DeletionVector]:
    """Group rows by fragment, from ascending and distinct addresses."""
    ids, rows = fragment_ids_of(addresses), rows_of(addresses).astype(np.uint32)
    cuts = (np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist()
    return {
        FragmentId(int(ids[start])): DeletionVector(rows[start:stop])
        for start, stop in pairwise([0, *cuts, len(ids)])
        if start < stop
    }


def _with_lineage(snapshot: Snapshot, part: Rewritten) -> tuple[Fragment, ...]:
    if not snapshot.has_stable_row_ids:
        return part.fragments
    lineage = lineage_of_rows(snapshot, part.addresses)
    return with_lineage(part.fragments, lineage and lineage.to_update())


def update_rows(
    snapshot: Snapshot, filter: BoundFilter | None, values: Mapping[str, BoundProjection]
) -> tuple[Update, int]:
    """Write the changed rows and count them; the table changes only when the result is committed.

    Memory does not grow with the rows, except for 8 bytes per row. The errors are those of
    `LanceDataset.update`; after any exception, no file is left.
    """
    part = rewrite_matching(snapshot, ScanOptions(filter=filter), values)
    return finish_update(snapshot, [part], values), len(part.addresses)


def rewrite_matching(
    snapshot: Snapshot,
    rows: ScanOptions,
    values: Mapping[str, BoundProjection],
    options: WriteOptions | None = None,
) -> Rewritten:
    """Write the changed rows of some fragments, as one task of `update_rows`.

    `rows` selects by a filter, fragments and a range; its columns are ignored. The values are
    expressions with the type of their column. `options` are those of `write_rows`.
    """
    require_rewritable(snapshot)
    found: list[NDArray[np.uint64]] = []
    schema = snapshot.written
    changed = _changed(snapshot, rows, values, found)
    fragments = write_rows(snapshot, schema, changed, options)
    return Rewritten(fragments, np.concatenate([np.empty(0, np.uint64), *found]))


def finish_update(
    snapshot: Snapshot, parts: Iterable[Rewritten], values: Mapping[str, BoundProjection]
) -> Update:
    """Mark the old rows as deleted, given the results of `rewrite_matching` for different rows."""
    fields = (field for name in values for field in snapshot.schema.by_name[name].walk())
    return moved(snapshot, parts, (field.id for field in fields))


def _changed(
    snapshot: Snapshot,
    rows: ScanOptions,
    values: Mapping[str, BoundProjection],
    found: list[NDArray[np.uint64]],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with their new values; append their addresses to `found`."""
    alignment = align(snapshot.written.arrow, snapshot.schema)
    names = snapshot.schema.names
    needs_ids = any(ROW_ID in value.columns for value in values.values())
    read = (*names, ROW_ADDRESS, *((ROW_ID,) if needs_ids else ()))
    found_rows = scan(snapshot, with_selection(snapshot, replace(rows, columns=read)))
    for batch in chain.from_iterable(map(_of_each_fragment, found_rows)):
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        found.append(addresses)
        columns = [
            values[name].evaluate(batch) if name in values else batch.column(name) for name in names
        ]
        changed = pa.RecordBatch.from_arrays(columns, names)
        yield from map(alignment.batch, with_blobs(snapshot, addresses, changed, values))
