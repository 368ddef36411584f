"""The fragments of a version: an immutable sequence whose elements are built on first use.

A manifest may list very many fragments, of which most readers need few or none. On open, its bytes
are only surveyed. A take then builds the fragments that contain its rows, and a scan all. A commit
that adds or changes fragments builds none of the others: it checks them, and copies their bytes.

    StoredFragments    those of a manifest that was read (`stored_fragments.py`)
    ChangedFragments   those of a manifest, some of them replaced or left out (`next_fragments.py`)
    GrownFragments     those of a version, followed by new ones (`next_fragments.py`)
    Fragments          any others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from pilum.format.pb import table_pb2
from pilum.lazy import cached_property
from pilum.table.model.fragment import Fragment

__all__ = ["Fragments", "StoredVersion"]

StoredVersion: TypeAlias = tuple[int, int]
"""The major and the minor part of the version of a data file, as a manifest has them."""


class Fragments(Sequence[Fragment]):
    """The fragments of a version, in scan order, or a function that builds them on first use."""

    def __init__(
        self, fragments: Iterable[Fragment] | Callable[[], Iterable[Fragment]] = ()
    ) -> None:
        self._source = fragments if callable(fragments) else None
        self._all = None if callable(fragments) else tuple(fragments)

    def all(self) -> tuple[Fragment, ...]:
        """Return all fragments; this is where damage to one shows."""
        if self._all is None:
            self._all = tuple(self._build())
        return self._all

    def _build(self) -> Iterable[Fragment]:
        assert self._source is not None
        return self._source()

    def __len__(self) -> int:
        return len(self.all())

    def __iter__(self) -> Iterator[Fragment]:
        return iter(self.all())

    @overload
    def __getitem__(self, place: int) -> Fragment: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Fragment, ...]: ...

    def __getitem__(self, place: int | slice) -> Fragment | tuple[Fragment, ...]:
        """Return the fragment at a place in scan order, or those of a slice."""
        return self.all()[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fragments) and self.all() == other.all()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fragments({list(self.all())})"

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the fragments, int64, shape (n,)."""
        return np.array([one.id for one in self.all()], np.int64)

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The number of live rows before each fragment, and in total: int64, shape (n + 1,)."""
        return np.cumsum([0, *(one.num_rows for one in self.all())], dtype=np.int64)

    @cached_property
    def physical_rows(self) -> NDArray[np.int64]:
        """The number of rows of each fragment, deleted ones included: int64, shape (n,)."""
        return np.array([one.physical_rows for one in self.all()], np.int64)

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        return int(self.bounds[-1])

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        return all(one.is_counted for one in self.all())

    @cached_property
    def are_distinct(self) -> bool:
        """Whether all fragment ids are different."""
        return self.are_ascending or len(np.unique(self.ids)) == len(self)

    @property
    def highest_id(self) -> int:
        """The highest id of a fragment, -1 if there is none."""
        return int(self.ids.max(initial=-1))

    @property
    def formats(self) -> frozenset[StoredVersion]:
        """The versions of the data files."""
        return frozenset((file.major, file.minor) for one in self.all() for file in one.files)

    @cached_property
    def have_deletions(self) -> bool:
        """Whether a fragment has deleted rows."""
        return any(one.deletion_file is not None for one in self.all())

    @property
    def have_row_ids(self) -> bool:
        """Whether all fragments have stable row ids."""
        return all(one.row_ids is not None for one in self.all())

    @property
    def have_hidden_columns(self) -> bool:
        """Whether a sequence of a fragment is stored as a column of the data files."""
        return any(one.has_hidden_columns for one in self.all())

    @cached_property
    def overlaid(self) -> list[Fragment]:
        """The fragments that have overlays."""
        return [one for one in self.all() if one.overlays]

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.all()

    @property
    def are_lossy(self) -> bool:
        """Whether they were read from messages with members that `Fragment` cannot represent."""
        return False

    def encoded(self) -> bytes:
        """Return the fragments as part of the message of a manifest."""
        message = table_pb2.Manifest(fragments=[one.to_proto() for one in self.all()])
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    def find(self, fragment_id: int) -> Fragment | None:
        """Return the fragment with an id, None if there is none; if two have it, the last one."""
        ids = self._consecutive
        if ids is None:
            place = self._by_id.get(fragment_id)
            return None if place is None else self[place]
        return self[fragment_id - ids.start] if ids.start <= fragment_id < ids.stop else None

    def in_scan_order(self, fragment_ids: Iterable[int]) -> tuple[int, ...]:
        """Return ids of fragments, which exist, in the order in which scans read them."""
        if self.are_ascending:
            return tuple(sorted(fragment_ids))
        return tuple(sorted(fragment_ids, key=self._by_id.__getitem__))

    def place_of(self, fragment_id: int) -> int:
        """Return the place of the fragment with an id, which exists."""
        return self._by_id[fragment_id]

    @cached_property
    def are_ascending(self) -> bool:
        """Whether scans read the fragments in the order of their ids, which are distinct."""
        return bool((self.ids[:-1] < self.ids[1:]).all())

    @cached_property
    def _consecutive(self) -> range | None:
        """The ids if they have no gaps, as long as no fragment was removed; otherwise None."""
        ids = self.ids
        if not len(ids) or ids[-1] - ids[0] != len(ids) - 1 or not self.are_ascending:
            return None
        return range(int(ids[0]), int(ids[-1]) + 1)

    @cached_property
    def _by_id(self) -> dict[int, int]:
        return {number: place for place, number in enumerate(self.ids.tolist())}
