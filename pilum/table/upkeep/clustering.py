"""Check that a table can be clustered: its rows are rewritten in another order.

    stable row ids         ids and versions move along; indices of ids stay valid
    no stable row ids      moves are not recorded, so no index may contain the rows

Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs
from pilum.table.commit.operations.indices import with_rewritten_fragments
from pilum.table.model.reuse_index import Coverage, Move
from pilum.table.read.snapshot import Snapshot

__all__ = ["require_clusterable"]


def require_clusterable(snapshot: Snapshot) -> None:
    """Raise if a clustering would fail at its commit, before any work is done.

    Raises:
        UnsupportedFeatureError: If the table has columns of blobs, an index of rows without stable
            ids, one that covers only some of the fragments, or a feature that this library cannot
            write.
        CorruptFileError: If the indices are damaged.
    """
    manifest, store = snapshot.manifest, snapshot.store
    where = f"{store.uri}, version {manifest.version}"
    manifest.require_continuable(where)
    if blobs := [field.name for field in manifest.schema.fields if has_blobs(field)]:
        raise UnsupportedFeatureError(f"{where}: columns of blobs cannot be clustered: {blobs}")
    if not snapshot.has_stable_row_ids:
        if Coverage(store, manifest).needs([Move(manifest.fragments, ())]):
            raise UnsupportedFeatureError(
                f"{where}: an index refers to rows by their addresses, which clustering changes; "
                "drop the indices and create them again afterwards, or use stable row ids"
            )
        return
    ids = [int(fragment.id) for fragment in manifest.fragments]
    try:
        with_rewritten_fragments(manifest.index_section, [(ids, [])], stable_row_ids=True)
    except InvalidInputError as error:
        raise UnsupportedFeatureError(
            f"{where}: {error}; complete the index first, or drop it"
        ) from error
