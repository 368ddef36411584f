"""`iterable_dataset`: a table as a stream of the library `datasets` of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.errors import MissingDependencyError
from pilum.training.rows import Table, opened

__all__ = ["iterable_dataset"]


def iterable_dataset(
    dataset: Table,
    columns: Columns | None = None,
    filter: Filter | None = None,
    *,
    batch_size: int = 1024,
    dataset_options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a `datasets.IterableDataset` of the rows of one version of a table.

    Each fragment is a shard, so that the library can shuffle shards, share them out to nodes and
    workers, and continue in the middle.

    Args:
        dataset: A dataset, or the location of one.
        columns: As in `LanceDataset.scanner`.
        filter: As in `LanceDataset.scanner`.
        batch_size: Number of rows to read at once.
        dataset_options: Keywords of `pilum.dataset`, for a location.

    Raises:
        MissingDependencyError: If the package datasets is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingDependencyError(
            "streams of Hugging Face need the package datasets: pip install datasets"
        ) from error
    table = opened(dataset, dataset_options)
    if columns is not None and not isinstance(columns, Mapping):
        columns = tuple(columns)  # the library takes lists for shards
    schema = table.scanner(columns, filter).projected_schema
    return datasets.IterableDataset.from_generator(
        _rows,
        features=datasets.Features.from_arrow_schema(schema),
        gen_kwargs={
            "table": table,
            "columns": columns,
            "filter": filter,
            "batch_size": batch_size,
            "fragments": [one.fragment_id for one in table.get_fragments()],
        },
    )


def _rows(
    table: LanceDataset,
    columns: Columns | None,
    filter: Filter | None,
    batch_size: int,
    fragments: Sequence[int],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of some fragments, as the library takes them: each as a dict."""
    for fragment in fragments:
        for batch in _batches(table, columns, filter, batch_size, fragment):
            yield from batch.to_pylist()


def _batches(
    table: LanceDataset,
    columns: Columns | None,
    filter: Filter | None,
    batch_size: int,
    fragment: int,
) -> Iterator[pa.RecordBatch]:
    found = table.get_fragment(fragment)
    assert found is not None
    return table.to_batches(columns, filter, batch_size=batch_size, fragments=[found])
