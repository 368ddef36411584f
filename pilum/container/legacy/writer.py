"""Write a legacy file front to back.

    pages of batch 0, pages of batch 1 …    fields depth first, members of structs in their order
    page table
    statistics: their pages, their page table
    values of dictionaries
    manifest, metadata, footer              see `footer.py`

Rows are buffered until a batch is full. Nothing is padded. Values that would not be preserved are
rejected, see `checks.py`. Source: docs/format/legacy.md, "Writing".
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from google.protobuf.message import Message
from numpy.typing import NDArray

from pilum.container.blobs import Sidecars
from pilum.container.legacy.batches import Grouping, PageRun, encode_pages, lay_out
from pilum.container.legacy.checks import require_kept, require_type
from pilum.container.legacy.footer import pack_footer
from pilum.container.legacy.page_kinds import Unified, encode_values
from pilum.container.legacy.pages import pack_page_table
from pilum.container.legacy.statistics import bounds_of_batches, has_statistics, statistics_field
from pilum.container.writer import FileOptions, WrittenFile
from pilum.errors import (
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.fields import Field, FieldId
from pilum.format.pb import legacy_pb2, table_pb2
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, finish_new

__all__ = ["LegacyWriter"]

_LENGTH = struct.Struct("<I")
_MAX_ROWS = 2**31 - 1
_BUFFER_BYTES = 1024 * 1024
_RUN_BYTES = 8 * 1024 * 1024
"""The approximate size of a single write."""


class LegacyWriter:
    """A writer of one new file.

    Args:
        sink: The destination; the writer finishes or aborts it.
        schema: Its fields, with the field ids of the table.
        grouping: The batch boundaries; the last batch may have fewer rows.

    Raises:
        UnsupportedTypeError: If legacy files cannot store a type.
    """

    def __init__(self, sink: Sink, schema: Schema, grouping: Grouping) -> None:
        for field in schema.fields:
            if any(inner.is_packed or inner.blob_version for inner in field.walk()):
                raise UnsupportedTypeError(
                    f"column {field.name!r}: legacy files cannot store packed structs or blobs"
                )
            require_type(field, field.name)
        self._sink = _Buffered(sink)
        self._schema = schema
        self._grouping = grouping
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._batch_offsets = [0]
        self._pages = _PageWriter(self._sink, _dictionaries(schema))
        self._measured = [item for field in schema.fields for item in has_statistics(field)]
        self._statistics: dict[FieldId, list[tuple[pa.Array, pa.Array, pa.Array]]] = {
            field.id: [] for field in self._measured
        }

    @classmethod
    def of(
        cls,
        sink: Sink,
        schema: Schema,
        version: FileVersion,
        options: FileOptions,
        sidecars: Sidecars | None,
    ) -> LegacyWriter:
        """Start a file with these options; see `pilum.container.open.new_file`."""
        others = ("data_cache_bytes", "max_page_bytes", "buffer_alignment", "encoding")
        options.refuse(version, *others)
        bounds = options.group_bounds
        known = None if bounds is None else np.asarray(bounds, np.int64)
        return cls(sink, schema, Grouping(options.max_rows_per_group, known))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns of the schema, in the same order and of the same types.

        Raises:
            SchemaMismatchError: If the columns or their types differ.
            InvalidInputError: If a value would not be preserved.
        """
        if batch.schema.names != self._schema.names:
            raise SchemaMismatchError(
                f"columns {batch.schema.names}; expected {self._schema.names}"
            )
        columns = [
            _checked(field, array)
            for field, array in zip(self._schema.fields, batch.columns, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(columns, self._schema.names)
        run_rows = int(_RUN_BYTES * rows.num_rows / max(rows.nbytes, 1))
        start = 0
        while start < rows.num_rows:
            part = rows.slice(start, self._next_rows(rows.num_rows - start, run_rows))
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            start += part.num_rows
            if self._waiting_rows >= self._missing_rows:
                self._write_groups()

    def add_global_buffer(self, data: bytes) -> int:
        """Raise UnsupportedFormatError: legacy files have no global buffers."""
        raise UnsupportedFormatError(
            "legacy files (version 0.1) have no global buffers; write version 2.0 or newer"
        )

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema metadata, replacing any entry with the same key."""
        self._schema = replace(self._schema, metadata={**self._schema.metadata, key: value})

    def bytes_written(self) -> int:
        """Return bytes in the file, and those that wait for their batch to be full."""
        waiting: int = sum(part.nbytes for part in self._waiting)
        return self._sink.position + waiting

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the end of the file, then finish the sink."""
        if self._waiting:
            self._write_groups()
        num_rows = self._batch_offsets[-1]
        if num_rows == 0:
            raise InvalidInputError("legacy files have at least one row")
        ids = sorted(field.id for field in self._schema.walk())
        table = self._pages.write_table(ids[0], len(self._batch_offsets) - 1)
        statistics = self._write_statistics()
        metadata = legacy_pb2.Metadata(
            batch_offsets=self._batch_offsets,
            page_table_position=table,
            statistics=statistics,
            manifest_position=self._write_manifest(),
        )
        self._sink.write(pack_footer(_write_message(self._sink, metadata)))
        finish_new(self._sink)
        size, fields = self._sink.position, map(self._with_dictionary, self._schema.fields)
        schema = Schema(tuple(fields), self._schema.metadata)
        return WrittenFile(num_rows, size, tuple(ids), (), FileVersion.LEGACY, schema)

    def abort(self) -> None:
        """Discard the file."""
        self._sink.abort()

    def _next_rows(self, available: int, run_rows: int) -> int:
        """Return how many rows to add: whole groups, the rest of a group, or all available."""
        done = self._batch_offsets[-1]
        if self._waiting_rows:
            return self._missing_rows - self._waiting_rows
        whole = self._grouping.end_until(done + min(available, run_rows)) - done
        return whole if whole > 0 else self._missing_rows

    @property
    def _missing_rows(self) -> int:
        """Return the number of rows missing in the next batch."""
        done = self._batch_offsets[-1]
        return self._grouping.end_behind(done) - done

    def _write_groups(self) -> None:
        """Write all buffered rows as groups; the last group may have fewer rows."""
        parts, rows = self._waiting, self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        first = self._batch_offsets[-1]
        if first + rows > _MAX_ROWS:
            raise InvalidInputError(
                f"{first + rows} rows in a legacy file, which has at most {_MAX_ROWS}"
            )
        cuts = self._grouping.cuts(first, rows)
        runs: list[PageRun] = []
        for index, field in enumerate(self._schema.fields):
            array = _joined(field, [part.column(index) for part in parts])
            runs.extend(encode_pages(field, array, cuts, self._pages.dictionaries))
            self._measure(field, array, cuts)
        self._pages.write(runs)
        self._batch_offsets.extend((cuts[1:] + first).tolist())

    def _measure(self, field: Field, array: pa.Array, cuts: NDArray[np.int64]) -> None:
        if field.id in self._statistics:
            self._statistics[field.id].append(bounds_of_batches(array, cuts))
        elif field.is_struct:
            for index, child in enumerate(field.children):
                self._measure(child, array.field(index), cuts)

    def _write_statistics(self) -> legacy_pb2.Statistics | None:
        if not self._measured:
            return None
        ordered = sorted(self._measured, key=lambda field: field.id)
        schema = Schema(tuple(statistics_field(field, n) for n, field in enumerate(ordered)))
        pages = _PageWriter(self._sink, {})
        for field, own in zip(ordered, schema.fields, strict=True):
            columns = map(pa.concat_arrays, zip(*self._statistics[field.id], strict=True))
            for child, array in zip(own.children, columns, strict=True):
                cuts = np.array([0, len(array)], np.int64)
                pages.write(list(encode_pages(child, array, cuts, {})))
        ids = [field.id for field in schema.walk()]
        table = pages.write_table(ids[0], 1)
        return legacy_pb2.Statistics(
            schema=schema.to_proto(), fields=ids, page_table_position=table
        )

    def _write_manifest(self) -> int:
        """Write the schema for readers without a table, and the dictionaries that it refers to."""
        manifest = table_pb2.Manifest(
            fields=self._schema.to_proto(),
            version=1,
            schema_metadata=self._schema.metadata_to_proto(),
            data_format=table_pb2.DataStorageFormat(
                file_format="lance", version=str(FileVersion.LEGACY)
            ),
        )
        dictionaries = self._pages.dictionaries
        for message in sorted(manifest.fields, key=lambda message: message.id):
            if message.id in dictionaries:
                values = dictionaries[FieldId(message.id)].values
                data, position = encode_values(values, self._sink.position)
                self._sink.write(data)
                message.dictionary.offset, message.dictionary.length = position, len(values)
        return _write_message(self._sink, manifest)

    def _with_dictionary(self, field: Field) -> Field:
        dictionaries = self._pages.dictionaries
        own = dictionaries[field.id].values if field.id in dictionaries else field.dictionary
        children = tuple(map(self._with_dictionary, field.children))
        return replace(field, dictionary=own, children=children)


class _Buffered:
    """A buffer that joins small writes; holds one piece and up to `_BUFFER_BYTES`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting = bytearray()

    @property
    def position(self) -> int:
        return self._sink.position + len(self._waiting)

    def write(self, data: Any) -> None:
        view = memoryview(data)
        if view.nbytes >= _BUFFER_BYTES:
            self._flush()
            self._sink.write(view)
            return
        self._waiting += data
        if len(self._waiting) >= _BUFFER_BYTES:
            self._flush()

    def expose(self) -> bool:
        self._flush()
        return self._sink.expose()

    def finish(self) -> None:
        self._flush()
        self._sink.finish()

    def abort(self) -> None:
        self._sink.abort()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._sink.write(waiting)


class _PageWriter:
    """A writer of pages that records their positions; dictionaries are by field id."""

    def __init__(self, sink: Sink, dictionaries: dict[FieldId, Unified]) -> None:
        self.dictionaries = dictionaries
        self._sink = sink
        self._pages: dict[int, list[NDArray[np.int64]]] = {}

    def write(self, runs: list[PageRun]) -> None:
        """Write the pages of some fields for the same batches."""
        positions, data = lay_out(runs, self._sink.position)
        self._sink.write(data)
        for run, own in zip(runs, positions.T, strict=True):
            pages = np.stack([own, run.lengths], axis=1)
            self._pages.setdefault(run.field_id, []).append(pages)

    def write_table(self, first_id: int, num_batches: int) -> int:
        """Write the page table and return its position."""
        position = self._sink.position
        self._sink.write(pack_page_table(self._pages, first_id, num_batches))
        return position


def _dictionaries(schema: Schema) -> dict[FieldId, Unified]:
    return {
        field.id: Unified(field.arrow_type, field.dictionary)
        for field in schema.walk()
        if pt.is_dictionary(field.arrow_type)
    }


def _joined(field: Field, columns: list[pa.Array]) -> pa.Array:
    if len(columns) == 1:
        return columns[0]
    try:
        return pa.concat_arrays(columns)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"column {field.name!r}: {error}") from None


def _write_message(sink: Sink, message: Message) -> int:
    position = sink.position
    data = message.SerializeToString(deterministic=True)
    sink.write(_LENGTH.pack(len(data)) + data)
    return position


def _checked(field: Field, array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if array.type != field.arrow_type:
        raise SchemaMismatchError(
            f"column {field.name!r}: type {array.type}; expected {field.arrow_type}"
        )
    require_kept(field, array, field.name)
    return array
