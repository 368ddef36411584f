"""Read the partitions of an index of vectors: which rows each contains, and their codes.

    reader.read_partition(3)                       _rowid
    reader.read_partition(3, with_vector=True)     _rowid, flat or __pq_code or __sq_code or …

The rows are those of all segments, one segment after the other, as the index refers to them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pilum.dataset.base import DatasetBase
from pilum.errors import InvalidInputError
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.vectors import vector_column
from pilum.table.indices.open_segments import open_segment
from pilum.table.indices.segments import named_segments
from pilum.table.indices.statistics import index_statistics

__all__ = ["VectorIndexReader"]


class VectorIndexReader:
    """The partitions of an index of vectors, in the version of the dataset.

    Args:
        dataset: The dataset.
        index_name: Name of the index.

    Attributes:
        dataset: See above.
        index_name: See above.
        stats: The statistics of the index, as `dataset.stats.index_stats` returns them.

    Raises:
        IndexNotFoundError: If there is no such index.
        InvalidInputError: If it is not one of vectors.
        UnsupportedFeatureError: If this library cannot read the index.
        CorruptFileError: If a file of the index is damaged.
    """

    def __init__(self, dataset: DatasetBase, index_name: str) -> None:
        snapshot = dataset.snapshot
        self.dataset = dataset
        self.index_name = index_name
        self.stats: dict[str, Any] = index_statistics(snapshot, index_name)
        usable = named_segments(snapshot, index_name)[1]
        opened = [open_segment(snapshot, one).index for one in usable]
        self._segments = [one for one in opened if isinstance(one, VectorIndex)]
        if len(self._segments) < len(opened) or not opened:
            raise InvalidInputError(f"Index {index_name} is not vector index")

    def num_partitions(self) -> int:
        """Return the number of partitions."""
        return self._segments[0].model.num_partitions

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """Return the rows of a partition.

        Args:
            partition_id: Number of the partition, from 0 on.
            with_vector: Whether the code of each row is returned beside it: its vector, as the
                index stores it.

        Raises:
            IndexError: If there is no such partition.
            CorruptFileError: If a file of the index is damaged.
        """
        if not 0 <= partition_id < self.num_partitions():
            raise IndexError(
                f"Partition id {partition_id} is out of range, "
                f"expected 0 <= partition_id < {self.num_partitions()}"
            )
        return pa.concat_tables(
            _rows(one, partition_id, with_vector)
            for one in self._segments
            if partition_id < one.model.num_partitions
        )


def _rows(index: VectorIndex, number: int, has_codes: bool) -> pa.Table:
    rows, columns = index.read(number)
    arrays: dict[str, pa.Array] = {"_rowid": pa.array(rows, pa.uint64())}
    if has_codes:
        for name, column in columns.items():
            arrays[name] = vector_column(column) if column.ndim == 2 else pa.array(column)
    return pa.table(arrays)
