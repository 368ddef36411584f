"""Clustering: all rows of a table are rewritten in another order, which the engine makes.

    table ──▶ rows with addresses ──▶ engine: sorted ──▶ tasks: new fragments with ids of rows
                                                                        │
    driver: one Rewrite of all fragments that there were  ◀─────────────┘

Fragments may be clustered in groups, each with a commit of its own. Then less data goes through the
engine at once, and committed groups are kept after a failure. The journal of a named job records
the groups of its first run; fragments that are no longer in the table are done.

Rows that are appended concurrently stay where they are. If another writer changes rows of a group,
the commit of the group is refused and its files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pilum.dataset.compaction import CompactionMetrics
from pilum.distributed.jobs import PartMessage, WriteJob, job_on
from pilum.distributed.journal import Journal
from pilum.distributed.tasks import stored_bytes
from pilum.distributed.versions import TableVersion
from pilum.distributed.writing import abort_parts, written_fragments
from pilum.errors import CommitStatusUnknownError
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.format.rows import first_address
from pilum.table.model.fragment import Fragment
from pilum.table.model.reuse_index import Move
from pilum.table.read.lineage import lineage_of_rows, with_lineage
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.compaction import commit_moves, require_clusterable
from pilum.table.write.write import WriteOptions

__all__ = [
    "ClusterJob",
    "CompactionMetrics",
    "Fragment",
    "cluster",
    "write_cluster_part",
]

Sorted: TypeAlias = Callable[[], Sequence[tuple[Fragment, ...]]]


@dataclass(frozen=True)
class ClusterJob:
    """The rewriting of one group of fragments, whose files have `size_bytes`.

    `write` has the version that is read, and the files that are written; `condition` is SQL that
    selects the rows of the group, None if these are all rows.
    """

    write: WriteJob
    condition: str | None
    size_bytes: int

    @property
    def columns(self) -> list[str]:
        """The columns to read: those of the table, and the addresses of the rows."""
        return [*self.write.schema.arrow.names, ROW_ADDRESS]


def cluster(
    sort: Callable[[ClusterJob], Sorted],
    table: TableVersion,
    options: WriteOptions,
    *,
    order: Sequence[str],
    fragments: Collection[int] | None = None,
    commit_every: int | None = None,
    journal: Journal | None = None,
) -> CompactionMetrics:
    """Rewrite the rows of a table, at its latest version, in another order.

    The metrics are those of the work done; for a resumed job, of the remaining work.

    Args:
        sort: Plans the order of the rows that a job selects, and returns a function. This runs the
            tasks, which call `write_cluster_part` for each part, and returns their results in the
            new order of the rows. Only if it fails, files have to be deleted.
        table: The latest version of the table.
        options: How rows are divided into files; files have the version of the table.
        order: A description of the order, which identifies a named job.
        fragments: The ids of the fragments to rewrite; None for all.
        commit_every: Number of adjacent fragments that are ordered and committed as one group.
        journal: The journal of a named job.

    Raises:
        CommitConflictError: If another writer changed or moved rows concurrently.
        UnsupportedFeatureError: If the table has blob columns, or an index that cannot be remapped.
    """
    require_clusterable(table.snapshot)
    groups = _groups(table.snapshot, fragments, commit_every)
    if journal is not None:
        facts = {"cluster": list(order), "commit_every": commit_every}
        groups = list(journal.begin(facts, {str(group[0]): group for group in groups}).values())
    done = [_rewritten(sort, table, options, group) for group in groups]
    if journal is not None:
        journal.remove()
    return CompactionMetrics.of([move for move in done if move is not None])


def write_cluster_part(
    job: WriteJob,
    batches: Iterable[pa.RecordBatch],
    write: Callable[[WriteJob, Iterable[pa.RecordBatch]], PartMessage],
) -> tuple[Fragment, ...]:
    """Write the rows of one task together with their ids and versions.

    The batches have the columns of the table and the addresses of the rows; `write` gets them
    without addresses, such as `write_part` after a conversion of types.
    """
    addresses: list[pa.Array] = []

    def without_addresses() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            addresses.append(batch.column(ROW_ADDRESS))
            yield batch.drop_columns([ROW_ADDRESS])

    written = written_fragments(write(job, without_addresses()))
    places = pa.chunked_array(addresses, pa.int64()).to_numpy().astype(np.uint64)
    return with_lineage(written, lineage_of_rows(job.base.snapshot, places))


def _groups(
    snapshot: Snapshot, fragments: Collection[int] | None, size: int | None
) -> list[list[int]]:
    """Return groups of adjacent fragments."""
    known = sorted(int(fragment.id) for fragment in snapshot.manifest.fragments)
    ids = known if fragments is None else [number for number in known if number in fragments]
    step = size or max(1, len(ids))
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _rewritten(
    sort: Callable[[ClusterJob], Sorted],
    table: TableVersion,
    options: WriteOptions,
    group: Collection[int],
) -> Move | None:
    """Rewrite the rows of those of the given fragments that still exist, and commit them."""
    latest = TableVersion.latest(table.uri, table.storage_options)
    snapshot = latest.snapshot
    old = tuple(one for one in snapshot.manifest.fragments if one.id in group)
    if not old:
        return None
    require_clusterable(snapshot)
    sizes = options.for_table(snapshot.manifest.config)
    job = job_on(latest, replace(sizes, version=snapshot.manifest.data_version))
    run_tasks = sort(ClusterJob(job, _rows_of(snapshot, old), stored_bytes(old)))
    try:
        move = Move(old, tuple(fragment for part in run_tasks() for fragment in part))
        commit_moves(
            snapshot.store,
            job.read_version,
            [move],
            records_moves=None,
            keeps_order=False,
            uuid=job.uuid,
        )
    except CommitStatusUnknownError:  # the commit may succeed: keep its files
        raise
    except BaseException:
        abort_parts(job)
        raise
    return move


def _rows_of(snapshot: Snapshot, fragments: Sequence[Fragment]) -> str | None:
    """Return a condition for the rows of some fragments; None if these are all fragments."""
    wanted = {int(fragment.id) for fragment in fragments}
    known = sorted(int(fragment.id) for fragment in snapshot.manifest.fragments)
    if len(wanted) == len(known):
        return None
    stretches = [list(ids) for is_in, ids in groupby(known, wanted.__contains__) if is_in]
    return " OR ".join(
        f"({ROW_ADDRESS} >= {first_address(ids[0])} "
        f"AND {ROW_ADDRESS} < {first_address(ids[-1] + 1)})"
        for ids in stretches
    )
