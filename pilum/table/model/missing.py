"""Error reporting for locations that contain no table."""

from __future__ import annotations

import os

from pilum.errors import DatasetNotFoundError
from pilum.storage.base import Store

__all__ = ["no_table"]


def no_table(store: Store) -> DatasetNotFoundError:
    """Return the error to raise; its text points out if the location is a file."""
    if not store.is_remote and os.path.isfile(store.uri):
        return DatasetNotFoundError(
            f"{store.uri} is a file, and a Lance table is a folder; pilum.file opens single files"
        )
    return DatasetNotFoundError(f"there is no Lance table at {store.uri}")
