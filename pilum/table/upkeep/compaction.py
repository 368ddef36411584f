"""Compaction: choose fragments, rewrite them together, and commit all moves as one version.

    fragment        0    1    2    3    4    5    6       target: 10 rows
    rows            5    5    5   20    5    3    4
    deleted         .    .    .    .    .    .    .

    candidates      n    n    n    .    n    n    n       n: small, only with an adjacent one
    bins           [0    1    2]       [4    5    6]      a: many deleted rows, also alone
    tasks          [0    1    2]       [4    5    6]      a bin is cut where both parts are large

    task ──▶ live rows, batch by batch ──▶ new data files         nothing refers to them yet
                                                │
    all moves ──▶ ids are reserved ──▶ one Rewrite commit

A fragment with many deleted rows, or with files to repair, is a candidate whatever its size.
Adjacent fragments share a task only if the same indices cover them, as an index covers a fragment
either wholly or not at all.

Several tasks run at a time while their memory fits the limit: a task holds some windows of decoded
rows (32 MiB each) and the pages of one file. In tables with managed blobs, new files refer to the
payloads of the old ones, except to inline payloads. Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import accumulate
from threading import Event

import pyarrow as pa

from pilum.container.writer import FileOptions
from pilum.encodings.options import EncodingOptions
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs, prepared
from pilum.format.version import FileVersion
from pilum.parallel import ThreadPool, num_threads
from pilum.storage.base import Store
from pilum.table.commit.operations.base import data_paths
from pilum.table.commit.operations.indices import with_rewritten_fragments
from pilum.table.commit.operations.reserve import ReserveFragments
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.publish import NOT_COMMITTED, commit
from pilum.table.commit.transaction import Transaction
from pilum.table.indices.remap import Remap, remap_indices
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.reuse_index import Coverage, Move
from pilum.table.read.lineage import lineage_of_fragments, with_lineage
from pilum.table.read.live_rows import live_rows
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import clean_up_if_due
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import WriteOptions, write_fragments

__all__ = [
    "TASK_BYTES",
    "CompactionOptions",
    "commit_moves",
    "discard_moves",
    "plan_compaction",
    "require_clusterable",
    "require_consistent",
    "rewrite_all",
    "rewrite_fragments",
    "source_bytes",
]

TASK_BYTES = 320 * 1024 * 1024
"""Memory limit of a task, except for single rows that are larger."""
_NO_LIMIT = 1 << 62
_PAGES_BYTES = 96 * 1024 * 1024
OnRows = Callable[[int], None]


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
        records_moves: Whether to record moves for indices instead of rewriting these; None to do so
            for indices that this library cannot rewrite.
        num_threads: Number of concurrent tasks; None for as many as the memory limit allows.
        batch_size: Number of rows read at a time; None for the default.
        memory_limit_bytes: Memory limit of all concurrent tasks together.
        max_source_fragments: Maximum number of fragments to rewrite.
        max_source_rows: Maximum number of rows to rewrite.
        max_source_bytes: Maximum size of data files to rewrite, bytes.
        excluded_fragment_ids: These fragments stay, and no task contains fragments from both sides
            of one.
        max_overlays: Maximum number of overlays of a fragment that is not rewritten for them.
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
    max_overlays: int = 10
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
    find_faults: Callable[[Sequence[Fragment]], Collection[FragmentId]] = lambda fragments: (),
) -> list[tuple[Fragment, ...]]:
    """Return groups of fragments, in scan order, each of which one task rewrites.

    `find_faults` returns those of some fragments that are rewritten whatever their size; it is
    asked only for fragments that would stay. UnsupportedFeatureError is raised if an index does not
    record what it covers.
    """
    coverage = Coverage(store, manifest)
    bins = list(_bins(manifest.fragments, coverage, options, ()))
    chosen = {id(fragment) for found in bins for fragment in found}
    to_mend = find_faults([one for one in manifest.fragments if id(one) not in chosen])
    if to_mend:
        bins = list(_bins(manifest.fragments, coverage, options, to_mend))
    return list(_limited([task for found in bins for task in _split(found, options)], options))


def source_bytes(fragments: Iterable[Fragment]) -> int:
    """Return the size of data files in bytes; unknown sizes count as 0."""
    return sum(file.size_bytes or 0 for fragment in fragments for file in fragment.all_files)


def _candidacy(
    fragment: Fragment, options: CompactionOptions, to_mend: Collection[FragmentId]
) -> _Candidacy | None:
    if fragment.id in to_mend:
        return _Candidacy.ALONE
    if options.materialize_deletions and fragment.physical_rows:
        share = fragment.num_deleted_rows / fragment.physical_rows
        if share > options.materialize_deletions_threshold:
            return _Candidacy.ALONE
    if len(fragment.overlays) > options.max_overlays:
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
    """Raise InvalidInputError if the requested file version cannot be mixed with the table's."""
    own = manifest.data_version
    wanted = options.version or own
    if FileVersion.LEGACY in {own, wanted} and wanted is not own:
        raise InvalidInputError(
            f"data_storage_version: files of version {wanted} cannot be mixed with those of {own}"
        )


class _StoppedError(Exception):
    """Another task failed, or the user cancelled."""


def rewrite_fragments(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    options: CompactionOptions,
    on_rows: OnRows = lambda num_rows: None,
    file_name_prefix: str | None = None,
) -> Move:
    """Write the live rows of fragments, in scan order, to new ones; the table does not change.

    The new ones have id 0, and a prefix of their file names identifies the writer. `on_rows` is
    called after each batch with the number of rows written. After any exception, no file is left.
    """
    refers = snapshot.schema.has_managed_blobs
    schema = prepared(snapshot.schema) if refers else snapshot.written
    written = _write_options(snapshot, options, len(schema.fields))
    written = replace(written, file_name_prefix=file_name_prefix)
    rows = _Portions(live_rows(snapshot, fragments, options.batch_size, refers=refers), on_rows)
    move = Move(tuple(fragments), ())
    try:
        for size in _sizes(sum(fragment.num_rows for fragment in fragments), options):
            new = write_fragments(snapshot.store, schema, rows.take(size), written)
            move = replace(move, new=(*move.new, *new))
        return replace(move, new=with_lineage(move.new, lineage_of_fragments(snapshot, fragments)))
    except BaseException:
        discard_moves(snapshot.store, [move])
        raise


def rewrite_all(
    snapshot: Snapshot,
    tasks: Sequence[Sequence[Fragment]],
    options: CompactionOptions,
    on_rows: OnRows,
) -> list[Move]:
    """Run tasks of `rewrite_fragments`, several at a time.

    After any exception, an interrupt included, no file of any task is left.
    """
    if not tasks:
        return []
    stop = Event()

    def count(num_rows: int) -> None:
        if stop.is_set():
            raise _StoppedError
        on_rows(num_rows)

    with ThreadPool(_tasks_at_a_time(options, len(tasks)), "pilum-compaction") as pool:
        running = [
            pool.submit(partial(rewrite_fragments, snapshot, task, options, count))
            for task in tasks
        ]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
            _raise_first(running)
            return [future.result() for future in running]
        except BaseException:
            stop.set()
            for future in running:
                future.cancel()
            wait(running)
            done = (one for one in running if not one.cancelled() and not one.exception())
            discard_moves(snapshot.store, [future.result() for future in done])
            raise


def commit_moves(
    store: Store,
    read_version: int,
    moves: Sequence[Move],
    *,
    records_moves: bool | None,
    keeps_order: bool = True,
    uuid: str | None = None,
) -> Manifest:
    """Publish moves as one version, after a version that reserves ids.

    Indices on the rows are rewritten, unless the moves are recorded for them; by default they are
    for indices that this library cannot rewrite. No index is rewritten unless a move keeps the
    order of its rows.

    Raises:
        CommitConflictError: If others concurrently changed the fragments, or all columns; or if an
            index needs the order of rows and it is not kept.
        CommitContentionError: If every attempt lost against another commit.
    """
    numbered, base = _numbered(store, read_version, moves)
    remap, snapshot = Remap(), Snapshot(store, base, Session(index_cache_size_bytes=0))
    if keeps_order and not records_moves:
        remap = remap_indices(snapshot, numbered)
    operation = Rewrite(numbered, remap.rewritten, remap.left, records_moves, keeps_order)
    transaction = Transaction(read_version, operation)
    try:
        manifest = commit(store, replace(transaction, uuid=uuid or transaction.uuid))
    except NOT_COMMITTED:
        remap.discard(snapshot)
        raise
    clean_up_if_due(store, manifest)
    return manifest


def _numbered(
    store: Store, read_version: int, moves: Sequence[Move]
) -> tuple[tuple[Move, ...], Manifest]:
    """Reserve ids for new fragments; return the moves with them, and the latest version."""
    num_new = sum(len(move.new) for move in moves)
    if not num_new:
        return tuple(moves), Snapshot.latest(store).manifest
    reserved = commit(store, Transaction(read_version, ReserveFragments(num_new)))
    clean_up_if_due(store, reserved)
    assert reserved.max_fragment_id is not None
    ids = iter(range(reserved.max_fragment_id - num_new + 1, reserved.max_fragment_id + 1))
    numbered = tuple(
        replace(move, new=tuple(replace(one, id=FragmentId(next(ids))) for one in move.new))
        for move in moves
    )
    return numbered, reserved


def discard_moves(store: Store, moves: Iterable[Move]) -> None:
    """Remove new files that are not committed."""
    for move in moves:
        for path in data_paths(move.new):
            discard_file(store, path)


class _Portions:
    """Rows, returned in the portions that new fragments get."""

    def __init__(self, batches: Iterator[pa.RecordBatch], on_rows: OnRows) -> None:
        self._batches = batches
        self._on_rows = on_rows
        self._rest: pa.RecordBatch | None = None

    def take(self, num_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the next rows."""
        while num_rows:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise CorruptFileError(f"{num_rows} rows fewer than the manifest says")
            part = batch.slice(0, num_rows)
            self._rest = batch.slice(num_rows) if batch.num_rows > num_rows else None
            num_rows -= part.num_rows
            yield part
            self._on_rows(part.num_rows)


def _sizes(num_rows: int, options: CompactionOptions) -> list[int]:
    """Return the rows of each new fragment: as many fragments as can be full, of equal size."""
    if not num_rows:
        return []
    count = max(num_rows // options.target_rows_per_fragment, 1)
    least, more = divmod(num_rows, count)
    return [least + (number < more) for number in range(count)]


def _raise_first(futures: Iterable[Future[Move]]) -> None:
    for future in futures:
        if future.done() and not future.cancelled() and (error := future.exception()):
            raise error


def _tasks_at_a_time(options: CompactionOptions, num_tasks: int) -> int:
    fitting = max(options.memory_limit_bytes // TASK_BYTES, 1)
    return min(options.num_threads or num_threads(), fitting, num_tasks)


def _write_options(
    snapshot: Snapshot, options: CompactionOptions, num_columns: int
) -> WriteOptions:
    version = options.version or snapshot.manifest.data_version
    layout = FileOptions(
        encoding=EncodingOptions(zones=True if version.has_mini_blocks else None),
        max_rows_per_group=options.max_rows_per_group,
    )
    if version is not FileVersion.LEGACY:
        # Pages of very wide tables are smaller, so that all of them fit together.
        layout = layout.within(_PAGES_BYTES, num_columns)
    return WriteOptions(
        max_rows_per_file=_NO_LIMIT,
        max_bytes_per_file=min(options.max_bytes_per_file, options.target_bytes_per_fragment),
        version=version,
        layout=layout,
        allow_uris=True,
        known_bases=frozenset(base.id for base in snapshot.manifest.base_paths),
    )


def require_clusterable(snapshot: Snapshot) -> None:
    """Raise if a clustering would fail at its commit, before any work is done.

    UnsupportedFeatureError is raised for columns of blobs, an index of rows without stable ids or
    of only some of the fragments, or a feature that this library cannot write.
    """
    manifest, store = snapshot.manifest, snapshot.store
    where = f"{store.uri}, version {manifest.version}"
    manifest.require_continuable(where)
    if blobs := [field.name for field in manifest.schema.fields if has_blobs(field)]:
        raise UnsupportedFeatureError(f"{where}: columns of blobs cannot be clustered: {blobs}")
    if not snapshot.has_stable_row_ids:
        if Coverage(store, manifest).needs([Move(manifest.fragments.all(), ())]):
            raise UnsupportedFeatureError(
                f"{where}: an index refers to rows by their addresses, which clustering changes; "
                "drop the indices and create them again afterwards, or use stable row ids"
            )
        return
    ids = [int(fragment.id) for fragment in manifest.fragments]
    try:
        with_rewritten_fragments(manifest.index_section, [(ids, [])], stable_row_ids=True)
    except InvalidInputError as error:
        raise UnsupportedFeatureError(
            f"{where}: {error}; complete the index first, or drop it"
        ) from error
