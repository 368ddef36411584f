"""The fragments of the next version: those of the last one, changed or followed by new ones.

What a commit does not touch is neither parsed nor built: its bytes are copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pilum.lazy import cached_property
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments, StoredVersion
from pilum.table.model.stored_fragments import StoredFragments

__all__ = ["ChangedFragments", "GrownFragments"]


class ChangedFragments(Fragments):
    """The fragments of a version with distinct ids, some of them replaced or left out.

    Args:
        base: The fragments of the version.
        changed: The other ones, by id.
        removed: The ids of those left out.

    Attributes:
        changed: The other ones, in scan order.
    """

    def __init__(
        self,
        base: StoredFragments,
        changed: Mapping[FragmentId, Fragment],
        removed: Collection[FragmentId],
    ) -> None:
        super().__init__()
        self._all = None
        self.base = base
        self._removed = sorted(base.place_of(number) for number in removed)
        wanted = {base.place_of(number): one for number, one in changed.items()}
        self._changed = {place: wanted[place] for place in sorted(wanted.keys() - {*self._removed})}
        self._places = np.delete(np.arange(len(base)), self._removed)
        self.changed = Fragments(self._changed.values())

    def _build(self) -> Iterable[Fragment]:
        built = self.base.all()
        return [self._changed.get(place) or built[place] for place in self._places.tolist()]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Fragment: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Fragment, ...]: ...

    def __getitem__(self, place: int | slice) -> Fragment | tuple[Fragment, ...]:
        """Return the fragment at a place in scan order, or those of a slice."""
        if isinstance(place, slice) or self._all is not None:
            return self.all()[place]
        number = int(self._places[place])
        return self._changed.get(number) or self.base[number]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the fragments, int64, shape (n,)."""
        return self.base.ids[self._places]

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The number of live rows before each fragment, and in total: int64, shape (n + 1,)."""
        counts = np.diff(self.base.bounds)
        for place, one in self._changed.items():
            counts[place] = one.num_rows
        return np.concatenate(([0], np.cumsum(counts[self._places])))

    # Whether something is in all or in none of the fragments is known without building them. If it
    # is in some of the base, these may be the ones that changed.

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        return (self.base.are_counted and self.changed.are_counted) or super().are_counted

    @property
    def formats(self) -> frozenset[StoredVersion]:
        """The versions of the data files."""
        found = self.base.formats | self.changed.formats
        return found if len(found) == 1 and len(self) else super().formats

    @cached_property
    def have_deletions(self) -> bool:
        """Whether a fragment has deleted rows."""
        if self.changed.have_deletions or not self.base.have_deletions:
            return self.changed.have_deletions
        return any(one.deletion_file is not None for one in self.all())

    @property
    def have_row_ids(self) -> bool:
        """Whether all fragments have stable row ids."""
        return (self.base.have_row_ids and self.changed.have_row_ids) or super().have_row_ids

    @property
    def have_hidden_columns(self) -> bool:
        """Whether a sequence of a fragment is stored as a column of the data files."""
        if self.changed.have_hidden_columns or not self.base.have_hidden_columns:
            return self.changed.have_hidden_columns
        return super().have_hidden_columns

    @cached_property
    def overlaid(self) -> list[Fragment]:
        """The fragments that have overlays."""
        if not self.base.overlaid:
            return self.changed.overlaid
        return [one for one in self.all() if one.overlays]

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.base.require_sound()

    def encoded(self) -> bytes:
        """Return the fragments as part of the message of a manifest."""
        survey, parts, start = self.base.survey, [], 0
        for place in sorted((*self._changed, *self._removed)):
            parts.append(survey.entries(start, place))
            if place in self._changed:
                parts.append(Fragments([self._changed[place]]).encoded())
            start = place + 1
        return b"".join((*parts, survey.entries(start)))


class GrownFragments(Fragments):
    """The fragments of a version, followed by new ones with higher ids.

    Args:
        base: The fragments of the version.
        new: The new ones, by ascending id.
    """

    def __init__(self, base: Fragments, new: Iterable[Fragment]) -> None:
        super().__init__()
        self._all = None
        self.base = base
        self.new = Fragments(new)

    def _build(self) -> Iterable[Fragment]:
        return (*self.base, *self.new)

    def __len__(self) -> int:
        return len(self.base) + len(self.new)

    @overload
    def __getitem__(self, place: int) -> Fragment: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Fragment, ...]: ...

    def __getitem__(self, place: int | slice) -> Fragment | tuple[Fragment, ...]:
        """Return the fragment at a place in scan order, or those of a slice."""
        if isinstance(place, slice) or not 0 <= place < len(self):
            return self.all()[place]
        first_new = len(self.base)
        return self.base[place] if place < first_new else self.new[place - first_new]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the fragments, int64, shape (n,)."""
        return np.concatenate((self.base.ids, self.new.ids))

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The number of live rows before each fragment, and in total: int64, shape (n + 1,)."""
        before = self.base.bounds
        return np.concatenate((before[:-1], before[-1] + self.new.bounds))

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        return self.base.num_rows + self.new.num_rows

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        return self.base.are_counted and self.new.are_counted

    @property
    def formats(self) -> frozenset[StoredVersion]:
        """The versions of the data files."""
        return self.base.formats | self.new.formats

    @cached_property
    def have_deletions(self) -> bool:
        """Whether a fragment has deleted rows."""
        return self.base.have_deletions or self.new.have_deletions

    @property
    def have_row_ids(self) -> bool:
        """Whether all fragments have stable row ids."""
        return self.base.have_row_ids and self.new.have_row_ids

    @property
    def have_hidden_columns(self) -> bool:
        """Whether a sequence of a fragment is stored as a column of the data files."""
        return self.base.have_hidden_columns or self.new.have_hidden_columns

    @cached_property
    def overlaid(self) -> list[Fragment]:
        """The fragments that have overlays."""
        return [*self.base.overlaid, *self.new.overlaid]

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.base.require_sound()

    def encoded(self) -> bytes:
        """Return the fragments as part of the message of a manifest."""
        return self.base.encoded() + self.new.encoded()
