"""Indices: creating, listing, describing, warming and dropping them.

    create_scalar_index ──▶ a segment of all rows ──▶ optimize.optimize_indices adds new rows
    create_index_uncommitted, in several processes ──▶ commit_existing_index_segments

`pilum.table.indices` builds the segments, and `pilum.index` has the types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self
from uuid import UUID

import pyarrow as pa

from pilum.arguments import require_list, with_keywords, with_positions
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.explain import LanceStats
from pilum.dataset.index_forms import (
    IndexDescription,
    IndexInformation,
    descriptions,
    information,
    sorted_segments,
)
from pilum.dataset.vector_arguments import POSITIONS, VECTOR_DEFAULTS, VectorKeywords
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.read.mem_wal import has_log

# The implementations are imported with the first use: most processes never need them.
if TYPE_CHECKING:
    from pilum.dataset.index_forms import IndexConfig, IndexSegment
    from pilum.dataset.index_reports import OnProgress
    from pilum.dataset.metadata import Index
    from pilum.dataset.recall import RecallReport, Searchable
    from pilum.dataset.vector_models import IvfModel

__all__ = ["Indices"]


class Indices(DatasetBase):
    """Methods of `LanceDataset` for indices."""

    @property
    def has_index(self) -> bool:
        """Return whether the table has an index."""
        return bool(self._snapshot.manifest.index_section)

    def list_indices(self) -> list[IndexInformation]:
        """Return all segments of all indices, from the manifest alone.

        Raises:
            CorruptFileError: If an entry is damaged.
        """
        snapshot = self._snapshot
        return [information(snapshot, one) for one in sorted_segments(snapshot)]

    def describe_indices(self) -> list[IndexDescription]:
        """Describe all indices by name, from the manifest alone.

        Raises:
            CorruptFileError: If an entry is damaged.
        """
        return descriptions(self._snapshot)

    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: Collection[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: OnProgress | None = None,
        **kwargs: Any,
    ) -> None:
        """Create an index of a column and move this dataset to the new version.

        Rows that are added later are found without the index, until `optimize.optimize_indices`
        adds them to it. Concurrent writes may go on; only another index of the name, and a
        compaction, conflict.

        Args:
            column: Name of the column, or the dotted path of a member of a struct.
            index_type: Name of the type, such as "BTREE", in upper or lower case; or an
                `IndexConfig` with parameters.
            name: Name of the index; "{column}_idx" if None.
            replace: Whether an index of this name is replaced; otherwise it is an error.
            train: Whether rows are indexed now. An index without rows can be created at once, and
                `optimize.optimize_indices` fills it.
            fragment_ids: None to index all rows and commit. Otherwise, a part of an INVERTED
                segment is written for the rows of these fragments, without a commit: pass the same
                `index_uuid` for all parts, then call `merge_index_metadata` and commit a
                `LanceOperation.CreateIndex`. Segments of other types are built by
                `create_index_uncommitted`.
            index_uuid: Name of the folder of the segment; a new one if None.
            progress_callback: Function that is called with an `IndexProgress` while rows are read.
            kwargs: Parameters of the type.

        Raises:
            ColumnNotFoundError: If the column does not exist.
            UnsupportedTypeError: If the type of the column cannot be indexed.
            UnsupportedFeatureError: If the type of the index does not exist.
            IndexAlreadyExistsError: If an index of the name exists and is not to be replaced.
            InvalidInputError: If another argument is invalid.
            CommitConflictError: If a concurrent commit conflicts with this one.
        """
        from pilum.dataset import index_builds

        if fragment_ids is not None:
            index_builds.stage(
                self,
                column,
                index_type,
                name,
                kwargs,
                fragment_ids=fragment_ids,
                index_uuid=index_uuid,
                on_progress=progress_callback,
            )
            return
        index_builds.create(
            self,
            column,
            index_type,
            name,
            kwargs,
            replaces=replace,
            trains=train,
            index_uuid=index_uuid,
            on_progress=progress_callback,
        )

    @with_positions(*POSITIONS)
    @with_keywords(VectorKeywords, VECTOR_DEFAULTS)
    def create_index(
        self,
        column: str | Sequence[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        *,
        train: bool = True,
        fragment_ids: Collection[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: OnProgress | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create an index of a column of vectors, and move this dataset to the new version.

        Types are IVF_FLAT (vectors as they are), IVF_PQ, IVF_SQ and IVF_RQ (vectors as codes), and
        IVF_HNSW_FLAT, IVF_HNSW_PQ and IVF_HNSW_SQ (with graphs). Other types are created as by
        `create_scalar_index`; they have none of the arguments for vectors. If there are too few
        rows for a type, only its definition is committed; `optimize.optimize_indices` builds it.

        Args:
            column: As for `create_scalar_index`; or a list of one column.
            index_type: As for `create_scalar_index`.
            name: As for `create_scalar_index`.
            metric: "l2" (squared), "cosine" or "dot"; "hamming" for vectors of uint8.
            replace: As for `create_scalar_index`, but False by default.
            train: As for `create_scalar_index`.
            fragment_ids: As for `create_scalar_index`.
            index_uuid: As for `create_scalar_index`.
            progress_callback: As for `create_scalar_index`.
            num_partitions: Number of partitions; None for the number of rows divided by
                `target_partition_size`, at most 4,096. It is never more than there are rows, or
                for IVF_PQ than the number of rows divided by `sample_rate`.
            target_partition_size: Rows of a partition; by default 4,096 for IVF_FLAT and IVF_RQ,
                8,192 for IVF_PQ and IVF_SQ, and 1,048,576 with graphs.
            ivf_centroids: Centroids of the partitions, as an array of shape (partitions, dimension)
                or as fixed-size lists; None to train them.
            ivf_centroids_file: Location of a `.npy` file with them.
            precomputed_partition_dataset: Location of a table with the columns `row_id` and
                `partition`; rows that it lacks are left out. Needs `ivf_centroids`.
            num_sub_vectors: Bytes of a code of 8 bits (PQ), which must divide the dimension.
            num_bits: Bits per sub-vector (PQ: 8 or 4) or per element (RQ: 1 to 9, default 5).
            pq_codebook: Codebook of shape (sub-vectors, 2**num_bits, dimension of a sub-vector), or
                fixed-size lists with its elements; needs `ivf_centroids`.
            m: Edges of a node of a graph, 20 by default; twice as many on the lowest level.
            ef_construction: Candidates that are compared when a node is inserted, 150 by default.
            max_level: Maximum number of levels of a graph, 7 by default.
            sample_rate: Rows per centroid that are sampled for the training, 256 by default.
            max_iters: Maximum number of iterations of a training, 50 by default.
            accelerator: "cuda", "cuda:0", … or "mps", or a `torch.device`, that finds the nearest
                centroids in the training; None for processors.
            memory_limit: Memory in MiB for samples and rows, 1,024 by default; more rows go to
                temporary files.
            skip_transpose: Whether codes are stored row by row, which makes searches slower.
            index_file_version: "V3" or None; the old layout "Legacy" is not written.
            filter_nan: Has no effect: rows with nulls, NaN or infinity are never indexed.
            shuffle_partition_batches: Has no effect.
            shuffle_partition_concurrency: Has no effect.
            streaming_sample_rate: Has no effect.
            streaming_coreset_rate: Has no effect.
            streaming_refine_passes: Has no effect.
            index_cache_size: Has no effect.
            storage_options: Options of the object store of the given files.
            kwargs: Parameters of other types. Unknown parameters of vector indices are ignored.

        Returns:
            This dataset.

        Raises:
            NotFoundError: If a given file does not exist.
            PilumError: As `create_scalar_index`.
        """
        from pilum.dataset import index_builds, index_requests

        if fragment_ids is not None:
            raise _only_uncommitted(index_type)
        index_builds.create(
            self,
            column,
            index_type,
            name,
            index_requests.keywords_of(index_type, kwargs, metric),
            replaces=replace,
            trains=train,
            index_uuid=index_uuid,
            on_progress=progress_callback,
        )
        return self

    @with_positions(*POSITIONS)
    @with_keywords(VectorKeywords, VECTOR_DEFAULTS)
    def create_index_uncommitted(
        self,
        column: str | Sequence[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        *,
        train: bool = True,
        fragment_ids: Collection[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: OnProgress | None = None,
        **kwargs: Any,
    ) -> Index:
        """Build a segment of an index from some fragments; the table does not change.

        Several processes can build the segments of one index. One of them commits all segments with
        `commit_existing_index_segments`. A segment that is never committed is removed by a cleanup.
        Segments of vectors can be merged if they were built with the same `ivf_centroids`,
        `pq_codebook` and `rabitq_model`.

        Args:
            column: As in `create_index`.
            index_type: As in `create_index`.
            name: As in `create_index`.
            metric: As in `create_index`.
            replace: Whether the name may be that of an existing index.
            train: As in `create_index`.
            fragment_ids: Ids of the fragments to index; required.
            index_uuid: As in `create_index`.
            progress_callback: As in `create_index`.
            kwargs: As in `create_index`, also those that are listed there; and `rabitq_model`, the
                model of an index of type IVF_RQ.

        Returns:
            The segment.

        Raises:
            As `create_index`.
        """
        from pilum.dataset import index_builds, index_requests

        return index_builds.create_uncommitted(
            self,
            column,
            index_type,
            name,
            index_requests.keywords_of(index_type, kwargs, metric, is_shard=True),
            replaces=replace,
            trains=train,
            fragment_ids=fragment_ids,
            index_uuid=index_uuid,
            on_progress=progress_callback,
        )

    def merge_existing_index_segments(self, segments: Sequence[Index]) -> Index:
        """Merge segments of one index into a new segment; the table does not change.

        Args:
            segments: Segments that `create_index_uncommitted` returned.

        Raises:
            InvalidInputError: If they do not belong together, or cover the same fragments.
            CorruptFileError: If a file of a segment is damaged.
        """
        from pilum.dataset import segment_commits

        return segment_commits.merge_uncommitted(self, segments)

    def commit_existing_index_segments(
        self, index_name: str, column: str, segments: Sequence[Index | IndexSegment]
    ) -> Self:
        """Commit segments as one index and move this dataset to the new version.

        An index of that name is replaced.

        Args:
            index_name: Name of the index.
            column: The indexed column.
            segments: Segments that `create_index_uncommitted` or `merge_existing_index_segments`
                returned; or the folders of segments of vectors.

        Returns:
            This dataset.

        Raises:
            InvalidInputError: If the segments do not belong to one index of the column.
            NotFoundError: If a file of a segment is missing.
            CommitConflictError: If a concurrent commit conflicts with this one.
        """
        from pilum.dataset import segment_commits

        segment_commits.commit_segments(self, index_name, column, segments)
        return self

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Return the statistics of an index, as `stats.index_stats`."""
        return LanceStats(self._snapshot).index_stats(index_name)

    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str | UUID] | None = None,
    ) -> None:
        """Load an index into the cache of the session.

        Args:
            name: Name of the index.
            with_position: Whether positions of full-text indices are needed; indices are loaded as
                a whole.
            index_segments: Uuids of the segments to load; None for all.

        Raises:
            IndexNotFoundError: If the index does not exist, or does not have a segment.
            UnsupportedFeatureError: If this library cannot read the index.
            CorruptFileError: If a file of the index is damaged.
        """
        from pilum.table.indices.statistics import prewarm

        del with_position
        given = None if index_segments is None else require_list("index_segments", index_segments)
        uuids = None if given is None else set(map(str, given))
        prewarm(self._snapshot, name, uuids)

    def index_recall(
        self: Searchable,
        column: str,
        *,
        k: int = 10,
        num_queries: int | None = None,
        queries: Any = None,
        nprobes: Sequence[int] | None = None,
        ef: Sequence[int] | None = None,
        refine_factor: Sequence[int] | None = None,
    ) -> RecallReport:
        """Measure which share of the nearest rows a vector index finds, and how fast.

        Every combination of the settings is tried, one query after the other. Recall is the mean
        share of the `k` nearest rows by an exact search.

        Args:
            column: The column with the index.
            k: Number of rows per query.
            num_queries: Number of queries; None for all that are given, or 100.
            queries: Vectors, as rows of a matrix; None for vectors of random rows, whose recall may
                be a little higher than that of other queries.
            nprobes: Numbers of partitions to try; None for powers of two.
            ef: Beam widths to try, for graphs; None for multiples of `k`.
            refine_factor: Refinements to try; None for no refinement.

        Returns:
            The report, which can suggest settings, and draw recall against latency.

        Raises:
            IndexNotFoundError: If the column has no vector index.
            InvalidInputError: If an argument is invalid, or the table has no vectors.
        """
        from pilum.dataset.recall import measure_recall

        return measure_recall(
            self,
            column,
            k=k,
            num_queries=num_queries,
            queries=queries,
            nprobes=nprobes,
            ef=ef,
            refine_factor=refine_factor,
        )

    def drop_index(self, name: str) -> None:
        """Drop all segments of an index and move this dataset to the new version.

        The index files remain as long as an older version needs them.

        Raises:
            IndexNotFoundError: If the index does not exist.
            CommitConflictError: If a concurrent commit changed the index.
            CorruptFileError: If an entry is damaged.
        """
        snapshot = self._snapshot
        segments = sorted_segments(snapshot)
        dropped = tuple(segment for segment in segments if segment.name == name)
        if not dropped:
            names = sorted({segment.name for segment in segments})
            raise IndexNotFoundError(f"{self._uri}: no index {name!r}; there are {names}")
        commit_operation(self, snapshot, CreateIndex(removed=dropped))

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Map row addresses from before compactions to addresses in this version.

        Only moves that a compaction recorded for indices are known.

        Args:
            addrs: Values of `_rowaddr` in an older version, as uint64.

        Returns:
            Addresses in this version as uint64, null for rows that no longer exist. Addresses of
            rows that never moved are unchanged. None if no move was recorded.

        Raises:
            InvalidInputError: If `addrs` is not a uint64 array.
            CorruptFileError: If the recorded moves are damaged.
        """
        if not isinstance(addrs, pa.Array) or addrs.type != pa.uint64():
            raise InvalidInputError(f"addrs: expected an array of uint64, found {addrs!r:.80}")
        from pilum.table.indices.moved_rows import moved_rows

        moved = moved_rows(self._snapshot)
        if moved is None:
            return None
        found, is_there = moved(addrs.fill_null(0).to_numpy())
        return pa.array(found, mask=~is_there | addrs.is_null().to_numpy(zero_copy_only=False))

    def merge_index_metadata(
        self,
        index_uuid: str,
        index_type: str,
        batch_readhead: int | None = None,
        progress_callback: OnProgress | None = None,
    ) -> None:
        """Merge the parts of an INVERTED segment that `create_scalar_index` wrote by fragments.

        The segment is not committed: commit a `LanceOperation.CreateIndex` that names it.

        Args:
            index_uuid: The uuid that was passed for all parts.
            index_type: "INVERTED".
            batch_readhead: Has no effect.
            progress_callback: Has no effect.

        Raises:
            UnsupportedFeatureError: If segments of the type are not built from parts.
            NotFoundError: If there are no parts.
            InvalidInputError: If parts were built with different parameters or of the same
                fragments, or are merged already.
            CorruptFileError: If a part is damaged.
        """
        del batch_readhead, progress_callback
        from pilum.dataset import index_builds

        index_builds.merge_staged(self, index_uuid, index_type)

    def get_ivf_model(self, index_name: str) -> IvfModel:
        """Return the centroids of an index of vectors, those of its first segment.

        Raises:
            IndexNotFoundError: If there is no such index with files.
            InvalidInputError: If it is not one of vectors.
            CorruptFileError: If it is damaged.
        """
        from pilum.dataset import index_builds

        return index_builds.centroids_of(self._snapshot, index_name)

    def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray:
        """Return the centroids of an index of vectors.

        Args:
            index_name: Name of the index; None for the first one of the column.
            column: The column, if the index is not named.

        Raises:
            InvalidInputError: If neither is given.
            PilumError: As `get_ivf_model`.
        """
        if index_name is None:
            if column is None:
                raise InvalidInputError("Must provide 'index_name' or 'column'.")
            names = [one["name"] for one in self.list_indices() if one["fields"] == [column]]
            index_name = next((name for name in names if name), f"{column}_idx")
        return self.get_ivf_model(index_name).centroids

    def initialize_mem_wal(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UnsupportedFeatureError: the MemWAL is not supported.

        Raises:
            UnsupportedFeatureError: Always, as does `mem_wal_writer`.
        """
        raise UnsupportedFeatureError("a log in memory (MemWAL) is not supported; use insert")

    mem_wal_writer = initialize_mem_wal

    def mem_wal_index_details(self) -> None:
        """Return None, as the table has no log in memory (MemWAL).

        Raises:
            UnsupportedFeatureError: If it has one.
        """
        if has_log(self.snapshot.manifest):
            self.initialize_mem_wal()


def _only_uncommitted(index_type: str | IndexConfig) -> InvalidInputError:
    return InvalidInputError(
        f"fragment_ids: segments of {index_type!r} are built with create_index_uncommitted("
        "..., fragment_ids=...)"
    )
