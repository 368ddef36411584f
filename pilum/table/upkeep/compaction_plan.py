"""Plan a compaction: choose the fragments that are rewritten together.

    fragment        0    1    2    3    4    5    6       target: 10 rows
    rows            5    5    5   20    5    3    4
    deleted         .    .    .    .    .    .    .

    candidates      n    n    n    .    n    n    n       n: small, only with an adjacent one
    bins           [0    1    2]       [4    5    6]      a: many deleted rows, also alone
    tasks          [0    1    2]       [4    5    6]      a bin is cut where both parts are large

A fragment with many deleted rows, or with files to repair, is a candidate whatever its size.
Adjacent fragments share a task only if the same indices cover them, as an index covers a fragment
either wholly or not at all. Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from pilum.errors import InvalidInputError
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.reuse_index import Coverage

__all__ = ["CompactionOptions", "plan_compaction", "require_consistent", "source_bytes"]


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Options for choosing fragments and writing them.

    Attributes:
        target_rows_per_fragment: Fragments with fewer rows are small; new ones have as many or
            more, but fewer than twice as many.
        target_bytes_per_fragment: A fragment whose data files have this size is not small, however
            few its rows are; new ones get no further rows from there on.
        max_rows_per_group: Rows per group in files of version 0.1.
        max_bytes_per_file: A new file that has grown to this size gets no further rows.
        materialize_deletions: Whether fragments are rewritten because of their deleted rows alone.
        materialize_deletions_threshold: Minimum share of deleted rows for that.
        records_moves: Whether to record moves even if no index needs them yet; None to record them
            where an index needs them.
        num_threads: Number of concurrent tasks; None for as many as the memory limit allows.
        batch_size: Number of rows read at a time; None for the default.
        memory_limit_bytes: Memory limit of all concurrent tasks together.
        max_source_fragments: Maximum number of fragments to rewrite.
        max_source_rows: Maximum number of rows to rewrite.
        max_source_bytes: Maximum size of data files to rewrite, bytes.
        excluded_fragment_ids: These fragments stay, and no task contains fragments from both sides
            of one.
        version: File version to write; None for that of the table.
    """

    target_rows_per_fragment: int = 1024 * 1024
    target_bytes_per_fragment: int = 90 << 30
    max_rows_per_group: int = 1024
    max_bytes_per_file: int = 90 << 30
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    records_moves: bool | None = None
    num_threads: int | None = None
    batch_size: int | None = None
    memory_limit_bytes: int = 1 << 30
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()
    version: FileVersion | None = None


class _Candidacy(Enum):
    ALONE = 1
    WITH_NEIGHBOURS = 2


@dataclass(frozen=True, slots=True)
class _Candidate:
    fragment: Fragment
    candidacy: _Candidacy
    indices: frozenset[int]


def plan_compaction(
    store: Store,
    manifest: Manifest,
    options: CompactionOptions,
    to_mend: Collection[FragmentId] = (),
) -> list[tuple[Fragment, ...]]:
    """Plan a compaction.

    Args:
        store: Where the table is; only long details of indices are read.
        manifest: The version.
        options: Options of the compaction.
        to_mend: Fragments to rewrite whatever their size.

    Returns:
        The tasks: groups of fragments, in scan order, that are rewritten together.

    Raises:
        UnsupportedFeatureError: If an index does not record what it covers.
        CorruptFileError: If the indices are damaged.
    """
    coverage = Coverage(store, manifest)
    tasks = [
        task
        for found in _bins(manifest.fragments, coverage, options, to_mend)
        for task in _split(found, options)
    ]
    return list(_limited(tasks, options))


def source_bytes(fragments: Iterable[Fragment]) -> int:
    """Return the size of data files in bytes; unknown sizes count as 0."""
    return sum(file.size_bytes or 0 for fragment in fragments for file in fragment.files)


def _candidacy(
    fragment: Fragment, options: CompactionOptions, to_mend: Collection[FragmentId]
) -> _Candidacy | None:
    if fragment.id in to_mend:
        return _Candidacy.ALONE
    if options.materialize_deletions and fragment.physical_rows:
        share = fragment.num_deleted_rows / fragment.physical_rows
        if share > options.materialize_deletions_threshold:
            return _Candidacy.ALONE
    if fragment.physical_rows >= options.target_rows_per_fragment:
        return None
    is_wide = source_bytes([fragment]) >= options.target_bytes_per_fragment
    return None if is_wide else _Candidacy.WITH_NEIGHBOURS


def _bins(
    fragments: Iterable[Fragment],
    coverage: Coverage,
    options: CompactionOptions,
    to_mend: Collection[FragmentId],
) -> Iterator[list[Fragment]]:
    """Yield runs of adjacent fragments that may be rewritten together and are worth it."""
    found: list[_Candidate] = []
    excluded = set(options.excluded_fragment_ids)
    for fragment in fragments:
        candidacy = None if fragment.id in excluded else _candidacy(fragment, options, to_mend)
        if candidacy is None:
            yield from _worthwhile(found)
            found = []
            continue
        candidate = _Candidate(fragment, candidacy, coverage.indices_of(fragment.id))
        if found and found[-1].indices != candidate.indices:
            yield from _worthwhile(found)
            found = []
        found.append(candidate)
    yield from _worthwhile(found)


def _worthwhile(found: list[_Candidate]) -> Iterator[list[Fragment]]:
    if len(found) > 1 or (found and found[0].candidacy is _Candidacy.ALONE):
        yield [candidate.fragment for candidate in found]


def _split(fragments: list[Fragment], options: CompactionOptions) -> Iterator[tuple[Fragment, ...]]:
    """Split a bin wherever both sides are large enough."""
    rows = [0, *accumulate(fragment.num_rows for fragment in fragments)]
    sizes = [0, *accumulate(source_bytes([fragment]) for fragment in fragments)]

    def is_enough(start: int, stop: int) -> bool:
        has_rows = rows[stop] - rows[start] >= options.target_rows_per_fragment
        return has_rows or sizes[stop] - sizes[start] >= options.target_bytes_per_fragment

    start, end = 0, len(fragments)
    for stop in range(1, end):
        if is_enough(start, stop) and is_enough(stop, end):
            yield tuple(fragments[start:stop])
            start = stop
    yield tuple(fragments[start:])


def _limited(
    tasks: list[tuple[Fragment, ...]], options: CompactionOptions
) -> Iterator[tuple[Fragment, ...]]:
    """Yield whole tasks, in order, while all limits hold."""
    fragments = rows = size = 0
    for task in tasks:
        fragments += len(task)
        rows += sum(fragment.num_rows for fragment in task)
        size += source_bytes(task)
        if (
            _exceeds(fragments, options.max_source_fragments)
            or _exceeds(rows, options.max_source_rows)
            or _exceeds(size, options.max_source_bytes)
        ):
            return
        yield task


def _exceeds(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def require_consistent(options: CompactionOptions, manifest: Manifest) -> None:
    """Check options against a table.

    Raises:
        InvalidInputError: If the requested file version cannot be mixed with the table's.
    """
    own = manifest.data_version
    wanted = options.version or own
    if FileVersion.LEGACY in {own, wanted} and wanted is not own:
        raise InvalidInputError(
            f"data_storage_version: files of version {wanted} cannot be mixed with those of {own}"
        )
