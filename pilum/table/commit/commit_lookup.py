"""Whether a commit is in already: by the uuid of its transaction, or by the key of its job."""

from __future__ import annotations

from pilum.errors import VersionNotFoundError
from pilum.storage.base import Store
from pilum.table.commit.jobs import Job
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_manifest_and_transaction
from pilum.table.model.names import ManifestName
from pilum.table.versions.history import list_manifests, load_named, load_version

__all__ = ["find_commit", "find_job", "uuid_at"]


def find_commit(store: Store, uuid: str, after_version: int) -> int | None:
    """Looks for a transaction among the versions after `after_version`.

    Returns:
        The version that it became, None if it did not.

    Raises:
        CorruptFileError: If a manifest contradicts the format.
    """
    for name in list_manifests(store, after_version + 1):
        if name.version > after_version and uuid_at(store, name.path) == uuid:
            return name.version
    return None


def find_job(store: Store, job: Job, name: ManifestName | None) -> Manifest | None:
    """Looks for a job in what a version remembers.

    Args:
        store: Where the table is.
        job: The job.
        name: The version, the newest that the caller knows of; None if there is no table.

    Returns:
        The version that took it in, or the given one if that was cleaned up; None if none did.

    Raises:
        CorruptFileError: If a manifest, or what the table remembers, contradicts the format.
    """
    if name is None:
        return None
    latest = load_named(store, name)
    version = job.held_by(latest.config)
    if version is None:
        return None
    try:
        return load_version(store, version)
    except VersionNotFoundError:
        return latest


def uuid_at(store: Store, path: str) -> str:
    """The uuid of the transaction behind a manifest.

    Raises:
        NotFoundError: If there is no such manifest.
        CorruptFileError: If it contradicts the format.
    """
    manifest, transaction = load_manifest_and_transaction(store, path)
    if transaction is not None:
        return transaction.uuid
    _, _, uuid = manifest.transaction_file.removesuffix(".txn").partition("-")
    return uuid
