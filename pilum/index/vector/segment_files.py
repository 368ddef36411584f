"""The two files of a segment.

    index.idx        metadata   lance:index   {"type":"IVF_PQ","distance_type":"l2"}
                                lance:ivf     number of the buffer with centroids and loss
                                lance:flat    ["","",…], or lance:hnsw ["{…}",…]: one per partition
                     rows       __flat_marker, none; or the graphs
    auxiliary.idx    metadata   distance_type, lance:ivf, storage_metadata
                     rows       _rowid u64, and the codes; partition after partition

Partitions are read when a query needs them, all missing ones of a query together, and kept.
Source: docs/format/vector-indices.md, "Files".
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_array, number_values
from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.rows import Addresses, RowRanges
from pilum.index.files import IndexFile, IndexFolderWriter
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.messages import IvfMessage
from pilum.index.vector.metrics import Metric
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.quantizer import Columns, Memo, Memory, Probe, Quantizer
from pilum.index.vector.rabitq import Rabitq
from pilum.index.vector.scalar_codes import ScalarQuantizer
from pilum.index.vector.stored_parameters import StoredParameters, entry, texts
from pilum.index.vector.vectors import matrix, vector_column

__all__ = [
    "AUXILIARY_FILE",
    "INDEX_FILE",
    "AuxiliaryFile",
    "GraphRows",
    "IndexHeader",
    "PartitionReader",
    "SegmentWriter",
    "StoredPartitions",
]

INDEX_FILE, AUXILIARY_FILE = "index.idx", "auxiliary.idx"

_INDEX, _IVF, _FLAT, _HNSW = "lance:index", "lance:ivf", "lance:flat", "lance:hnsw"
_METRIC, _STORAGE = "distance_type", "storage_metadata"
_ROW_ID, _MARKER = "_rowid", "__flat_marker"

_QUANTIZERS: dict[str, type[Quantizer]] = {
    one.name: one for one in (FlatQuantizer, ProductQuantizer, ScalarQuantizer, Rabitq)
}

_MAX_KEPT_BYTES = 4 << 30
"""So many bytes of partitions are kept; if there are more, all are dropped and read again."""


@dataclass(frozen=True)
class IndexHeader:
    """The metadata of index.idx.

    Attributes:
        file: The file.
        name: Name of the index type, such as "IVF_HNSW_SQ".
        model: The centroids.
        graphs: The partitions of the rows of graphs; None without graphs.
        graph_metadata: The JSON about the graph of each partition; empty without graphs.
    """

    file: IndexFile
    name: str
    model: IvfModel
    graphs: IvfMessage | None
    graph_metadata: Sequence[str]

    @classmethod
    def read(cls, file: IndexFile) -> IndexHeader:
        """Read the metadata.

        Raises:
            CorruptFileError: If it is damaged.
        """
        path, metadata = file.path, file.metadata
        about = StoredParameters(entry(metadata, _INDEX, path), path)
        name = about.text("type").upper()
        metric = Metric.stored(about.text(_METRIC), path)
        ivf = read_ivf(file)
        if ivf.centroids is None:
            raise CorruptFileError("no centroids", path)
        has_graphs = "_HNSW_" in name
        graph_metadata = texts(entry(metadata, _HNSW if has_graphs else _FLAT, path), path)
        if len(graph_metadata) != len(ivf.lengths):
            raise CorruptFileError(
                f"{len(graph_metadata)} texts for {len(ivf.lengths)} partitions", path
            )
        if (ivf.centroids.dtype == np.uint8) != (metric is Metric.HAMMING):
            raise CorruptFileError(f"centroids of {ivf.centroids.dtype} for {metric.value}", path)
        if has_graphs:
            require_partitions(ivf, file.num_rows, path)
        model = IvfModel(ivf.centroids, metric, ivf.loss)
        graphs = (ivf, graph_metadata) if has_graphs else (None, ())
        return cls(file, name, model, *graphs)


def read_ivf(file: IndexFile) -> IvfMessage:
    """Read the message about the partitions of a file.

    Raises:
        CorruptFileError: If it is damaged.
    """
    text = entry(file.metadata, _IVF, file.path)
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise CorruptFileError(f"{_IVF} is {text!r}, not the number of a buffer", file.path)
    return IvfMessage.parse(file.global_buffer(int(text)), file.path)


def require_partitions(ivf: IvfMessage, num_rows: int, path: str) -> None:
    """Raise an error unless partitions are disjoint runs of the rows of a file, in order.

    Raises:
        CorruptFileError: If they are not.
    """
    filled = ivf.lengths > 0
    starts = ivf.offsets[filled]
    stops = starts + ivf.lengths[filled]
    if len(starts) and (int(stops[-1]) > num_rows or bool((starts[1:] < stops[:-1]).any())):
        raise CorruptFileError(f"partitions that overlap or exceed {num_rows} rows", path)


class StoredPartitions(ABC):
    """The rows of partitions, from wherever they are stored."""

    lengths: NDArray[np.int64]
    path: str

    @abstractmethod
    def read(self, numbers: Sequence[int]) -> list[tuple[Addresses, Columns]]:
        """Read the row references and stored codes of some partitions, in ascending order.

        Raises:
            CorruptFileError: If the file is damaged.
        """

    @abstractmethod
    def references(self) -> Addresses:
        """Read the row references of all partitions, in their order.

        Raises:
            CorruptFileError: If the file is damaged.
        """


class AuxiliaryFile(StoredPartitions):
    """The partitions in auxiliary.idx.

    Args:
        file: The file.
        quantizer: The quantizer, whose columns are read.
        ivf: The rows of each partition.

    Attributes:
        lengths: The number of rows of each partition, int64.
        path: Path of the file, for errors.
    """

    def __init__(self, file: IndexFile, quantizer: Quantizer, ivf: IvfMessage) -> None:
        self._file = file
        self._quantizer = quantizer
        fields = pa.field(_ROW_ID, pa.uint64()), *quantizer.fields
        self._names = [field.name for field in fields]
        self._offsets = ivf.offsets
        self.lengths = ivf.lengths
        self.path = file.path
        require_partitions(ivf, file.num_rows, file.path)
        for field in fields:
            _require_column(file, field)

    @classmethod
    def open(cls, file: IndexFile, header: IndexHeader) -> tuple[AuxiliaryFile, Quantizer]:
        """Open the file that belongs to an index.idx.

        Raises:
            CorruptFileError: If it is damaged, or does not belong to the other file.
            UnsupportedFeatureError: If vectors are stored in an unknown way.
        """
        path, model = file.path, header.model
        metric = Metric.stored(entry(file.metadata, _METRIC, path), path)
        if metric is not model.metric:
            raise CorruptFileError(f"metric {metric.value}, not {model.metric.value}", path)
        kind = _QUANTIZERS.get(header.name.rpartition("_")[2])
        if kind is None:
            raise UnsupportedFeatureError(f"index of type {header.name}\n  {header.file.path}")
        storage = texts(entry(file.metadata, _STORAGE, path), path)
        if len(storage) != 1:
            raise CorruptFileError(f"{_STORAGE}: {len(storage)} texts, not 1", path)
        ivf = read_ivf(file)
        if len(ivf.lengths) != model.num_partitions:
            raise CorruptFileError(
                f"{len(ivf.lengths)} partitions, not {model.num_partitions}", path
            )
        parameters = StoredParameters(storage[0], path)
        quantizer = kind.read(parameters, file, metric, model.dimension)
        return cls(file, quantizer, ivf), quantizer

    def read(self, numbers: Sequence[int]) -> list[tuple[Addresses, Columns]]:
        """See `StoredPartitions.read`; one request for each column and adjacent rows."""
        wanted = np.array(numbers, np.int64)
        starts, lengths = self._offsets[wanted], self.lengths[wanted]
        bounds = np.stack([starts, starts + lengths], axis=1)[lengths > 0]
        read = self._file.arrays(self._names, RowRanges(np.ascontiguousarray(bounds)))
        arrays = {
            name: _array(array, name, self.path)
            for name, array in zip(self._names, read, strict=True)
        }
        rows, at = arrays.pop(_ROW_ID), 0
        flaw = self._quantizer.flaw(arrays)
        if flaw is not None:
            raise CorruptFileError(flaw, self.path)
        found: list[tuple[Addresses, Columns]] = []
        for length in lengths.tolist():
            part = slice(at, at + length)
            found.append((rows[part], {name: array[part] for name, array in arrays.items()}))
            at += length
        return found

    def references(self) -> Addresses:
        """See `StoredPartitions.references`."""
        bounds = np.stack([self._offsets, self._offsets + self.lengths], axis=1)[self.lengths > 0]
        [array] = self._file.arrays([_ROW_ID], RowRanges(np.ascontiguousarray(bounds)))
        return _array(array, _ROW_ID, self.path)


def _require_column(file: IndexFile, expected: pa.Field) -> None:
    place = file.schema.get_field_index(expected.name)
    found = None if place < 0 else file.schema.field(place).type
    if found is None or not _same(found, expected.type):
        raise CorruptFileError(
            f"column {expected.name!r}: expected {expected.type}, found {found}", file.path
        )


def _same(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(expected) and pa.types.is_fixed_size_list(found):
        widths = found.list_size, expected.list_size
        return widths[0] == widths[1] and bool(found.value_type == expected.value_type)
    return bool(found == expected)


def _array(array: pa.Array, name: str, path: str) -> NDArray[Any]:
    if array.null_count:
        raise CorruptFileError(f"column {name!r}: {array.null_count} nulls", path)
    if not pa.types.is_fixed_size_list(array.type):
        return number_values(array)
    found, valid = matrix(array)
    if valid is not None:
        raise CorruptFileError(f"column {name!r}: nulls in a vector", path)
    return found


class PartitionReader:
    """The partitions of a segment, which are kept once they were read.

    Safe to use from several threads: two that need the same partition may both read it.

    Args:
        stored: Where they are stored.
        model: The centroids.

    Attributes:
        lengths: The number of rows of each partition, int64.
    """

    def __init__(self, stored: StoredPartitions, model: IvfModel) -> None:
        self._stored = stored
        self._model = model
        self._kept: dict[int, Probe] = {}
        self._references: Addresses | None = None
        self.lengths = stored.lengths
        self._size_bytes = 0
        self._memory = Memory()

    @property
    def size_bytes(self) -> int:
        """The memory that the kept partitions use."""
        return self._size_bytes + self._memory.size_bytes

    def probes(self, numbers: Sequence[int]) -> list[Probe]:
        """Return partitions that are not empty, in the order given.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        kept = self._kept
        try:
            return [kept[number] for number in numbers]
        except KeyError:
            missing = sorted(number for number in set(numbers) if number not in kept)
        read = self._read(missing)
        return [read[number] if number in read else kept[number] for number in numbers]

    def references(self) -> Addresses:
        """Return the row references of all partitions, in their order.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        found = self._references
        if found is None:
            found = self._references = self._stored.references()
            self._size_bytes += found.nbytes
        return found

    def _read(self, numbers: list[int]) -> dict[int, Probe]:
        centroids, read = self._model.wide, self._stored.read(numbers)
        added = _size_bytes(read)
        if self._size_bytes + added > _MAX_KEPT_BYTES:
            self._kept, self._references, self._size_bytes = {}, None, 0
            self._memory = Memory()
        found = {
            number: Probe(number, rows, columns, centroids[number], memo=Memo(self._memory))
            for number, (rows, columns) in zip(numbers, read, strict=True)
        }
        if added <= _MAX_KEPT_BYTES:
            self._kept.update(found)
            self._size_bytes += added
        return found


def _size_bytes(read: list[tuple[Addresses, Columns]]) -> int:
    found = 0
    for rows, columns in read:
        found += rows.nbytes
        for column in columns.values():
            found += column.nbytes
    return found


@dataclass(frozen=True)
class GraphRows:
    """The graph of one partition, as index.idx has it.

    Attributes:
        rows: Rows with the columns of graphs.
        metadata: The JSON about it; empty for an empty partition.
    """

    rows: pa.RecordBatch
    metadata: str


class SegmentWriter:
    """A writer of the two files of a segment, partition after partition.

    Both files are discarded if the block of the context manager fails.

    Args:
        folder: The folder of the new segment.
        name: Name of the index type, such as "IVF_HNSW_SQ".
        model: The centroids; their loss is stored.
        quantizer: The quantizer.
        graph_schema: The columns of graphs; None without graphs.
    """

    def __init__(
        self,
        folder: IndexFolderWriter,
        name: str,
        model: IvfModel,
        quantizer: Quantizer,
        graph_schema: pa.Schema | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._quantizer = quantizer
        self._lengths: list[int] = []
        self._graph_lengths: list[int] = []
        self._graph_metadata: list[str] = []
        self._schema = pa.schema([pa.field(_ROW_ID, pa.uint64()), *quantizer.fields])
        marker = pa.schema([pa.field(_MARKER, pa.uint64(), nullable=False)])
        self._has_graphs = graph_schema is not None
        with ExitStack() as stack:
            self._auxiliary = stack.enter_context(folder.file(AUXILIARY_FILE, self._schema))
            self._index = stack.enter_context(folder.file(INDEX_FILE, graph_schema or marker))
            self._stack = stack.pop_all()

    def write(self, rows: Addresses, columns: Columns, graph: GraphRows | None = None) -> None:
        """Write the next partition.

        Args:
            rows: The row references, uint64.
            columns: Plain rows.
            graph: Its graph, if the index has graphs.
        """
        if len(rows):
            stored = self._quantizer.arranged(columns)
            arrays = [_column(stored[field.name]) for field in self._quantizer.fields]
            batch = [number_array(rows), *arrays]
            self._auxiliary.write(pa.RecordBatch.from_arrays(batch, schema=self._schema))
        self._lengths.append(len(rows))
        if graph is not None:
            self._index.write(graph.rows)
        self._graph_lengths.append(0 if graph is None else graph.rows.num_rows)
        self._graph_metadata.append("" if graph is None else graph.metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._finish()

    def _finish(self) -> None:
        model, metric = self._model, self._model.metric.value
        assert len(self._lengths) == model.num_partitions
        file = self._auxiliary
        ivf = IvfMessage.of_lengths(np.array(self._lengths, np.int64))
        number = file.add_global_buffer(ivf.pack())
        storage = self._quantizer.metadata(file.add_global_buffer)
        file.add_metadata({_METRIC: metric, _IVF: str(number), _STORAGE: _compact([storage])})
        file = self._index
        lengths = np.array(self._graph_lengths, np.int64)
        number = file.add_global_buffer(
            IvfMessage.of_lengths(lengths, model.centroids, model.loss).pack()
        )
        about = {"type": self._name, _METRIC: metric}
        key = _HNSW if self._has_graphs else _FLAT
        file.add_metadata(
            {_INDEX: _compact(about), _IVF: str(number), key: _compact(self._graph_metadata)}
        )


def _column(array: NDArray[Any]) -> pa.Array:
    return number_array(array) if array.ndim == 1 else vector_column(array)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
