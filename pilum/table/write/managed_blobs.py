"""Managed blobs: objects for blob payloads that no data file owns.

    _blobs/{uuid}.blob     payloads one after the other, or a single large one

They have no framing. Descriptors in any number of data files may refer to the same bytes, so that a
compaction copies none. Source: docs/format/blobs.md, "Managed blobs".
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.blobs import Managed
from pilum.errors import InvalidInputError
from pilum.format.blobs import BlobKind, is_relative_path
from pilum.storage.base import Store
from pilum.table.model.names import new_blob_path
from pilum.table.write.sidecars import SidecarFiles

__all__ = ["ManagedBlobs"]


class ManagedBlobs(SidecarFiles):
    """The objects for payloads of one new data file, in the same folder or base path.

    Args:
        store: Where the data file is.
        base_id: Id of the base path that this is; None for the folder of the table.
        known_bases: Ids of the base paths to which descriptors may refer.
        pack_bytes: As for sidecars.
        allow_uris: As for sidecars.
    """

    def __init__(
        self,
        store: Store,
        base_id: int | None,
        known_bases: Collection[int],
        pack_bytes: int,
        allow_uris: bool,
    ) -> None:
        super().__init__(store, "", pack_bytes, allow_uris)
        self._base_id = base_id
        self._known_bases = known_bases
        self._paths: list[str] = []

    def managed(self, numbers: NDArray[np.uint32]) -> Managed:
        """Return the places of objects by their numbers, which begin at 1."""
        index = pa.array(numbers.astype(np.int64) - 1)
        return Managed(self._base_id, pa.array(self._paths, pa.string()).take(index))

    def check_reference(self, kind: int, base_id: int, uri: str, path: str) -> None:
        """Raise InvalidInputError if the place of a prepared descriptor is invalid."""
        if kind == BlobKind.EXTERNAL and not base_id:
            self.check_uri(uri, path)
            return
        is_in_base = kind != BlobKind.MANAGED
        if is_in_base and base_id not in self._known_bases:
            raise InvalidInputError(
                f"column {path!r}: {uri!r} below base path {base_id}; the table has the base paths "
                f"{sorted(self._known_bases)}"
            )
        if not is_relative_path(uri) or (base_id and not is_in_base):
            raise InvalidInputError(
                f"column {path!r}: a managed blob at {uri!r}, base path {base_id}: expected a "
                "relative path below the folder of the table, or kind 5 for one below a base path"
            )

    def discard(self) -> None:
        """Remove all objects."""
        super().discard()
        for path in self._paths:
            with suppress(OSError):
                self._store.delete(path)

    def _path_of(self, number: int) -> str:
        self._paths.append(new_blob_path())
        return self._paths[-1]
