"""Statistics from metadata of a version: counts of fragments, and the bytes of its columns.

Statistics of the values are computed by `pilum.spark.analyze`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilum.table.read.snapshot import Snapshot

__all__ = ["DataStatistics", "FieldStatistics", "LanceStats"]


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """The storage size of one field.

    Attributes:
        id: Id of the field.
        bytes_on_disk: Total size of its own pages in all data files. Pages of members and items are
            reported for these fields. Deleted rows are included, and metadata is not.
    """

    id: int
    bytes_on_disk: int


@dataclass(frozen=True, slots=True)
class DataStatistics:
    """The storage sizes of the fields of a version.

    Attributes:
        fields: One item per field of the schema; nested fields come after their parents.
    """

    fields: list[FieldStatistics]


class LanceStats:
    """The statistics of one version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Return counts of fragments and deleted rows, from the manifest.

        Args:
            max_rows_per_group: A fragment with fewer rows, including deleted ones, counts as small.

        Returns:
            `num_deleted_rows`, `num_fragments` and `num_small_files`.
        """
        fragments = self._snapshot.manifest.fragments
        small = sum(fragment.physical_rows < max_rows_per_group for fragment in fragments)
        return {
            "num_deleted_rows": sum(fragment.num_deleted_rows for fragment in fragments),
            "num_fragments": len(fragments),
            "num_small_files": small,
        }

    def data_stats(self) -> DataStatistics:
        """Sum the page sizes of each field, from the metadata of the data files.

        Raises:
            NotFoundError: If a data file is missing.
            CorruptFileError: If a data file is damaged.
        """
        snapshot = self._snapshot
        schema = snapshot.schema
        ids = {schema.path(field.id): field.id for field in schema.walk()}
        sizes = dict.fromkeys(ids, 0)
        for fragment in snapshot.manifest.fragments:
            reader = snapshot.reader(fragment)
            for field in schema.fields:
                for page in reader.field(field).explain():
                    sizes[page.column] += page.stored_bytes
        return DataStatistics([FieldStatistics(ids[path], size) for path, size in sizes.items()])

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Return the statistics of an index.

        Returns:
            `index_type`, `name`; `num_segments` and, for each of them, figures of its type in
            `segments`; counts of fragments and rows that the index covers or not.

        Raises:
            IndexNotFoundError: If there is no such index.
            UnsupportedFeatureError: If this library cannot read the index.
            CorruptFileError: If a file of the index is damaged.
        """
        from pilum.table.indices.statistics import index_statistics

        return index_statistics(self._snapshot, index_name)
