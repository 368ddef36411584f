"""Numbers of rows that old writers did not record, from the files themselves.

Without the name of a writer a manifest comes from the time before counts could be trusted, and
fragments of no rows come from the time before there were any. Source: docs/format/table.md,
"Fragments".
"""

from __future__ import annotations

from dataclasses import replace

from pilum.container.open import open_file
from pilum.errors import UnsupportedVersionError
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.fragment import Fragment
from pilum.table.manifest import Manifest
from pilum.table.names import data_path

__all__ = ["counted"]


def counted(store: Store, manifest: Manifest) -> Manifest:
    """The manifest with the numbers of rows that its files have, where it does not know them.

    Raises:
        CorruptFileError: If a file is damaged.
        NotFoundError: If a file is missing.
    """
    trusted = manifest.writer_version is not None
    if trusted and all(fragment.physical_rows for fragment in manifest.fragments):
        return manifest
    fragments = tuple(
        fragment if trusted and fragment.physical_rows else _counted(store, fragment)
        for fragment in manifest.fragments
    )
    return replace(manifest, fragments=fragments)


def _counted(store: Store, fragment: Fragment) -> Fragment:
    if not fragment.files:
        return fragment
    file = fragment.files[0]
    try:
        FileVersion.from_numbers(file.major, file.minor)
    except UnsupportedVersionError:
        return fragment  # who asks for its rows is told so
    source = store.source(data_path(file.path), file.size_bytes)
    try:
        return replace(fragment, physical_rows=open_file(source).num_rows)
    finally:
        source.close()
