"""The fragments of a manifest that was read: surveyed at once, checked and built on first use.

bytes of the manifest ──▶ survey: numbers of all ──▶ plausible? ──▶ one, some or all built
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.fields import DESCRIPTOR_ID, FieldId
from pilum.format.messages import has_unknown_members
from pilum.format.pb import table_pb2
from pilum.format.rows import MAX_FRAGMENT_ID, MAX_ROWS
from pilum.lazy import cached_property
from pilum.table.model.features import Feature
from pilum.table.model.fragment import GIVEN_UP, DataFile, Fragment
from pilum.table.model.fragment_survey import FragmentSurvey, Trait
from pilum.table.model.fragments import Fragments, StoredVersion
from pilum.table.model.stored_sequence import HIDDEN_IDS

__all__ = ["StoredFragments"]

_Layout: TypeAlias = tuple[tuple[FieldId, ...], tuple[int, ...]]
"""The fields of a data file, and their columns."""

_NEGATIVE_IDS = frozenset({GIVEN_UP, DESCRIPTOR_ID} | HIDDEN_IDS)
"""The ids below 0 that files may list."""


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
    def recorded_formats(self) -> frozenset[StoredVersion]:
        """The versions of the data files; not checked."""
        with _located(self._where):
            files = [file for message in self._samples.values() for file in message.files]
        return frozenset((file.file_major_version, file.file_minor_version) for file in files)

    @cached_property
    def formats(self) -> frozenset[StoredVersion]:
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
