"""`Transaction.data_overlay`: new values for some cells of fragments, whose data files stay.

    fragment 0    files f          overlays a        a commit adds b: its values count where a has
                                            a b      others for the same cells

Overlays that others added concurrently stay before these. Source: docs/format/table.md, "Overlays".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError, SchemaMismatchError
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, cells_of, resources
from pilum.table.commit.operations.base import (
    Operation,
    require_known,
    require_version,
    with_fragments,
)
from pilum.table.model.base_paths import with_bases
from pilum.table.model.fragment import Fragment, FragmentId, OverlayFile
from pilum.table.model.manifest import Manifest
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.lineage import with_changed_rows
from pilum.table.read.session import DEFAULT_SESSION

__all__ = ["DataOverlay", "Overlaid"]

_Message = transaction_pb2.Transaction.DataOverlay


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A fragment and its new overlays, the newest last."""

    fragment_id: FragmentId
    overlays: tuple[OverlayFile, ...]


@dataclass(frozen=True, slots=True)
class DataOverlay(Operation):
    """Adds overlays to fragments, after those that they have."""

    arm = "data_overlay"
    groups: tuple[Overlaid, ...]

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.DataOverlay) -> DataOverlay:
        """Read the operation from its message."""
        groups = (
            (FragmentId(one.fragment_id), map(OverlayFile.from_proto, one.overlays))
            for one in message.groups
        )
        return cls(tuple(Overlaid(number, tuple(overlays)) for number, overlays in groups))

    def to_proto(self) -> transaction_pb2.Transaction.DataOverlay:
        """Build the message of the operation; the version is known after the commit only."""
        return _Message(
            groups=[
                _Message.Group(
                    fragment_id=one.fragment_id,
                    overlays=[replace(own, committed_version=0).to_proto() for own in one.overlays],
                )
                for one in self.groups
            ]
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the places of the rows of its fragments."""
        ids = [one.fragment_id for one in self.groups]
        files = [(one.fragment_id, own.file) for one in self.groups for own in one.overlays]
        cells = cells_of((number, file.fields) for number, file in files)
        return Footprint.of(
            relies_on=(
                *(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST, Kind.REQUIRED_COLUMNS),
                *resources(Kind.PLACES, ids),
            ),
            changes=(Kind.ROWS, Kind.WRITTEN_VALUES, *resources(Kind.OVERLAYS, ids), *cells),
        )

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation after opening and checking the new files.

        InvalidInputError is raised if a file does not have the rows that it is said to have, or the
        table does not have the fragment; SchemaMismatchError if it does not have the fields.
        """
        home = with_bases(store, manifest.base_paths)
        for fragment_id, overlays in self._by_fragment().items():
            require_known(manifest.fragments, [fragment_id])
            fragment = manifest.fragments[manifest.fragments.place_of(fragment_id)]
            _require_fits(home, manifest, replace(fragment, overlays=overlays))
        return self

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new overlays, which count from its version on."""
        added, version = self._by_fragment(), manifest.version + 1
        files = [
            Fragment(number, tuple(one.file for one in overlays), 1)
            for number, overlays in added.items()
        ]
        require_version(files, manifest)
        return with_fragments(
            manifest,
            (
                self._with_overlays(one, added[one.id], version) if one.id in added else one
                for one in manifest.fragments
            ),
        )

    def changed_rows(self, fragment: Fragment) -> NDArray[np.int64]:
        """Return the physical rows of a fragment with new values, ascending."""
        overlays = self._by_fragment().get(fragment.id, ())
        rows = [one.rows.of_any(fragment.physical_rows) for one in overlays]
        return np.unique(np.concatenate(rows)).astype(np.int64) if rows else np.empty(0, np.int64)

    def _with_overlays(
        self, fragment: Fragment, overlays: tuple[OverlayFile, ...], version: int
    ) -> Fragment:
        stamped = (replace(one, committed_version=version) for one in overlays)
        changed = replace(fragment, overlays=(*fragment.overlays, *stamped))
        return with_changed_rows(changed, self.changed_rows(fragment), version)

    def _by_fragment(self) -> Mapping[FragmentId, tuple[OverlayFile, ...]]:
        """Return the new overlays of each fragment; of two groups, the latter counts."""
        found: dict[FragmentId, tuple[OverlayFile, ...]] = {}
        for one in self.groups:
            found[one.fragment_id] = (*found.get(one.fragment_id, ()), *one.overlays)
        return found


def _require_fits(store: Store, manifest: Manifest, fragment: Fragment) -> None:
    """Check the overlays of a fragment by opening the fields that they cover."""
    listed = {number for one in fragment.overlays for number in one.file.fields}
    if unknown := {number for number in listed if manifest.schema.find(number) is None}:
        raise SchemaMismatchError(f"the table has no fields {sorted(unknown)}")
    fields = [one for one in manifest.schema.fields if not listed.isdisjoint(one.ids)]
    try:
        FragmentReader(DEFAULT_SESSION, store, fragment).fields(fields)
    except CorruptFileError as error:
        raise InvalidInputError(str(error)) from error
