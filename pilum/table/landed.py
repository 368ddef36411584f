"""Whether a commit is in already: by the uuid of its transaction, or by the key of its job."""

from __future__ import annotations

from pilum.errors import VersionNotFoundError
from pilum.storage.base import Store
from pilum.table.jobs import Job
from pilum.table.manifest import Manifest
from pilum.table.manifest_file import load_manifest_and_transaction
from pilum.table.versions import latest_manifest, list_manifests, load_named, load_version

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


def find_job(store: Store, job: Job) -> Manifest | None:
    """Looks for a job in the newest version.

    Returns:
        The version that took it in, or the newest if that one was cleaned up; None if none did.

    Raises:
        CorruptFileError: If a manifest, or what the table remembers, contradicts the format.
    """
    name = latest_manifest(store)
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
