"""Migration of manifests from V1 to V2 names; their bytes do not change.

    2.manifest   1.manifest        ──▶   18446744073709551613.manifest   1844…614.manifest

The newest version is renamed first, so that at any time the newest versions have the newer names.
An interrupted migration leaves a table that this library can read, write and continue to migrate.
Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

from pilum.errors import UnsupportedFeatureError
from pilum.storage.base import Store, write_object
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName, NamingScheme
from pilum.table.versions.commit_handler import handler_of
from pilum.table.versions.history import latest_manifest, no_table
from pilum.table.versions.latest_file import keep_version, remove_copies

__all__ = ["migrate_to_v2_names"]


def migrate_to_v2_names(store: Store) -> None:
    """Rename all manifests; a table that already has the newer names is not changed.

    No one may write to the table concurrently. Copies of the newest manifest at the root are
    removed, because the readers that need them cannot read the newer names.

    Raises:
        DatasetNotFoundError: If there is no table.
        UnsupportedFeatureError: If an external manifest store contains the older names.
        OSError: If the store failed.
    """
    name = latest_manifest(store)
    if name is None:
        raise no_table(store)
    if name.scheme is NamingScheme.V1 and handler_of(store).settle(store, name.version):
        raise UnsupportedFeatureError(
            f"{store.uri}: the external manifest store has the older names of the manifests; "
            "they cannot be changed there"
        )
    keep_version(store, name)
    parsed = (ManifestName.parse(entry.name) for entry in store.list(VERSIONS_FOLDER))
    old = {name for name in parsed if name and name.scheme is NamingScheme.V1}
    for name in sorted(old, key=lambda name: name.version, reverse=True):
        write_object(store, NamingScheme.V2.manifest_path(name.version), store.read(name.path))
        store.delete(name.path)
    remove_copies(store)
