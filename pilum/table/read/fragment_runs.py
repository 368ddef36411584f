"""Runs of adjacent small fragments, which are read as one.

    fragments    | 0 | 1 | 2 | 3 |      4      | 5 | 6 |
    sources      |  run  |  run  |      4      |  run  |      one window each

A fragment is small if its files are in memory as soon as they are open, and it has neither deleted
rows nor overlays. The fragments of a run have the same columns in files of the same schema. Opening
files, and the calls for each column, take nearly all of the time of such a scan. The first runs are
short, because a scan may end soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from pilum.container.fields import LeafFieldReader
from pilum.container.joined_files import JoinedFieldReader
from pilum.container.reader import FileReader
from pilum.container.segments import FieldReader
from pilum.format.fields import Field
from pilum.table.read.fragment_files import FragmentReader

__all__ = ["FragmentRun", "in_runs"]

_MOST_FRAGMENTS = 256
_MOST_BYTES = 1024 * 1024
_MOST_ROWS = 64 * 1024


class FragmentRun:
    """Some adjacent fragments whose rows follow each other.

    Attributes:
        store: Their store.
        fragments: Their readers.
        bounds: int64, shape (fragments + 1,), the first row of each fragment, and the end.
        num_rows: The number of all rows.
    """

    def __init__(
        self, fragments: Sequence[FragmentReader], files: Sequence[tuple[FileReader, ...]]
    ) -> None:
        self.store = fragments[0].store
        self.fragments = fragments
        ends = accumulate([one.num_rows for one in fragments], initial=0)
        self.bounds: NDArray[np.int64] = np.array(list(ends), np.int64)
        self.num_rows = int(self.bounds[-1])
        self._files = files
        self._fields: dict[int, tuple[Field, JoinedFieldReader]] = {}

    def field(self, field: Field) -> FieldReader:
        """Open the columns of a field, reduced to the requested members."""
        known = self._fields.get(id(field))
        if known is None:
            first = self.fragments[0].field(field)
            assert isinstance(first, LeafFieldReader)

            def alone(number: int) -> FieldReader:
                return self.fragments[number].field(field)

            known = field, JoinedFieldReader(first, self._files, self.bounds, alone)
            self._fields[id(field)] = known  # with the field, so that no other gets its identity
        return known[1]

    def fields(self, fields: Iterable[Field]) -> list[FieldReader]:
        """Open the columns of several fields."""
        return [self.field(field) for field in fields]

    def ends(self, num_rows: int, rows: Callable[[], NDArray[np.int64]]) -> list[int]:
        """Return where the rows of each fragment end among selected ones, which are ascending."""
        bounds = self.bounds[1:]
        ends: list[int]
        ends = (bounds if num_rows == self.num_rows else rows().searchsorted(bounds)).tolist()
        return ends

    def split(self, rows: NDArray[np.int64]) -> list[tuple[FragmentReader, NDArray[np.int64]]]:
        """Split ascending rows of the run, at least one, into physical rows of its fragments."""
        cuts, firsts = rows.searchsorted(self.bounds).tolist(), self.bounds.tolist()
        return [
            (fragment, rows[start:stop] - first)
            for fragment, first, (start, stop) in zip(
                self.fragments, firsts, pairwise(cuts), strict=False
            )
            if start < stop
        ]


_Range = tuple[FragmentReader | FragmentRun, int, int]
"""A range of rows, from the first to before the last."""


def in_runs(rows: Iterable[tuple[FragmentReader, int, int]]) -> Iterator[_Range]:
    """Yield the same rows, with runs in place of small fragments that are read as a whole."""
    waiting: list[FragmentReader] = []
    files: list[tuple[FileReader, ...]] = []
    last: object = None
    num_rows = num_bytes = 0
    most = 1
    for fragment, start, stop in rows:
        is_whole = start == 0 and stop == fragment.num_rows <= _MOST_ROWS
        own = fragment.small_files() if is_whole else None
        kind = own and _kind(fragment, own)
        is_full = len(waiting) >= most or num_bytes >= _MOST_BYTES or num_rows + stop > _MOST_ROWS
        if waiting and (kind != last or is_full):
            yield _joined(waiting, files)
            most = min(2 * most, _MOST_FRAGMENTS)
            waiting, files, num_rows, num_bytes = [], [], 0, 0
        last = kind
        if own is None:
            yield fragment, start, stop
            continue
        waiting.append(fragment)
        files.append(own)
        num_rows += stop
        num_bytes += sum([file.source.size for file in own])
    if waiting:
        yield _joined(waiting, files)


def _kind(fragment: FragmentReader, files: Sequence[FileReader]) -> object:
    """Return a value that fragments share whose fields are in the same columns."""
    return [
        (file.fields, file.column_indices, reader.version, reader.end.file_schema)
        for file, reader in zip(fragment.fragment.files, files, strict=True)
    ]


def _joined(fragments: list[FragmentReader], files: list[tuple[FileReader, ...]]) -> _Range:
    if len(fragments) == 1:
        return fragments[0], 0, fragments[0].num_rows
    run = FragmentRun(fragments, files)
    return run, 0, run.num_rows
