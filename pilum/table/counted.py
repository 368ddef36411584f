"""Rows of fragments whose writer was too old to record them, counted in their data files.

Manifests without a writer version have no number of physical rows, or a wrong one: some wrote the
rows that deletions had left. Source: docs/format/table.md, "Fragments".
"""

from __future__ import annotations

from dataclasses import replace

from pilum.errors import UnsupportedVersionError
from pilum.storage.base import Store
from pilum.table.files import open_data_file
from pilum.table.fragment import Fragment
from pilum.table.manifest import Manifest
from pilum.table.session import Session

__all__ = ["with_counted_rows"]


def with_counted_rows(store: Store, manifest: Manifest, session: Session) -> Manifest:
    """The manifest with the rows of each fragment; the same one if they are recorded.

    Raises:
        UnsupportedVersionError: If they are not, and a file has a version that is not supported.
        CorruptFileError: If they are not, and a file is damaged.
    """
    recorded = manifest.writer_version is not None
    if recorded and all(fragment.physical_rows for fragment in manifest.fragments):
        return manifest
    counted = (
        fragment if recorded and fragment.physical_rows else _counted(store, fragment, session)
        for fragment in manifest.fragments
    )
    return replace(manifest, fragments=tuple(counted))


def _counted(store: Store, fragment: Fragment, session: Session) -> Fragment:
    if not fragment.files:
        return fragment
    try:
        reader = open_data_file(session, store, fragment.files[0])
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{store.uri}: the number of rows is not recorded, and {error}"
        ) from None
    return replace(fragment, physical_rows=reader.num_rows)
