"""Compaction: tasks of a plan are carried out, apart if need be, and committed together.

    fragments ──▶ live rows, batch by batch ──▶ new data files        nothing refers to them yet
                                                     │
    all moves ──▶ ids are reserved ──▶ one Rewrite commit

Several tasks run at a time while their memory fits the limit: a task has some windows of decoded
rows (32 MiB each) and the pages of one file at hand. Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from threading import Event

import pyarrow as pa

from pilum.container.options import FileOptions
from pilum.errors import CorruptFileError
from pilum.format.version import FileVersion
from pilum.parallel import num_threads
from pilum.storage.base import Store
from pilum.table.commit.operations.reserve import ReserveFragments
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import data_path
from pilum.table.model.reuse_index import Move
from pilum.table.read.lineage import lineage_of_fragments, with_lineage
from pilum.table.read.live_rows import live_rows, written_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import commit_and_clean_up
from pilum.table.upkeep.compaction_plan import CompactionOptions
from pilum.table.write.sidecars import discard_file
from pilum.table.write.write import WriteOptions, write_fragments

__all__ = ["TASK_BYTES", "commit_moves", "discard_moves", "rewrite_all", "rewrite_fragments"]

TASK_BYTES = 320 * 1024 * 1024
"""What a task takes at most, but for single rows that are larger."""

_NO_LIMIT = 1 << 62
_PAGES_BYTES = 96 * 1024 * 1024
_PAGE_BYTES = 8 * 1024 * 1024

OnRows = Callable[[int], None]


class _StoppedError(Exception):
    """Another task failed, or the user gave up."""


def rewrite_fragments(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    options: CompactionOptions,
    on_rows: OnRows = lambda num_rows: None,
    file_name_prefix: str | None = None,
) -> Move:
    """Writes the live rows of fragments to new ones; the table does not change.

    Args:
        snapshot: The version that has the fragments.
        fragments: In scan order.
        options: How to write.
        on_rows: Told how many rows were written, batch by batch.
        file_name_prefix: Put in front of the names of the files, to tell whose they are.

    Returns:
        Where the rows went; new ids are 0.

    Raises:
        CorruptFileError: If a file is damaged.
        OSError: If the store failed. Whatever is raised, no file is left.
    """
    schema = written_schema(snapshot)
    written = _write_options(snapshot, options, len(schema.fields))
    written = replace(written, file_name_prefix=file_name_prefix)
    rows = _Portions(live_rows(snapshot, fragments, options.batch_size), on_rows)
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
    """Carries out tasks, several at a time.

    Raises:
        As `rewrite_fragments`; then, and if it is interrupted, no file of any task is left.
    """
    if not tasks:
        return []
    stop = Event()

    def count(num_rows: int) -> None:
        if stop.is_set():
            raise _StoppedError
        on_rows(num_rows)

    with ThreadPoolExecutor(_tasks_at_a_time(options, len(tasks)), "pilum-compaction") as pool:
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
    records_moves: bool,
    keeps_order: bool = True,
    uuid: str | None = None,
) -> Manifest:
    """Publishes moves as one version, behind one that reserves ids.

    Args:
        store: Where the table is.
        read_version: The version that has the old fragments.
        moves: All that is to be committed.
        records_moves: Whether to record the moves even if no index needs it yet.
        keeps_order: Whether the rows of a move are in the order that they had.
        uuid: Of the transaction; a new one if None.

    Raises:
        CommitConflictError: If others changed the fragments, or all columns, meanwhile; or if an
            index needs the order of rows and it is not kept.
        CommitContentionError: If every attempt lost against another commit.
    """
    num_new = sum(len(move.new) for move in moves)
    numbered = tuple(moves)
    if num_new:
        reserved = commit_and_clean_up(store, Transaction(read_version, ReserveFragments(num_new)))
        assert reserved.max_fragment_id is not None
        ids = iter(range(reserved.max_fragment_id - num_new + 1, reserved.max_fragment_id + 1))
        numbered = tuple(
            replace(move, new=tuple(replace(one, id=FragmentId(next(ids))) for one in move.new))
            for move in moves
        )
    operation = Rewrite(numbered, records_moves, keeps_order)
    transaction = Transaction(read_version, operation)
    return commit_and_clean_up(store, replace(transaction, uuid=uuid or transaction.uuid))


def discard_moves(store: Store, moves: Iterable[Move]) -> None:
    """Removes new files that are not committed."""
    for move in moves:
        for fragment in move.new:
            for file in fragment.files:
                discard_file(store, data_path(file.path))


class _Portions:
    """Rows, given out in the portions that new fragments get."""

    def __init__(self, batches: Iterator[pa.RecordBatch], on_rows: OnRows) -> None:
        self._batches = batches
        self._on_rows = on_rows
        self._rest: pa.RecordBatch | None = None

    def take(self, num_rows: int) -> Iterator[pa.RecordBatch]:
        """The next rows."""
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
    """Rows of each new fragment: as many fragments as can be full, and all alike."""
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
    # Pages of very many columns are smaller, so that all of them together fit.
    is_wide = num_columns * _PAGE_BYTES > _PAGES_BYTES and version is not FileVersion.LEGACY
    layout = FileOptions(
        data_cache_bytes=_PAGES_BYTES if is_wide else None,
        max_rows_per_group=options.max_rows_per_group,
    )
    return WriteOptions(
        max_rows_per_file=_NO_LIMIT,
        max_bytes_per_file=min(options.max_bytes_per_file, options.target_bytes_per_fragment),
        version=version,
        layout=layout,
        allow_uris=True,
    )
