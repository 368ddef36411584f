"""What metadata tell of a version: counts of fragments, and the bytes of its columns.

What the values themselves are is counted by `pilum.spark.analyze`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from pilum.errors import UnsupportedFeatureError
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot

__all__ = ["DataStatistics", "FieldStatistics", "LanceStats"]


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """What one field takes.

    Attributes:
        id: Of the field.
        bytes_on_disk: Sizes of the pages of its own, all data files together; those of its members
            and items are told of these. Deleted rows count, and metadata do not.
    """

    id: int
    bytes_on_disk: int


@dataclass(frozen=True, slots=True)
class DataStatistics:
    """What the fields of a version take.

    Attributes:
        fields: Of the schema, those inside others behind them.
    """

    fields: list[FieldStatistics]


class LanceStats:
    """Statistics of one version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Count fragments, from the manifest.

        Args:
            max_rows_per_group: A fragment with fewer rows, deleted ones included, counts as small.

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
        """Add up the pages of each field, from the metadata of the data files.

        Raises:
            NotFoundError: If a data file is missing.
            CorruptFileError: If one is damaged.
        """
        snapshot = self._snapshot
        schema = snapshot.schema
        ids = {schema.path(field.id): field.id for field in schema.walk()}
        sizes = dict.fromkeys(ids, 0)
        for fragment in snapshot.manifest.fragments:
            reader = FragmentReader.of(snapshot.session, snapshot.store, fragment)
            for field in schema.fields:
                for page in reader.field(field).explain():
                    sizes[page.column] += page.stored_bytes
        return DataStatistics([FieldStatistics(ids[path], size) for path, size in sizes.items()])

    def index_stats(self, index_name: str) -> NoReturn:
        """What an index holds is not looked at yet.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError(
            f"index {index_name!r}: contents of indices are not read yet; describe_indices() tells "
            "what the table knows of it"
        )
