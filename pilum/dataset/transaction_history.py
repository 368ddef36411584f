"""Transaction history: the committed transactions of the versions of a dataset."""

from __future__ import annotations

from contextlib import suppress

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.forms import Transaction
from pilum.errors import NotFoundError, UnsupportedFeatureError, VersionNotFoundError
from pilum.table.commit.transaction import load_transaction
from pilum.table.model.names import is_detached
from pilum.table.versions.history import list_manifests, manifest_place

__all__ = ["TransactionHistory"]


class TransactionHistory(DatasetBase):
    """Methods of `LanceDataset` for transactions."""

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction that created a version of this branch.

        Its operation is a bare `LanceOperation.BaseOperation` if there is no public class for it.

        Args:
            version: Number of the version; it may be a detached version.

        Returns:
            The transaction; None if it was not kept.

        Raises:
            VersionNotFoundError: If the version does not exist.
            UnsupportedFeatureError: If the operation is unknown.
            CorruptFileError: If the transaction is damaged.
        """
        number = require_count("version", version, 1)
        store = self._snapshot.store
        path, _ = manifest_place(store, number)
        try:
            return Transaction.from_table(load_transaction(store, number, path))
        except NotFoundError:
            return None

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the pinned version and earlier ones, newest first.

        Args:
            recent_transactions: Maximum number of transactions.

        Returns:
            One item per version; None if the transaction was not kept or its operation is unknown.

        Raises:
            CorruptFileError: If a transaction is damaged.
        """
        count = require_count("recent_transactions", recent_transactions, 1)
        version, found = self._snapshot.manifest.version, list[Transaction | None]()
        while is_detached(version) and len(found) < count:
            last = self._known(version)
            found.append(last)
            version = last.read_version if last else 0
        names = reversed(list_manifests(self._snapshot.store))
        numbers = [name.version for name in names if name.version <= version]
        return [*found, *map(self._known, numbers[: count - len(found)])]

    def _known(self, version: int) -> Transaction | None:
        with suppress(UnsupportedFeatureError, VersionNotFoundError):
            return self.read_transaction(version)
        return None
