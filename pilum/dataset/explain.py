"""Report what a table stores: `explain` each page and why it has its form, `LanceStats` the sums.

pilum.explain("table.lance")       a table: from the metadata of its files alone
pilum.explain("part.lance")        one data file
pilum.explain(pa.table(...))       rows in memory: what a writer would choose, and from what
dataset.stats.data_stats()         the bytes of each field

Statistics of the values are computed by `pilum.spark.analyze`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from pilum.arguments import require_count, require_list
from pilum.container.dry_run import explain_batches, explain_written
from pilum.container.explain import PageExplanation, raw_bytes_of
from pilum.container.open import field_reader, open_file
from pilum.container.segments import FilePart
from pilum.container.writer import FileOptions
from pilum.dataset.base import DatasetBase
from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.pictures.words import size_text
from pilum.storage.base import Source
from pilum.storage.open import Location, open_store
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import open_table
from pilum.table.write.align import align, new_schema

if TYPE_CHECKING:
    from pilum.pictures.page_map import PageMap

__all__ = [
    "DataStatistics",
    "Explanation",
    "FieldStatistics",
    "LanceStats",
    "explain",
    "explain_file",
]

_NO_OPTIONS = EncodingOptions()
_HEAD = ("column", "rows", "pages", "stored", "raw", "ratio", "layout", "encoding")


@dataclass(frozen=True)
class Explanation:
    """The pages of columns; as text, one line for all pages of a column that are stored alike.

    Attributes:
        pages: The pages, file by file and column by column.
    """

    pages: tuple[PageExplanation, ...]

    def __str__(self) -> str:
        groups = [list(pages) for _, pages in groupby(sorted(self.pages, key=_alike), _alike)]
        groups.sort(key=lambda pages: self.pages.index(pages[0]))
        lines = [_HEAD, *(_line(pages) for pages in groups)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        text = [_aligned(_HEAD, widths)]
        for pages, line in zip(groups, lines[1:], strict=True):
            text.append(_aligned(line, widths))
            text.extend(_reasons(pages[0]))
        return "\n".join(text)

    def to_arrow(self) -> pa.Table:
        """Return a table with one row per page and all known facts, including `stored_bytes`."""
        return pa.Table.from_pylist([_row(page) for page in self.pages], _ARROW)

    def picture(self, title: str = "pages") -> PageMap:
        """Return the pages to scale, to be drawn by `pilum pages` and in notebooks."""
        from pilum.dataset.page_picture import page_picture

        return page_picture(self.pages, title)

    def _repr_html_(self) -> str:
        from pilum.pictures.page_map_svg import page_map_svg

        return page_map_svg(self.picture(), has_ground=False)


def explain(
    source: DatasetBase | Location | pa.Table | pa.RecordBatch,
    columns: Sequence[str] | None = None,
    *,
    data_storage_version: str | None = None,
    encoding_options: EncodingOptions = _NO_OPTIONS,
    fragment_ids: Collection[int] | None = None,
) -> Explanation:
    """Report the layout, encodings and size of each column and page.

    Args:
        source: A table, or the path of a table or data file: reports what is stored, from metadata
            alone (and in files of version 0.1, from two offsets of each page of strings). Or rows
            in memory: reports what a writer would choose, and since version 2.1, what it would
            compare.
        columns: Names or dotted paths; all if None.
        data_storage_version: File version for rows in memory.
        encoding_options: Encoding preferences for rows in memory.
        fragment_ids: For open tables: only these fragments; all if None.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        DatasetNotFoundError: If nothing exists at the path.
        InvalidInputError: If any other argument is invalid.
    """
    if fragment_ids is not None and not isinstance(source, DatasetBase):
        raise InvalidInputError("fragment_ids: pass an open table")
    if isinstance(source, pa.Table | pa.RecordBatch):
        asked = None if data_storage_version is None else FileVersion.parse(data_storage_version)
        version = asked or DEFAULT_VERSION
        return Explanation(tuple(_of_rows(source, columns, version, encoding_options)))
    if data_storage_version is not None or encoding_options != _NO_OPTIONS:
        raise InvalidInputError(
            "data_storage_version and encoding_options are for rows in memory: what is stored is "
            "stored"
        )
    if isinstance(source, DatasetBase):
        return Explanation(tuple(_of_table(source.snapshot, columns, fragment_ids)))
    if not isinstance(source, str | os.PathLike):
        raise InvalidInputError(f"expected a table, a path or rows of pyarrow, found {source!r}")
    if (path := Path(source).expanduser()).is_file():
        return explain_file(open_store(path.parent).source(path.name), columns)
    snapshot = Snapshot.latest(open_table(source))
    return Explanation(tuple(_of_table(snapshot, columns)))


def explain_file(source: Source, columns: Sequence[str] | None = None) -> Explanation:
    """Report the layout, encodings and size of each column and page of one data file."""
    reader = open_file(source)
    part = FilePart(reader, reader.field_columns())
    fields = _chosen(reader.schema, columns).fields
    pages = (field_reader(field, [part], reader.num_rows).explain() for field in fields)
    return Explanation(tuple(chain.from_iterable(pages)))


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


class DatasetStats(TypedDict):
    """Counts of a version, from its manifest."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


class LanceStats:
    """The statistics of one version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Return counts of fragments and deleted rows, from the manifest.

        Args:
            max_rows_per_group: A fragment with fewer rows, including deleted ones, counts as small.

        Raises:
            InvalidInputError: If it is not an integer, or negative.
        """
        require_count("max_rows_per_group", max_rows_per_group)
        fragments = self._snapshot.manifest.fragments
        small = sum(fragment.physical_rows < max_rows_per_group for fragment in fragments)
        return DatasetStats(
            num_deleted_rows=sum(fragment.num_deleted_rows for fragment in fragments),
            num_fragments=len(fragments),
            num_small_files=small,
        )

    def data_stats(self) -> DataStatistics:
        """Sum the page sizes of each field, from the metadata of the data files.

        Raises:
            NotFoundError: If a data file is missing.
            CorruptFileError: If a data file is damaged.
        """
        schema = self._snapshot.schema
        ids = {schema.path(field.id): field.id for field in schema.walk()}
        sizes = dict.fromkeys(ids, 0)
        for page in _of_table(self._snapshot):
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


def _of_table(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    fragment_ids: Collection[int] | None = None,
) -> Iterator[PageExplanation]:
    schema = _chosen(snapshot.schema, columns)
    if fragment_ids is not None:
        fragment_ids = require_list("fragment_ids", fragment_ids)
    for fragment in snapshot.manifest.fragments:
        if fragment_ids is not None and fragment.id not in fragment_ids:
            continue
        reader = snapshot.reader(fragment)
        for field in schema.fields:
            yield from reader.field(field).explain()


def _of_rows(
    rows: pa.Table | pa.RecordBatch,
    columns: Sequence[str] | None,
    version: FileVersion,
    options: EncodingOptions,
) -> Iterable[PageExplanation]:
    schema = new_schema(rows.schema)
    alignment = align(rows.schema, schema)
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    chosen = _chosen(alignment.schema, columns)
    aligned = (alignment.batch(batch).select(chosen.names) for batch in batches)
    layout = FileOptions(encoding=options)
    run = explain_batches if version.has_mini_blocks else explain_written
    pages = run(schema.project(chosen.names), aligned, version, layout)
    paths = (path for field in chosen.fields for path in field.leaf_paths())
    wanted = {
        ".".join(field.name for field in path[:depth])
        for path in paths
        for depth in range(1, len(path) + 1)  # lists have pages of their own before 2.1
    }
    return (page for page in pages if page.column in wanted)


def _chosen(schema: Schema, columns: Sequence[str] | None) -> Schema:
    return schema if columns is None else schema.project(require_list("columns", columns))


def _alike(page: PageExplanation) -> tuple[str, str, str, bool]:
    return page.column, page.layout, page.encoding, bool(page.dictionary)


def _line(pages: list[PageExplanation]) -> tuple[str, ...]:
    stored = sum(page.stored_bytes for page in pages)
    raw = raw_bytes_of(pages)
    first = pages[0]
    dictionary = f", dictionary of {first.dictionary}" if first.dictionary else ""
    return (
        first.column,
        f"{sum(page.num_rows for page in pages):,}",
        f"{len(pages):,}",
        size_text(stored),
        "" if raw is None else size_text(raw),
        f"{raw / stored:.2f}" if raw and stored else "",
        first.layout,
        first.encoding + dictionary,
    )


def _reasons(page: PageExplanation) -> Iterator[str]:
    for candidate in page.candidates:
        note = f" ({candidate.note})" if candidate.note else ""
        size = "" if candidate.size_bytes is None else f" {size_text(candidate.size_bytes)}"
        yield f"    {candidate.encoding}{size}{note}"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    numbers = range(1, 6)
    padded = (
        cell.rjust(width) if at in numbers else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _row(page: PageExplanation) -> dict[str, Any]:
    row = {name: getattr(page, name) for name in _ARROW.names}
    row["candidates"] = [
        {"encoding": other.encoding, "size_bytes": other.size_bytes, "note": other.note}
        for other in page.candidates
    ]
    return row


_ARROW = pa.schema(
    {
        "file": pa.string(),
        "column": pa.string(),
        "type": pa.string(),
        "page": pa.int64(),
        "first_row": pa.int64(),
        "num_rows": pa.int64(),
        "num_values": pa.int64(),
        "layout": pa.string(),
        "encoding": pa.string(),
        "dictionary": pa.string(),
        "levels": pa.string(),
        "buffer_bytes": pa.list_(pa.int64()),
        "stored_bytes": pa.int64(),
        "raw_bytes": pa.int64(),
        "candidates": pa.list_(
            pa.struct({"encoding": pa.string(), "size_bytes": pa.int64(), "note": pa.string()})
        ),
    }
)
