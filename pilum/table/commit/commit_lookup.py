"""Check whether a commit already succeeded, by its transaction's uuid or by its job's key."""

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
    """Look for a transaction among the versions after `after_version`.

    Returns:
        The version that it became, None if there is none.

    Raises:
        CorruptFileError: If a manifest contradicts the format.
    """
    for name in list_manifests(store, after_version + 1):
        if name.version > after_version and uuid_at(store, name.path) == uuid:
            return name.version
    return None


def find_job(store: Store, job: Job, name: ManifestName | None) -> Manifest | None:
    """Look for a job in the config of a version.

    Args:
        store: Where the table is.
        job: The job.
        name: The newest version that the caller has seen; None if there is no table.

    Returns:
        The version that contains the job, or the given one if that was cleaned up; None if no
        version contains it.

    Raises:
        CorruptFileError: If a manifest, or the record of jobs, contradicts the format.
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
    """Return the uuid of the transaction that a manifest belongs to.

    Raises:
        NotFoundError: If there is no such manifest.
        CorruptFileError: If the manifest contradicts the format.
    """
    manifest, transaction = load_manifest_and_transaction(store, path)
    if transaction is not None:
        return transaction.uuid
    _, _, uuid = manifest.transaction_file.removesuffix(".txn").partition("-")
    return uuid
