"""Row counts of fragments whose writer was too old to record them, read from their files.

Manifests without a writer version have no number of physical rows, or a wrong one: some writers
recorded the rows that were not deleted. They do not record the number of deleted rows either.
Source: docs/format/table.md, "Deleted rows".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from pilum.errors import UnsupportedVersionError
from pilum.storage.base import Store
from pilum.table.model.deletion_vector import load_deletions
from pilum.table.model.fragment import Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.read.fragment_files import open_data_file
from pilum.table.read.session import Session

__all__ = ["with_counted_rows"]


def with_counted_rows(store: Store, manifest: Manifest, session: Session) -> Manifest:
    """Return the manifest with the physical row counts of its fragments; unchanged if it has them.

    Rows are counted when the fragments are first used, which may then raise the errors of
    `_all_counted`. Thus the history and the indices of a table can be listed even if its data files
    are missing.
    """
    if manifest.writer_version is not None and manifest.fragments.are_counted:
        return manifest
    counted = Fragments(partial(_all_counted, store, manifest, session))
    return replace(manifest, fragments=counted)


def _all_counted(store: Store, manifest: Manifest, session: Session) -> Iterator[Fragment]:
    """Count the rows of every fragment.

    Raises:
        UnsupportedVersionError: If the version of a file is not supported.
        NotFoundError: If a file is missing.
        CorruptFileError: If a file is damaged.
    """
    for stored in manifest.fragments:
        fragment = _uncounted(stored) if manifest.writer_version is None else stored
        yield fragment if fragment.is_counted else _counted(store, fragment, session)


def _uncounted(fragment: Fragment) -> Fragment:
    file = fragment.deletion_file and replace(fragment.deletion_file, num_deleted_rows=0)
    return replace(fragment, physical_rows=0, deletion_file=file)


def _counted(store: Store, fragment: Fragment, session: Session) -> Fragment:
    if not fragment.physical_rows and fragment.files:
        num_rows = _rows_of_file(store, fragment, session)
        fragment = replace(fragment, physical_rows=num_rows)
    deleted = load_deletions(store, fragment)
    if fragment.deletion_file is None or deleted is None:
        return fragment
    file = replace(fragment.deletion_file, num_deleted_rows=len(deleted))
    return replace(fragment, deletion_file=file)


def _rows_of_file(store: Store, fragment: Fragment, session: Session) -> int:
    try:
        reader = open_data_file(session, store, fragment.files[0])
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{store.uri}: the number of rows is not recorded, and {error}"
        ) from None
    return reader.num_rows
