"""The fragments of a version: an immutable sequence whose elements are built on first use.

A manifest may list very many fragments, of which most readers need few or none. On open, its
message is only surveyed. A take then builds the fragments that contain its rows, and a scan all. A
commit that adds or changes fragments builds none of the others: it checks them, and copies their
messages.

    StoredFragments    those of a manifest that was read
    ChangedFragments   those of a manifest, some of them replaced or left out
    GrownFragments     those of a version, followed by new ones
    Fragments          any others
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2
from pilum.format.rows import MAX_FRAGMENT_ID, MAX_ROWS
from pilum.format.schema import DESCRIPTOR_ID, FieldId
from pilum.table.model.features import Feature
from pilum.table.model.fragment import GIVEN_UP, DeletionFile, Fragment, FragmentId
from pilum.table.model.stored_sequence import HIDDEN_IDS, ROW_IDS

__all__ = ["ChangedFragments", "Fragments", "GrownFragments", "StoredFragments"]

_Layout = tuple[tuple[FieldId, ...], tuple[int, ...]]
"""The fields of a data file, and their columns."""

_Format = tuple[int, int]
"""The major and the minor part of a file version."""
_HIDDEN_COLUMNS = (
    "spilled_row_ids",
    "spilled_created_at_versions",
    "spilled_last_updated_at_versions",
)


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

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        return int(self.bounds[-1])

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        return all(one.is_counted for one in self.all())

    @property
    def are_distinct(self) -> bool:
        """Whether all fragment ids are different."""
        return len(self._by_id) == len(self)

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

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.all()

    def add_to(self, message: table_pb2.Manifest) -> None:
        """Add the messages of the fragments to that of a manifest."""
        message.fragments.extend([one.to_proto() for one in self.all()])

    def find(self, fragment_id: int) -> Fragment | None:
        """Return the fragment with an id, None if there is none; if two have it, the last one."""
        place = self._by_id.get(fragment_id)
        return None if place is None else self[place]

    def in_scan_order(self, fragment_ids: Iterable[int]) -> tuple[int, ...]:
        """Return ids of fragments, which exist, in the order in which scans read them."""
        return tuple(sorted(fragment_ids, key=self._by_id.__getitem__))

    def place_of(self, fragment_id: int) -> int:
        """Return the place of the fragment with an id, which exists."""
        return self._by_id[fragment_id]

    @cached_property
    def are_ascending(self) -> bool:
        """Whether scans read the fragments in the order of their ids, which are distinct."""
        return bool((self.ids[:-1] < self.ids[1:]).all())

    @cached_property
    def _by_id(self) -> dict[int, int]:
        return {number: place for place, number in enumerate(self.ids.tolist())}


class StoredFragments(Fragments):
    """The fragments of the message of a manifest; damaged ones raise on first use.

    Args:
        message: The message; must not be changed afterwards.
        where: Location of the manifest, for error messages.

    Attributes:
        features: Features that the fragments show, regardless of the flags of the manifest.
        recorded_rows: Number of rows that are not deleted, as far as it was recorded; not checked.
    """

    def __init__(self, message: table_pb2.Manifest, where: str = "") -> None:
        super().__init__()
        self._all = None  # no method of its own as the source: that cycle would keep the message
        self._message = message
        self._where = where
        self._built: dict[int, Fragment] = {}
        self._sound: set[_Layout] = set()
        self._are_plausible = False
        self.features, self.recorded_rows, self._are_counted = _survey(message)

    def _build(self) -> Iterator[Fragment]:
        self._require_plausible()
        with _located(self._where):
            for message in self._message.fragments:
                yield self._checked(message)

    def __len__(self) -> int:
        return len(self._message.fragments)

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
            with _located(self._where):
                found = self._checked(self._message.fragments[place])
            found = self._built.setdefault(place, found)
        return found

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the fragments, int64, shape (n,)."""
        self._require_plausible()
        return np.array([one.id for one in self._message.fragments], np.int64)

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """The number of live rows before each fragment, and in total: int64, shape (n + 1,)."""
        self._require_plausible()
        stored = self._message.fragments
        num_rows = [one.physical_rows - _deleted_rows(one) for one in stored]
        return np.cumsum([0, *num_rows], dtype=np.int64)

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        self._require_plausible()
        return self.recorded_rows

    @property
    def are_counted(self) -> bool:
        """Whether the row counts of all fragments were recorded."""
        return self._are_counted

    @cached_property
    def formats(self) -> frozenset[_Format]:
        """The versions of the data files.

        All fragments are checked, in a fraction of the time that it takes to build them. Those that
        are not like others before them are built, so that their damage shows.
        """
        self._require_plausible()
        sound: set[tuple[_Layout, _Format]] = set()
        last: table_pb2.DataFile | None = None
        with _located(self._where):
            for message in self._message.fragments:
                files = message.files
                if not files:
                    self._checked(message)
                for file in files:
                    path = file.path
                    is_odd = not path or "\0" in path or ".." in path
                    if last is not None and not is_odd and _are_alike(file, last):
                        continue
                    layout = tuple(file.fields), tuple(file.column_indices)
                    found = layout, (file.file_major_version, file.file_minor_version)
                    if found not in sound or is_odd:
                        self._checked(message)
                        sound.add(found)
                    last = file
                if message.HasField("deletion_file"):
                    DeletionFile.from_proto(message.deletion_file)
        return frozenset(one for _, one in sound)

    @cached_property
    def have_deletions(self) -> bool:
        """Whether a fragment has deleted rows."""
        return bool(self.features & Feature.DELETION_FILES)

    @cached_property
    def have_row_ids(self) -> bool:
        """Whether all fragments have stable row ids."""
        stored = self._message.fragments
        return all(one.inline_row_ids or one.WhichOneof(ROW_IDS.arm) for one in stored)

    @cached_property
    def have_hidden_columns(self) -> bool:
        """Whether a sequence of a fragment is stored as a column of the data files."""
        flags = self._message.reader_feature_flags | self._message.writer_feature_flags
        if not flags & (Feature.STABLE_ROW_IDS | Feature.SPILLED_ROW_LINEAGE):
            return False  # only tables with stable row ids have sequences
        return any(any(map(one.HasField, _HIDDEN_COLUMNS)) for one in self._message.fragments)

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        assert self.formats is not None

    def are_of(self, message: table_pb2.Manifest) -> bool:
        """Return whether they are exactly those of a message."""
        return self._message is message

    def add_to(self, message: table_pb2.Manifest) -> None:
        """Add the messages of the fragments to that of a manifest."""
        message.MergeFrom(table_pb2.Manifest(fragments=self._message.fragments))

    def _require_plausible(self) -> None:
        """Check the ids and row counts of all fragments, before they are used or added up."""
        if self._are_plausible:
            return
        with _located(self._where):
            seen = set()
            for fragment in self._message.fragments:
                rows = fragment.physical_rows
                if rows > MAX_ROWS or fragment.HasField("deletion_file"):
                    _require_plausible(fragment)
                seen.add(fragment.id)
            if max(seen, default=0) > MAX_FRAGMENT_ID or len(seen) < len(self):
                _require_distinct(self._message)
        self._are_plausible = True

    def _checked(self, message: table_pb2.DataFragment) -> Fragment:
        """Build a fragment; unlike in a transaction, nothing may be missing in it."""
        fragment = Fragment.from_proto(message)
        where = f"fragment {fragment.id}"
        if not fragment.files:
            raise CorruptFileError(f"{fragment.physical_rows} rows, but no data files", where)
        for file in fragment.files:
            layout = file.fields, file.column_indices
            if fault := _fault_of_path(file.path) or self._fault_of_layout(layout):
                raise CorruptFileError(fault, f"data file {file.path!r}", where)
        return fragment

    def _fault_of_layout(self, layout: _Layout) -> str:
        """Describe what is wrong with the fields of a file; empty if valid."""
        if layout in self._sound:  # most files have the same one
            return ""
        fields, columns = layout
        known = {GIVEN_UP, DESCRIPTOR_ID} | HIDDEN_IDS
        if unknown := {number for number in fields if number < 0} - known:
            return f"no field has the id {min(unknown)}"
        for what, numbers in (("field", fields), ("column", columns)):
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
        base: Fragments,
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

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.base.require_sound()

    def add_to(self, message: table_pb2.Manifest) -> None:
        """Add the messages of the fragments to that of a manifest."""
        first = len(message.fragments)
        self.base.add_to(message)
        for place, one in self._changed.items():
            message.fragments[first + place].CopyFrom(one.to_proto())
        for place in reversed(self._removed):
            del message.fragments[first + place]


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

    def require_sound(self) -> None:
        """Raise CorruptFileError if a fragment is damaged, which otherwise shows on first use."""
        self.base.require_sound()

    def add_to(self, message: table_pb2.Manifest) -> None:
        """Add the messages of the fragments to that of a manifest."""
        self.base.add_to(message)
        self.new.add_to(message)


def _survey(message: table_pb2.Manifest) -> tuple[Feature, int, bool]:
    """Survey all fragments, in an eighth of the time that it takes to build them.

    This is most of the cost of opening a table with very many fragments, so nothing is validated
    here; see `StoredFragments._require_plausible`. The result is the features that the content of
    the manifest shows, the number of rows that are not deleted, and whether the row counts of all
    fragments were recorded.
    """
    found = int(Feature.BASE_PATHS) if message.base_paths else 0  # a plain int is much faster
    num_rows, are_counted = 0, True
    for fragment in message.fragments:
        rows = fragment.physical_rows
        if not rows:
            are_counted = False
        if fragment.HasField("deletion_file"):
            deletion_file = fragment.deletion_file
            found |= Feature.DELETION_FILES.value
            if deletion_file.HasField("base_id"):
                found |= Feature.BASE_PATHS.value
            if not deletion_file.num_deleted_rows:
                are_counted = False
            rows -= deletion_file.num_deleted_rows
        if fragment.overlays:
            found |= Feature.DATA_OVERLAY_FILES.value
        num_rows += rows
    return Feature(found), num_rows, are_counted


def _require_plausible(message: table_pb2.DataFragment) -> None:
    """Raise CorruptFileError if the numbers of a fragment are impossible."""
    if message.id > MAX_FRAGMENT_ID:
        raise CorruptFileError(f"fragment id {message.id} needs more than 32 bits")
    where, rows = f"fragment {message.id}", message.physical_rows
    if rows > MAX_ROWS:
        raise CorruptFileError(f"{rows} rows; rows have addresses of 32 bits", where)
    if (deleted := _deleted_rows(message)) > (rows or MAX_ROWS):
        raise CorruptFileError(f"{deleted} of {rows} rows are deleted", where)


def _require_distinct(message: table_pb2.Manifest) -> None:
    """Raise CorruptFileError if a fragment is listed twice.

    Tables of release 0.16 may have two fragments with the same id, but with different files.
    """
    seen = set()
    for fragment in message.fragments:
        _require_plausible(fragment)
        key = fragment.id, *(file.path for file in fragment.files)
        if key in seen:
            raise CorruptFileError(f"fragment {fragment.id} is listed twice")
        seen.add(key)


def _deleted_rows(message: table_pb2.DataFragment) -> int:
    has_deleted = message.HasField("deletion_file")
    return message.deletion_file.num_deleted_rows if has_deleted else 0


def _are_alike(one: table_pb2.DataFile, other: table_pb2.DataFile) -> bool:
    """Return whether two files have the same fields in the same columns, and one version."""
    return (
        one.fields == other.fields
        and one.column_indices == other.column_indices
        and one.file_minor_version == other.file_minor_version
        and one.file_major_version == other.file_major_version
    )


def _fault_of_path(path: str) -> str:
    return "" if path and "\0" not in path else "no file has this name"


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Add the location of the manifest to errors."""
    try:
        yield
    except CorruptFileError as error:
        raise error.at(where) if where else error from None
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"a path is not UTF-8: {error}", where) from error
