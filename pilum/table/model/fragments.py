"""The fragments of a version: an immutable sequence whose elements are built on first use.

A manifest may list very many fragments, of which most readers need few or none. On open, its bytes
are only surveyed. A take then builds the fragments that contain its rows, and a scan all. A commit
that adds or changes fragments builds none of the others: it checks them, and copies their bytes.

    StoredFragments    those of a manifest that was read
    ChangedFragments   those of a manifest, some of them replaced or left out
    GrownFragments     those of a version, followed by new ones
    Fragments          any others
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.fields import DESCRIPTOR_ID, FieldId
from pilum.format.messages import has_unknown_members
from pilum.format.pb import table_pb2
from pilum.format.rows import MAX_FRAGMENT_ID, MAX_ROWS
from pilum.table.model.features import Feature
from pilum.table.model.fragment import GIVEN_UP, DataFile, Fragment, FragmentId
from pilum.table.model.fragment_survey import FragmentSurvey, Trait
from pilum.table.model.stored_sequence import HIDDEN_IDS

__all__ = ["ChangedFragments", "Fragments", "GrownFragments", "StoredFragments"]

_Layout = tuple[tuple[FieldId, ...], tuple[int, ...]]
"""The fields of a data file, and their columns."""

_NEGATIVE_IDS = frozenset({GIVEN_UP, DESCRIPTOR_ID} | HIDDEN_IDS)
"""The ids below 0 that files may list."""

_Format = tuple[int, int]
"""The major and the minor part of a file version."""


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
    def formats(self) -> frozenset[_Format]:
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


class StoredFragments(Fragments):
    """The fragments of a manifest that was read; damaged ones raise on first use.

    Args:
        survey: The fragments in the message of the manifest.
        where: Location of the manifest, for error messages.

    Attributes:
        survey: The fragments in the message of the manifest.
    """

    def __init__(self, survey: FragmentSurvey, where: str = "") -> None:
        super().__init__()
        self._all = None  # no method of its own as the source: that cycle would keep the bytes
        self.survey = survey
        self._where = where
        self._built: dict[int, Fragment] = {}
        self._sound: set[_Layout] = set()
        self._are_plausible = False
        self._traits = survey.all_traits
        self._odd: dict[int, table_pb2.DataFragment] = {}
        if self._traits & Trait.ODD:
            with _located(where):  # bytes that are no message show at once
                self._odd = {at: survey.parsed(at, at + 1)[0] for at in survey.having(Trait.ODD)}

    def _build(self) -> Iterator[Fragment]:
        self._require_plausible()
        with _located(self._where):
            for message in self.survey.parsed():
                yield self._checked(message)

    def __len__(self) -> int:
        return len(self.survey)

    @overload
    def __getitem__(self, place: int) -> Fragment: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Fragment, ...]: ...

    def __getitem__(self, place: int | slice) -> Fragment | tuple[Fragment, ...]:
        """Return the fragment at a place in scan order, without building the others."""
        if isinstance(place, slice) or self._all is not None:
            return self.all()[place]
        found = self._built.get(place)
        if found is None:
            place = range(len(self))[place]
            with _located(self._where):
                found = self._checked(self.survey.parsed(place, place + 1)[0])
            found = self._built.setdefault(place, found)
        return found

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the fragments, int64, shape (n,)."""
        self._require_plausible()
        return self.survey.ids.astype(np.int64)

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The number of live rows before each fragment, and in total: int64, shape (n + 1,)."""
        self._require_plausible()
        bounds = np.zeros(len(self) + 1, np.int64)
        live = (self.survey.rows - self.survey.deleted).view(np.int64)
        np.add.accumulate(live, out=bounds[1:])
        return bounds

    @cached_property
    def physical_rows(self) -> NDArray[np.int64]:
        """The number of rows of each fragment, deleted ones included: int64, shape (n,)."""
        self._require_plausible()
        return self.survey.rows.astype(np.int64)

    @property
    def have_recorded_rows(self) -> bool:
        """Whether there are rows that are not deleted, as far as it was recorded; not checked."""
        return bool((self.survey.rows != self.survey.deleted).any())

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        survey = self.survey
        if np.count_nonzero(survey.rows) < len(self):
            return False
        if not self._traits & Trait.DELETIONS:
            return True
        return bool(survey.deleted[survey.having(Trait.DELETIONS)].all())

    @cached_property
    def recorded_formats(self) -> frozenset[_Format]:
        """The versions of the data files; not checked."""
        with _located(self._where):
            files = [file for message in self._samples.values() for file in message.files]
        return frozenset((file.file_major_version, file.file_minor_version) for file in files)

    @cached_property
    def formats(self) -> frozenset[_Format]:
        """The versions of the data files, after checking all fragments."""
        self._require_plausible()
        with _located(self._where):
            for message in (self._samples | self._odd).values():
                self._checked(message)
        return self.recorded_formats

    @property
    def features(self) -> int:
        """Features that the fragments show, regardless of the flags of the manifest."""
        traits = self._traits
        found = Feature.DELETION_FILES.value if traits & Trait.DELETIONS else 0
        if traits & Trait.DELETIONS_ELSEWHERE:
            found |= Feature.BASE_PATHS.value
        return found | Feature.DATA_OVERLAY_FILES.value if traits & Trait.OVERLAYS else found

    @cached_property
    def have_deletions(self) -> bool:
        """Whether a fragment has deleted rows."""
        return bool(self._traits & Trait.DELETIONS)

    @property
    def have_row_ids(self) -> bool:
        """Whether all fragments have stable row ids."""
        return bool((self.survey.traits & np.uint8(Trait.ROW_IDS)).all())

    @property
    def have_hidden_columns(self) -> bool:
        """Whether a sequence of a fragment is stored as a column of the data files."""
        return bool(self._traits & Trait.HIDDEN_COLUMNS)

    @cached_property
    def overlaid(self) -> list[Fragment]:
        """The fragments that have overlays."""
        if not self._traits & Trait.OVERLAYS:
            return []
        return [self[place] for place in self.survey.having(Trait.OVERLAYS)]

    @cached_property
    def are_lossy(self) -> bool:
        """Whether a fragment has members, at any depth, that `Fragment` cannot represent."""
        return any(map(_is_lossy, self._odd.values()))

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        assert self.formats is not None

    def encoded(self) -> bytes:
        """Return the fragments as part of the message of a manifest."""
        return self.survey.entries()

    @cached_property
    def _samples(self) -> dict[int, table_pb2.DataFragment]:
        """A fragment with each layout of data files, by place."""
        places = self.survey.samples.tolist()
        return {place: self.survey.parsed(place, place + 1)[0] for place in places}

    def _require_plausible(self) -> None:
        """Check the ids and row counts of all fragments, before they are used or added up."""
        if self._are_plausible:
            return
        survey = self.survey
        has_high = _exceeds(survey.ids, MAX_FRAGMENT_ID) or _exceeds(survey.rows, MAX_ROWS)
        if has_high or np.count_nonzero(survey.deleted):
            self._require_plausible_each()
        if len(survey) > 1 and not (survey.ids[:-1] < survey.ids[1:]).all():
            self._require_distinct()
        self._are_plausible = True

    def _require_plausible_each(self) -> None:
        """Raise CorruptFileError for the first fragment with impossible numbers, if any."""
        survey = self.survey
        wrong = (survey.ids > MAX_FRAGMENT_ID) | (survey.rows > MAX_ROWS)
        wrong |= survey.deleted > np.where(survey.rows == 0, MAX_ROWS, survey.rows)
        with _located(self._where):
            for place in np.flatnonzero(wrong).tolist():
                counts = survey.ids[place], survey.rows[place], survey.deleted[place]
                _require_plausible(*map(int, counts))

    def _require_distinct(self) -> None:
        """Raise CorruptFileError if a fragment is listed twice.

        Tables of release 0.16 may have two fragments with the same id, but with different files.
        """
        if len(np.unique(self.survey.ids)) == len(self):
            return
        seen = set()
        with _located(self._where):
            for fragment in self.survey.parsed():
                key = fragment.id, *(file.path for file in fragment.files)
                if key in seen:
                    raise CorruptFileError(f"fragment {fragment.id} is listed twice")
                seen.add(key)

    def _checked(self, message: table_pb2.DataFragment) -> Fragment:
        """Build a fragment; unlike in a transaction, nothing may be missing in it."""
        fragment = Fragment.from_proto(message)
        where = f"fragment {fragment.id}"
        if not fragment.files:
            raise CorruptFileError(f"{fragment.physical_rows} rows, but no data files", where)
        files = fragment.all_files
        for file in files:
            layout = file.fields, file.column_indices
            if fault := _fault_of_path(file.path) or self._fault_of_layout(layout):
                raise CorruptFileError(fault, f"data file {file.path!r}", where)
        if len(files) > 1 and (twice := _listed_twice(files)):
            raise CorruptFileError("listed twice", f"data file {twice!r}", where)
        return fragment

    def _fault_of_layout(self, layout: _Layout) -> str:
        """Describe what is wrong with the fields of a file; empty if valid."""
        if layout in self._sound:  # most files have the same one
            return ""
        fields, columns = layout
        if unknown := {number for number in fields if number < 0} - _NEGATIVE_IDS:
            return f"no field has the id {min(unknown)}"
        for what, numbers in (("field", fields), ("column", columns)):
            if len({*numbers}) == len(numbers):
                continue
            counts = Counter(number for number in numbers if number >= 0)
            if twice := [number for number, count in counts.items() if count > 1]:
                return f"{what} {twice[0]} is listed twice"
        self._sound.add(layout)
        return ""


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
    def formats(self) -> frozenset[_Format]:
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
    def formats(self) -> frozenset[_Format]:
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


def _exceeds(numbers: NDArray[np.uint64], limit: int) -> bool:
    return len(numbers) > 0 and int(numbers.max()) > limit


def _require_plausible(number: int, rows: int, deleted: int) -> None:
    """Raise CorruptFileError if the numbers of a fragment are impossible."""
    if number > MAX_FRAGMENT_ID:
        raise CorruptFileError(f"fragment id {number} needs more than 32 bits")
    where = f"fragment {number}"
    if rows > MAX_ROWS:
        raise CorruptFileError(f"{rows} rows; rows have addresses of 32 bits", where)
    if deleted > (rows or MAX_ROWS):
        raise CorruptFileError(f"{deleted} of {rows} rows are deleted", where)


def _is_lossy(message: table_pb2.DataFragment) -> bool:
    return bool(message.clustering_id or message.metadata) or has_unknown_members(message)


def _listed_twice(files: Iterable[DataFile]) -> str:
    """Return the path of a data file that a fragment has twice; empty if there is none."""
    counts = Counter((file.path, file.base_id) for file in files)
    return next((path for (path, _), count in counts.items() if count > 1), "")


def _fault_of_path(path: str) -> str:
    return "" if path and "\0" not in path else "no file has this name"


class _located:  # noqa: N801 - used as a function, and entered in every scan
    """Add the location of the manifest to errors."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CorruptFileError) and self._where:
            raise error.at(self._where) from None
        if isinstance(error, UnicodeDecodeError):
            raise CorruptFileError(f"a path is not UTF-8: {error}", self._where) from error
