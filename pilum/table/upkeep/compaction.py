"""Compaction: run the tasks of a plan, in one process or several, and commit them together.

    fragments ──▶ live rows, batch by batch ──▶ new data files        nothing refers to them yet
                                                     │
    all moves ──▶ ids are reserved ──▶ one Rewrite commit

Several tasks run at a time while their memory fits the limit: a task holds some windows of decoded
rows (32 MiB each) and the pages of one file. Source: docs/format/table.md, "Compaction".
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
"""Memory limit of a task, except for single rows that are larger."""

_NO_LIMIT = 1 << 62
_PAGES_BYTES = 96 * 1024 * 1024
_PAGE_BYTES = 8 * 1024 * 1024

OnRows = Callable[[int], None]


class _StoppedError(Exception):
    """Another task failed, or the user cancelled."""


def rewrite_fragments(
    snapshot: Snapshot,
    fragments: Sequence[Fragment],
    options: CompactionOptions,
    on_rows: OnRows = lambda num_rows: None,
    file_name_prefix: str | None = None,
) -> Move:
    """Write the live rows of fragments to new ones; the table does not change.

    Args:
        snapshot: The version that has the fragments.
        fragments: The fragments, in scan order.
        options: Options of the compaction.
        on_rows: Called after each batch with the number of rows written.
        file_name_prefix: Prefix of the file names, to identify their writer.

    Returns:
        The old and new fragments; new fragments have id 0.

    Raises:
        CorruptFileError: If a file is damaged.
        OSError: If the store fails. After any exception, no file is left.
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
    """Run tasks, several at a time.

    Raises:
        As `rewrite_fragments`. After any exception, an interrupt included, no file of any task is
        left.
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
    """Publish moves as one version, after a version that reserves ids.

    Args:
        store: Where the table is.
        read_version: The version that has the old fragments.
        moves: All moves to commit.
        records_moves: Whether to record the moves even if no index needs it yet.
        keeps_order: Whether the rows of a move keep their order.
        uuid: Uuid of the transaction; a new one if None.

    Raises:
        CommitConflictError: If others concurrently changed the fragments, or all columns; or if an
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
    """Remove new files that are not committed."""
    for move in moves:
        for fragment in move.new:
            for file in fragment.files:
                discard_file(store, data_path(file.path))


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
    # Pages of very wide tables are smaller, so that all of them fit together.
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
