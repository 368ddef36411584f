"""The fragments of a manifest message: surveyed on open, built on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2
from pilum.format.row_address import MAX_FRAGMENT_ID, MAX_ROWS
from pilum.format.schema import DESCRIPTOR_ID, FieldId
from pilum.table.model.features import Feature
from pilum.table.model.fragment import GIVEN_UP, Fragment
from pilum.table.model.stored_sequence import HIDDEN_IDS

__all__ = ["FragmentPlaces", "Survey", "build_fragments", "require_plausible", "survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """A summary of the fragments of a manifest.

    Attributes:
        features: Features that the content of the manifest shows, regardless of its flags.
        num_rows: Number of rows that are not deleted, as far as it was recorded.
        is_counted: Whether the row counts of all fragments were recorded.
    """

    features: Feature
    num_rows: int
    is_counted: bool


def survey(message: table_pb2.Manifest) -> Survey:
    """Survey all fragments, in an eighth of the time that it takes to build them.

    This is most of the cost of opening a table with very many fragments, so nothing is validated
    here; see `require_plausible`.
    """
    found = int(Feature.BASE_PATHS) if message.base_paths else 0  # a plain int is much faster
    num_rows, is_counted = 0, True
    for fragment in message.fragments:
        rows = fragment.physical_rows
        if not rows:
            is_counted = False
        if fragment.HasField("deletion_file"):
            deletion_file = fragment.deletion_file
            found |= Feature.DELETION_FILES.value
            if deletion_file.HasField("base_id"):
                found |= Feature.BASE_PATHS.value
            if not deletion_file.num_deleted_rows:
                is_counted = False
            rows -= deletion_file.num_deleted_rows
        if fragment.overlays:
            found |= Feature.DATA_OVERLAY_FILES.value
        num_rows += rows
    return Survey(Feature(found), num_rows, is_counted)


def require_plausible(message: table_pb2.Manifest, where: str) -> None:
    """Check the ids and row counts of all fragments, before they are used or added up.

    Raises:
        CorruptFileError: If a number is impossible, or a fragment is listed twice.
    """
    with _told(where):
        seen = set()
        for fragment in message.fragments:
            rows = fragment.physical_rows
            if rows > MAX_ROWS or fragment.HasField("deletion_file"):
                _require_plausible(fragment)
            seen.add(fragment.id)
        if max(seen, default=0) > MAX_FRAGMENT_ID or len(seen) < len(message.fragments):
            _require_distinct(message)


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


def build_fragments(message: table_pb2.Manifest, where: str) -> tuple[Fragment, ...]:
    """Build the fragments of the manifest at `where`.

    Raises:
        CorruptFileError: If a fragment contradicts the format.
    """
    require_plausible(message, where)
    with _told(where):
        return tuple(map(_sound, message.fragments))


class FragmentPlaces:
    """Positions of rows among very many fragments, of which only few are built.

    Attributes:
        ids: int64, shape (n,): ids of the fragments, in scan order.
        bounds: int64, shape (n + 1,): number of live rows before each fragment, and in total.
    """

    def __init__(
        self, ids: NDArray[np.int64], num_rows: NDArray[np.int64], build: Callable[[int], Fragment]
    ) -> None:
        self.ids = ids
        self.bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_rows)])
        self._build = build
        self._built: dict[int, Fragment] = {}

    @classmethod
    def of_fragments(cls, fragments: tuple[Fragment, ...]) -> FragmentPlaces:
        """Build the places of fragments that are already built."""
        ids = np.array([one.id for one in fragments], np.int64)
        num_rows = np.array([one.num_rows for one in fragments], np.int64)
        return cls(ids, num_rows, fragments.__getitem__)

    @classmethod
    def of_message(cls, message: table_pb2.Manifest, where: str) -> FragmentPlaces:
        """Build the places of the fragments of the manifest at `where`.

        Raises:
            CorruptFileError: If an id or row count is not plausible.
        """
        require_plausible(message, where)
        stored = message.fragments
        ids = np.array([one.id for one in stored], np.int64)
        deleted = np.array([_deleted_rows(one) for one in stored], np.int64)
        num_rows = np.array([one.physical_rows for one in stored], np.int64) - deleted
        return cls(ids, num_rows, lambda place: _built(stored[place], where))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Fragment:
        """Return the fragment at a place in scan order.

        Raises:
            CorruptFileError: If the fragment contradicts the format.
        """
        found = self._built.get(place)
        if found is None:
            found = self._built.setdefault(place, self._build(place))
        return found

    def find(self, fragment_id: int) -> Fragment | None:
        """Return the fragment with an id, None if there is none; if two have it, the last one.

        Raises:
            CorruptFileError: If the fragment contradicts the format.
        """
        place = self._by_id.get(fragment_id)
        return None if place is None else self[place]

    @property
    def are_distinct(self) -> bool:
        """Whether all fragment ids are different."""
        return len(self._by_id) == len(self)

    @cached_property
    def _by_id(self) -> dict[int, int]:
        return {number: place for place, number in enumerate(self.ids.tolist())}


def _deleted_rows(message: table_pb2.DataFragment) -> int:
    has_deleted = message.HasField("deletion_file")
    return message.deletion_file.num_deleted_rows if has_deleted else 0


def _built(message: table_pb2.DataFragment, where: str) -> Fragment:
    with _told(where):
        return _sound(message)


def _sound(message: table_pb2.DataFragment) -> Fragment:
    """Build a fragment of a manifest; unlike in a transaction, nothing may be missing in it."""
    fragment = Fragment.from_proto(message)
    where = f"fragment {fragment.id}"
    if not fragment.files:
        raise CorruptFileError(f"{fragment.physical_rows} rows, but no data files", where)
    for file in fragment.files:
        if fault := _fault_of_path(file.path) or _fault_of_fields(file.fields, file.column_indices):
            raise CorruptFileError(fault, f"data file {file.path!r}", where)
    return fragment


def _fault_of_path(path: str) -> str:
    return "" if path and "\0" not in path else "no file has this name"


@lru_cache(maxsize=64)
def _fault_of_fields(fields: tuple[FieldId, ...], columns: tuple[int, ...]) -> str:
    """Describe what is wrong with the fields of a file; empty if valid. Most files share them."""
    unknown = {number for number in fields if number < 0} - {GIVEN_UP, DESCRIPTOR_ID} - HIDDEN_IDS
    if unknown:
        return f"no field has the id {min(unknown)}"
    for what, numbers in (("field", fields), ("column", columns)):
        counts = Counter(number for number in numbers if number >= 0)
        if twice := [number for number, count in counts.items() if count > 1]:
            return f"{what} {twice[0]} is listed twice"
    return ""


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Add the location of the manifest to errors."""
    try:
        yield
    except CorruptFileError as error:
        raise error.at(where) if where else error from None
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"a path is not UTF-8: {error}", where) from error
