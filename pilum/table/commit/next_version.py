"""Build the manifest of the next version: the result of an operation, and what all versions share.

Row ids and versions are assigned to new rows here, when both are known:

    new fragment          at the commit, next row id 40, version 7
    5 rows, no ids        ids 40 to 45, created at 7, changed at 7
    5 rows, ids 9 3       ids 9 3 40 41 42; moved rows keep their creation version

A commit that lost against another one repeats this. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.storage.base import Store
from pilum.table.commit.jobs import Job
from pilum.table.commit.transaction import Transaction
from pilum.table.model.base_paths import with_bases
from pilum.table.model.dictionaries import with_dictionaries_of_files
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments, GrownFragments
from pilum.table.model.manifest import THIS_WRITER, Manifest
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import StoredSequence
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.session import DEFAULT_SESSION
from pilum.table.read.snapshot import Snapshot, with_counted_rows

__all__ = ["continuable", "next_version", "with_assigned_rows"]

_MAX_ROW_ID = 2**64 - 1


def continuable(store: Store, base: Manifest) -> Manifest:
    """Return a version as the base of the next one, with row counts that old writers left out.

    UnsupportedFeatureError is raised if it uses a feature that would be lost.
    """
    base.require_continuable(f"{store.uri}, version {base.version}")
    counted = with_counted_rows(with_bases(store, base.base_paths), base, DEFAULT_SESSION)
    # With a new writer name on them, the bitmaps of old writers would no longer be repaired.
    writer = counted.writer_version if counted.has_doubtful_coverage else THIS_WRITER
    return replace(counted, writer_version=writer)


def next_version(
    store: Store, base: Manifest, transaction: Transaction, job: Job | None
) -> Manifest:
    """Return the manifest of the version after `base`, which is the result of `continuable`.

    The operation is prepared for `base`; the config records the job, if there is one.
    """
    content = transaction.operation.apply(base)
    if content.is_legacy:
        known = {fragment.files for fragment in base.fragments}
        new = [fragment for fragment in content.fragments if fragment.files not in known]
        based = with_bases(store, content.base_paths)
        content = with_dictionaries_of_files(based, content, new)
    if transaction.operation.writes_rows:
        content = with_assigned_rows(Snapshot(store, base), content)
    if job:
        content = replace(content, config=job.recorded(content.config, base.version + 1))
    highest = content.highest_fragment_id
    return replace(
        content,
        version=base.version + 1,
        timestamp_ns=time.time_ns(),
        max_fragment_id=None if highest < 0 else highest,
        transaction_file=transaction.file_name,
    ).with_flags()


def with_assigned_rows(before: Snapshot, content: Manifest) -> Manifest:
    """Return the content of a version with row ids and versions for all rows.

    In a table without stable row ids, those that new fragments came with are removed.
    InvalidInputError is raised if the sequences of a new fragment do not fit its rows.
    """
    base, fragments = before.manifest.fragments, content.fragments
    if isinstance(fragments, GrownFragments) and fragments.base is base:
        new, next_row_id = _assigned(before, content, fragments.new, {})
        return replace(content, fragments=GrownFragments(base, new), next_row_id=next_row_id)
    known = {fragment.id: _sequences(fragment) for fragment in base}
    changed, next_row_id = _assigned(before, content, fragments, known)
    return replace(content, fragments=Fragments(changed), next_row_id=next_row_id)


def _assigned(
    before: Snapshot,
    content: Manifest,
    fragments: Iterable[Fragment],
    known: Mapping[FragmentId, tuple[StoredSequence | None, ...]],
) -> tuple[list[Fragment], int]:
    """Return fragments, of which new and changed ones get ids and versions; and the next free id.

    `known` has the sequences of the fragments that are neither.
    """
    next_row_id = content.next_row_id
    if not content.reader_flags & Feature.STABLE_ROW_IDS:
        return [one if one.id in known else _plain(one) for one in fragments], next_row_id
    next_row_id = max(next_row_id, before.manifest.next_row_id)
    assigned = []
    for fragment in fragments:
        if known.get(fragment.id) != _sequences(fragment):
            fragment, next_row_id = _completed(before, fragment, next_row_id)
        assigned.append(fragment)
    return assigned, next_row_id


def _sequences(fragment: Fragment) -> tuple[StoredSequence | None, ...]:
    return fragment.row_ids, fragment.created_at, fragment.updated_at


def _plain(fragment: Fragment) -> Fragment:
    if _sequences(fragment) == (None, None, None):
        return fragment
    return replace(fragment, row_ids=None, created_at=None, updated_at=None)


def _completed(before: Snapshot, fragment: Fragment, next_row_id: int) -> tuple[Fragment, int]:
    """Return a fragment with an id and versions for every row, and the next free id."""
    num_rows, version = fragment.physical_rows, before.manifest.version + 1
    try:
        row_ids, next_row_id = _with_ids(fragment.row_ids, num_rows, next_row_id)
        created_at = fragment.created_at or _created_at(before, fragment)
        return replace(
            fragment,
            row_ids=row_ids,
            created_at=_with_version(created_at, num_rows, version),
            updated_at=_with_version(fragment.updated_at, num_rows, version),
        ), next_row_id
    except CorruptFileError as error:
        raise InvalidInputError(f"fragment {fragment.id}: {error}") from error


def _created_at(before: Snapshot, fragment: Fragment) -> bytes:
    """Return the creation versions of the rows that a new fragment has ids for.

    They are read from the fragments that contained the rows before.
    """
    if not isinstance(fragment.row_ids, bytes):
        return b""
    ids = RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows).ids()
    versions = np.zeros(len(ids), dtype=np.uint64)
    for old in before.manifest.fragments if len(ids) else ():
        reader = before.reader(old)
        offsets = reader.row_ids.find(ids)
        here = offsets >= 0
        versions[here] = reader.created_at.at(offsets[here])
    if not versions.all():
        missing = int(ids[versions.argmin()])
        raise InvalidInputError(f"a moved row with the id {missing}, which no fragment has")
    return VersionSequence.of(versions).to_bytes()


def _with_ids(
    stored: StoredSequence | None, num_rows: int, next_row_id: int
) -> tuple[StoredSequence | None, int]:
    if stored is not None and not isinstance(stored, bytes):
        return stored, next_row_id  # sequences outside of the manifest are complete
    given = RowIdSequence.from_bytes(stored or b"", num_rows)
    if given.highest >= next_row_id:
        raise InvalidInputError(
            f"a moved row with the id {given.highest}, but the next new one is {next_row_id}"
        )
    stop = next_row_id + num_rows - len(given)
    if stop > _MAX_ROW_ID:
        raise InvalidInputError("there are no row ids left")
    if len(given) == num_rows:
        return stored, next_row_id
    new = RowIdSequence.of(range(next_row_id, stop))
    return RowIdSequence.concatenate([given, new]).to_bytes(), stop


def _with_version(
    stored: StoredSequence | None, num_rows: int, version: int
) -> StoredSequence | None:
    if stored is not None and not isinstance(stored, bytes):
        return stored
    given = VersionSequence.from_bytes(stored or b"", num_rows)
    if len(given) == num_rows:
        return stored
    new = VersionSequence.uniform(num_rows - len(given), version)
    return VersionSequence.concatenate([given, new]).to_bytes()
