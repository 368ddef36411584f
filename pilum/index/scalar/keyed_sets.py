"""The file of bitmap and label list indices: the set of rows of each distinct key.

    bitmap_page_lookup.lance      keys    bitmaps
                                  null    rows 2 5        a set as bytes: see `row_maps.py`
                                  1       row 1
                                  3       rows 3 4

Keys are in memory when a segment is open. Sets are read when they are needed, and kept as Roaring
bitmaps. The null key is the first one, then keys ascend; old releases wrote them in any order.

Source: docs/format/indices.md, "Bitmaps".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.cache import Cache
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.base import Moves
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import Between, StartsWith
from pilum.index.scalar.key_sets import SetBlock
from pilum.index.scalar.keys import (
    Keys,
    TextKeys,
    are_ascending,
    differences,
    integer_key,
    keys_of,
    range_of,
    require_indexable,
    stable_order,
)
from pilum.index.scalar.stored_sets import StoredSets
from pilum.kernels import pack_row_maps, unite_row_maps, unpack_row_maps

__all__ = ["FILE", "NULL_LISTS", "KeyedSets", "write_sets"]

FILE = "bitmap_page_lookup.lance"
_KEYS, _SETS = "keys", "bitmaps"
_STATISTICS = "lance:index_stats"
NULL_LISTS = "lance:label_list_nulls"
"""Metadata: the number of the global buffer with the rows whose list is null."""

_CACHE_BYTES = 128 << 20
_FEW_SETS = 256
"""So many sets are united from the cache; more are read and united without keeping them."""

_SETS_AT_ONCE = 4096
_SET_BYTES = 64
_BLOCK_BYTES = 512 << 10

_Places = NDArray[np.int64]


class KeyedSets:
    """An open file.

    Attributes:
        file: The file.
        type: Type of the keys.
        num_sets: Number of sets, with that of the null key.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self.file = folder.open(FILE)
        column = self.file.read([_KEYS]).column(0).combine_chunks()
        self.type: pa.DataType = column.type
        self.num_sets = len(column)
        try:
            require_indexable(_KEYS, self.type, "BITMAP")
        except UnsupportedTypeError as error:
            raise CorruptFileError(str(error), self.file.path) from None
        nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        keys = keys_of(column.drop_null())
        if not _ascends(keys):
            order = stable_order(keys)
            places, column = places[order], column.drop_null().take(pa.array(order))
            keys = keys_of(column)
            if not _ascends(keys):
                raise CorruptFileError("a key with two sets of rows", self.file.path)
        if len(nulls) > 1:
            raise CorruptFileError(f"{len(nulls)} null keys", self.file.path)
        self._values = column.drop_null()
        self._keys = keys
        self._places = places
        self._null_place = nulls
        self._sets = StoredSets(self.file, _SETS)
        self._cache = Cache(_CACHE_BYTES)
        self._key_bytes: int = self._values.nbytes + keys.nbytes
        self._sought: tuple[pa.Array, _Places] | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self._key_bytes + self._cache.size_bytes + self._sets.nbytes

    def null_place(self) -> _Places:
        """Return the place of the set of the null key, if it has one."""
        return self._null_place

    def require_type(self, kind: pa.DataType) -> None:
        """Raise an error if keys have another type than the column.

        Raises:
            CorruptFileError: Names both.
        """
        if kind != self.type:
            raise CorruptFileError(f"an index of {self.type} for {kind}", self.file.path)

    def places_of(self, values: pa.Array) -> _Places:
        """Return the place of the set of each value; -1 for values without a set."""
        self.require_type(values.type)
        wanted: Any = keys_of(values)
        low = self._keys.searchsorted(wanted, "left")
        high = self._keys.searchsorted(wanted, "right")
        found = np.full(len(low), -1, dtype=np.int64)
        found[high > low] = self._places[low[high > low]]
        return found

    def distinct_places(self, values: pa.Array) -> _Places:
        """Return the places of the sets of some values, each once; those without a set have none.

        An estimate is followed by a search for the same values, which are remembered.
        """
        known = self._sought
        if known is None or known[0] is not values:
            found = self.places_of(values)
            found = found[found >= 0]
            known = self._sought = values, found if len(found) < 2 else np.unique(found)
        return known[1]

    def place_of_integer(self, value: int) -> _Places | None:
        """Return the place of the set of an integer; None if the keys cannot have it."""
        key = integer_key(value, self.type)
        if key is None:
            return None
        keys = self._keys
        return self._places[keys.searchsorted(key, "left") : keys.searchsorted(key, "right")]

    def places_between(self, query: Between | StartsWith) -> _Places:
        """Return the places of the sets of a range of values."""
        low, high, low_side, high_side = range_of(query, self.type)
        start = 0 if low is None else int(self._keys.searchsorted(low, low_side))
        stop = len(self._places) if high is None else int(self._keys.searchsorted(high, high_side))
        return self._places[start : max(start, stop)]

    def union(self, places: _Places) -> RowSet:
        """Return the rows that are in one of some sets, whose places are distinct."""
        if len(places) == 1:
            known: BitMap64 | None = self._cache.get(int(places[0]))
            if known is not None:
                return RowSet(known)
        if len(places) <= _FEW_SETS:
            sets = self.sets(places)
            return RowSet(sets[0] if len(sets) == 1 else BitMap64.union(*sets, BitMap64()))
        ordered = np.sort(places)
        groups = np.split(ordered, np.arange(_SETS_AT_ONCE, len(ordered), _SETS_AT_ONCE))
        return RowSet(BitMap64.union(*[self._united(group) for group in groups]))

    def intersection(self, places: _Places) -> RowSet:
        """Return the rows that are in all of some sets, of which there is at least one."""
        return RowSet(BitMap64.intersection(*self.sets(places)))

    def sets(self, places: _Places) -> list[BitMap64]:
        """Return some sets."""
        numbers = places.tolist()
        found: dict[int, Any] = {number: self._cache.get(number) for number in numbers}
        missing = sorted(number for number, one in found.items() if one is None)
        if missing:
            data, bounds = self._stored(np.array(missing, dtype=np.int64))
            for index, number in enumerate(missing):
                ends = bounds[index : index + 2]
                one = found[number] = self._unpacked(data, ends)
                self._cache.put(number, one, int(ends[1] - ends[0]) + _SET_BYTES)
        return [found[number] for number in numbers]

    def estimate(self, places: _Places) -> int:
        """Return about how many rows some sets have, without reading any."""
        if len(places) > _FEW_SETS:
            return self._mean_rows * len(places)
        found = [self._cache.get(number) for number in places.tolist()]
        return sum(self._mean_rows if one is None else len(one) for one in found)

    @property
    def _mean_rows(self) -> int:
        # Two bytes per row are usual in sparse sets.
        return self.file.size_bytes // 2 // max(self.num_sets, 1)

    def prewarm(self) -> None:
        """Load the sets into the cache, up to its limit."""
        for start in range(0, self.num_sets, _FEW_SETS):
            if self._cache.size_bytes > _CACHE_BYTES // 2:
                break
            self.sets(np.arange(start, min(start + _FEW_SETS, self.num_sets)))

    def blocks(self, moves: Moves | None = None) -> Iterator[SetBlock]:
        """Yield all keys and their sets.

        Args:
            moves: Where the rows are now; None if they are where they were.
        """
        if len(self._null_place):
            yield from self._block(pa.nulls(1, self.type), self._null_place, moves)
        places = self._places
        step = self._sets_at_once if bool((places[:-1] < places[1:]).all()) else 1
        for start in range(0, len(places), step):
            values = self._values.slice(start, step)
            yield from self._block(values, places[start : start + step], moves)

    def _block(self, values: pa.Array, places: _Places, moves: Moves | None) -> Iterator[SetBlock]:
        """Yield some keys; without those whose rows no longer exist."""
        if moves is None:
            data, bounds = self._stored(places)
            yield SetBlock(values, data[bounds[0] : bounds[-1]], bounds - bounds[0])
            return
        rows, ends = self._rows(places)
        rows, exist = moves(rows)
        ends = np.concatenate(([0], np.cumsum(exist)))[ends]
        is_left = np.diff(ends) > 0
        if is_left.any():
            bounds = np.concatenate(([0], ends[1:][is_left]))
            yield SetBlock(values.filter(pa.array(is_left)), *pack_row_maps(rows[exist], bounds))

    @property
    def _sets_at_once(self) -> int:
        mean_bytes = self.file.size_bytes // max(self.num_sets, 1)
        return int(np.clip(_BLOCK_BYTES // max(mean_bytes, 1), 1, _SETS_AT_ONCE))

    def _rows(self, places: _Places) -> tuple[Addresses, _Places]:
        """Return the rows of sets at ascending places, and the ends of each."""
        try:
            return unpack_row_maps(*self._stored(places))
        except CorruptFileError as error:
            raise error if error.where else error.at(self.file.path) from None

    def _united(self, places: _Places) -> BitMap64:
        return self._unpacked(*self._stored(places))

    def _stored(self, places: _Places) -> tuple[NDArray[np.uint8], _Places]:
        """Return the bytes of sets at ascending places, and the ends of each."""
        keys = TextKeys(self._sets.at(places))
        return keys.data, keys.offsets.astype(np.int64)

    def _unpacked(self, data: NDArray[np.uint8], bounds: _Places) -> BitMap64:
        try:
            return BitMap64.deserialize(unite_row_maps(data, bounds).tobytes())
        except CorruptFileError as error:
            raise error.at(self.file.path) from None


def write_sets(
    blocks: Iterable[SetBlock],
    kind: pa.DataType,
    folder: IndexFolderWriter,
    null_lists: Callable[[], Addresses] | None = None,
) -> None:
    """Write the file.

    Args:
        blocks: The sets, sorted by key, nulls first.
        kind: Type of the keys.
        folder: The folder of the new segment.
        null_lists: Returns the rows whose list is null, when all blocks are written; None if keys
            are not items of lists.
    """
    schema = pa.schema([pa.field(_KEYS, kind), pa.field(_SETS, pa.binary())])
    num_sets = 0
    with folder.file(FILE, schema) as file:
        for block in blocks:
            keys, ends = block.values, pa.py_buffer(block.ends.astype(np.int32))
            buffers = [None, ends, pa.py_buffer(block.data)]
            sets = pa.Array.from_buffers(pa.binary(), len(keys), buffers)
            file.write(pa.RecordBatch.from_arrays([keys, sets], schema=schema))
            num_sets += len(keys)
        if null_lists is not None:
            rows = null_lists()
            data, _ = pack_row_maps(rows, np.array([0, len(rows)]))
            number = file.add_global_buffer(data.tobytes())
            file.add_metadata({NULL_LISTS: str(number)})
        file.add_metadata({_STATISTICS: f'{{"num_bitmaps":{num_sets}}}'})


def _ascends(keys: Keys) -> bool:
    """Return whether each key is greater than the one before it."""
    return are_ascending(keys) and bool(differences(keys).all())
