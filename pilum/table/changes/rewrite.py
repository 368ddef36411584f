"""Rewrite rows: write them to new fragments, and mark them as deleted where they were.

fragment 0     a b c d          deleted: b, d
fragment 1     e f        ──▶   removed
               (new)            b' d' e' f'

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import UnsupportedFeatureError
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.row_address import by_fragment, fragment_ids_of, rows_of
from pilum.format.schema import FieldId, Schema
from pilum.table.changes.delete import mark_rows
from pilum.table.commit.operations.fragments import data_paths
from pilum.table.commit.operations.update import Update
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.lineage import lineage_of_rows, with_lineage
from pilum.table.read.live_rows import with_payloads
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import WriteOptions, write_fragments

__all__ = [
    "Rewritten",
    "discarded_on_failure",
    "moved",
    "require_rewritable",
    "rows_by_fragment",
    "with_blobs",
    "write_rows",
]


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
    """Check that rows of a table can be located by row id.

    Raises:
        UnsupportedFeatureError: If the table has a column that hides row ids.
    """
    if own := {ROW_ADDRESS, ROW_ID}.intersection(snapshot.schema.names):
        raise UnsupportedFeatureError(f"a table with a column of its own named {own.pop()}")


def write_rows(
    snapshot: Snapshot,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    file_name_prefix: str | None = None,
) -> tuple[Fragment, ...]:
    """Write rows to new fragments in the version of the table's files.

    Args:
        snapshot: The version.
        schema: Schema of the files.
        batches: The rows.
        file_name_prefix: Prefix of the file names, to identify their writer.

    Raises:
        OSError: If the store fails. After any exception, no file is left.
    """
    # References to places outside of the table existed before.
    options = WriteOptions(
        version=snapshot.manifest.data_version,
        allow_uris=True,
        file_name_prefix=file_name_prefix,
    )
    return write_fragments(snapshot.store, schema, batches, options)


def with_blobs(
    snapshot: Snapshot,
    addresses: NDArray[np.uint64],
    batch: pa.RecordBatch,
    written: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield rows of one fragment with the payloads of their blobs, in the form that is written.

    Args:
        snapshot: The version.
        addresses: Addresses of the rows.
        batch: All columns of the table, as a scan gives them.
        written: Names of columns that already have the form that is written.
    """
    if snapshot.described is snapshot.schema:
        yield batch
        return
    number = int(fragment_ids_of(addresses[:1])[0])
    (fragment,) = (one for one in snapshot.manifest.fragments if one.id == number)
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


def rows_by_fragment(addresses: NDArray[np.uint64]) -> dict[FragmentId, DeletionVector]:
    """Group rows by fragment, from ascending and distinct addresses."""
    rows = rows_of(addresses).astype(np.uint32)
    return {
        FragmentId(number): DeletionVector(rows[positions])
        for number, positions in by_fragment(addresses)
    }


def moved(
    snapshot: Snapshot,
    parts: Iterable[Rewritten],
    rows: dict[FragmentId, DeletionVector],
    fields: Iterable[FieldId],
    inserts_keys: bool = False,
) -> Update:
    """Mark the rows that moved; the table changes only when the result is committed.

    Args:
        snapshot: The version.
        parts: The new fragments, in order. If it fails, their files are removed.
        rows: Physical rows to mark as deleted, none of them already deleted.
        fields: Fields with new values.
        inserts_keys: See `Update.inserts_keys`.

    Raises:
        OSError: If the store fails. After any exception, no file is left.
    """
    parts = tuple(parts)
    with discarded_on_failure(snapshot, (one for part in parts for one in part.fragments)):
        fragments = [one for part in parts for one in _with_lineage(snapshot, part)]
        found = mark_rows(snapshot, rows)
    return Update(
        found.updated,
        found.removed,
        tuple(fragments),
        fields_updated=tuple(fields),
        inserts_keys=inserts_keys,
        marked=found.marked,
    )


def _with_lineage(snapshot: Snapshot, part: Rewritten) -> tuple[Fragment, ...]:
    lineage = lineage_of_rows(snapshot, part.addresses)
    return with_lineage(part.fragments, lineage and lineage.to_update())
