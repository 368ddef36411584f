"""Builds of vector indices: rows become the files of a segment, with bounded memory.

    sample ──▶ models: centroids, quantizer                                    (`training`)
    rows   ──▶ usable vectors ──▶ partition, code    batches in several threads
           ──▶ in the order of the partitions        on disk if they are many  (`shuffle`)
           ──▶ graph of each partition ──▶ index.idx, auxiliary.idx            (`segment_files`)

With too few rows for the models, no files are written: the segment is a definition, which the next
optimization builds.

Source: docs/format/vector-indices.md, "Files".
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_values
from pilum.errors import InvalidInputError
from pilum.format.rows import Addresses
from pilum.index.base import REFERENCE, VALUE, IndexRows, Part
from pilum.index.files import IndexFolderWriter
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.graph import GRAPH_SCHEMA, build_graph
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.messages import PQ, RQ, SQ, VectorDetails
from pilum.index.vector.parameters import VectorParameters
from pilum.index.vector.partitions import partition_count
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.quantizer import Columns, Quantizer
from pilum.index.vector.rabitq import Rabitq
from pilum.index.vector.scalar_codes import ScalarQuantizer
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.segment_files import SegmentWriter
from pilum.index.vector.shuffle import Shuffle
from pilum.index.vector.training import (
    indexed_vectors,
    sample_of,
    train_bounds,
    train_centroids,
    train_codebook,
)
from pilum.index.vector.vectors import Matrix, VectorType
from pilum.parallel import num_threads, submit

__all__ = [
    "Encoded",
    "Models",
    "build",
    "common_quantizer",
    "encoded",
    "merge",
    "sample_for",
    "train_models",
    "write_encoded",
    "write_segment",
]

_NO_LIMIT = 2**62
_SHARE_OF_SAMPLES = 8
"""A sample takes at most this part of the memory; training takes a few times as much."""

_SHARE_OF_ROWS = 3


@dataclass(frozen=True, eq=False)
class Models:
    """The models of an index.

    Attributes:
        ivf: The centroids of the partitions.
        quantizer: How vectors are stored.
    """

    ivf: IvfModel
    quantizer: Quantizer


def build(rows: IndexRows, parameters: VectorParameters, folder: IndexFolderWriter) -> None:
    """Train models and write the files of a segment; none if there are too few rows.

    Args:
        rows: The rows.
        parameters: Parameters of the index.
        folder: The folder of the segment.

    Raises:
        InvalidInputError: If a given partition does not exist.
    """
    if not rows.num_rows:
        return
    models = train_models(rows, parameters)
    if models is None:
        return
    found = encoded(rows.batches, parameters, models)
    write_encoded(found, parameters, models, folder, rows.on_nodes)


def write_encoded(
    rows: Iterable[Encoded],
    parameters: VectorParameters,
    models: Models,
    folder: IndexFolderWriter,
    on_nodes: Callable[[int], None] | None = None,
) -> None:
    """Write the files of a segment.

    Args:
        rows: Its rows, encoded by the models.
        parameters: Parameters of the index.
        models: Its models.
        folder: The folder of the segment.
        on_nodes: See `IndexRows`.
    """
    with Shuffle(models.ivf.num_partitions, parameters.limit_bytes // _SHARE_OF_ROWS) as shuffle:
        loss = 0.0
        for batch in rows:
            shuffle.add(batch.partitions, batch.references, batch.columns)
            loss += batch.loss
        known = None if parameters.assigned is not None or math.isnan(loss) else loss
        ivf = IvfModel(models.ivf.centroids, models.ivf.metric, known)
        write_segment(shuffle, parameters, Models(ivf, models.quantizer), folder, on_nodes)


def merge(
    parts: Sequence[Part[Any]],
    rows: IndexRows | None,
    details: VectorDetails,
    folder: IndexFolderWriter,
) -> None:
    """Write the rows of segments and new rows as one segment, with the models of the last one.

    Args:
        parts: Segments, one or more, each a `VectorIndex`.
        rows: Rows to add; None for none.
        details: The details of the index.
        folder: The folder of the new segment.

    Raises:
        InvalidInputError: If a segment has other models, so that its codes mean something else.
    """
    last: VectorIndex = parts[-1].index
    for part in parts:
        if not np.array_equal(part.index.model.centroids, last.model.centroids):
            raise InvalidInputError(
                "segments with different centroids cannot be merged (IVF centroids mismatch across "
                "shards); build them with the same ivf_centroids, or retrain the index"
            )
    quantizer = common_quantizer([part.index.quantizer for part in parts])
    models = Models(last.model, quantizer)
    vectors = VectorType(last.model.centroids.dtype, last.model.dimension)
    if rows is not None:
        vectors = VectorType.of("", rows.type)
    parameters = VectorParameters.from_details(details, vectors)
    limit = parameters.limit_bytes // _SHARE_OF_ROWS
    with Shuffle(last.model.num_partitions, limit) as shuffle:
        stored = [part for part in parts if part.has_rows]
        losses = [part.index.model.loss for part in stored]
        for part in stored:
            for number in range(last.model.num_partitions):
                shuffle.add(*_stored_rows(part, number, quantizer))
        for batch in encoded(rows.batches, parameters, models) if rows is not None else ():
            shuffle.add(batch.partitions, batch.references, batch.columns)
            losses.append(batch.loss)
        known = [one for one in losses if one is not None]
        loss = sum(known) if len(known) == len(losses) else None
        ivf = IvfModel(last.model.centroids, last.model.metric, loss)
        on_nodes = None if rows is None else rows.on_nodes
        write_segment(shuffle, parameters, Models(ivf, quantizer), folder, on_nodes)


def _stored_rows(
    part: Part[Any], number: int, quantizer: Quantizer
) -> tuple[NDArray[np.uint32], Addresses, Columns]:
    """Return the rows of a partition that still exist, as a quantizer stores them."""
    index: VectorIndex = part.index
    references, columns = index.read(number)
    if part.moves is not None:
        references, is_there = part.moves(references)
        references = references[is_there]
        columns = {name: one[is_there] for name, one in columns.items()}
    partitions = np.full(len(references), number, np.uint32)
    if _bounds(index.quantizer) != _bounds(quantizer):
        vectors = index.quantizer.decoded(columns, partitions, index.model.centroids)
        columns = quantizer.encode(vectors, partitions, index.model.centroids)
    return partitions, references, columns


def _bounds(quantizer: Quantizer) -> tuple[float, float] | None:
    if isinstance(quantizer, ScalarQuantizer):
        return quantizer.start, quantizer.end
    return None


def common_quantizer(quantizers: Sequence[Quantizer]) -> Quantizer:
    """Return a quantizer for the rows of all segments.

    Raises:
        InvalidInputError: If their codes mean different things.
    """
    last = quantizers[-1]
    if isinstance(last, ScalarQuantizer):
        scalar = [one for one in quantizers if isinstance(one, ScalarQuantizer)]
        bounds = min(one.start for one in scalar), max(one.end for one in scalar)
        return ScalarQuantizer(last.dimension, last.metric, *bounds)
    if isinstance(last, ProductQuantizer):
        product = [one for one in quantizers if isinstance(one, ProductQuantizer)]
        if not all(np.array_equal(one.codewords, last.codewords) for one in product):
            raise InvalidInputError(
                "segments with different codebooks cannot be merged; build them with the same "
                "pq_codebook, or retrain the index"
            )
        return ProductQuantizer(last.codewords, last.metric)
    if isinstance(last, Rabitq):
        if not all(last.has_model_of(one) for one in quantizers):
            raise InvalidInputError(
                "segments with different rotations cannot be merged; build them with the same "
                "rabitq_model, or retrain the index"
            )
        return Rabitq(last.rotation, last.metric, last.bits, by_residuals=last.by_residuals)
    return last


def write_segment(
    shuffle: Shuffle,
    parameters: VectorParameters,
    models: Models,
    folder: IndexFolderWriter,
    on_nodes: Callable[[int], None] | None = None,
) -> None:
    """Write the files of a segment.

    Args:
        shuffle: Its rows, with the columns of the quantizer.
        parameters: Parameters of the index.
        models: Its models.
        folder: The folder of the segment.
        on_nodes: See `IndexRows`.
    """
    name, shape, quantizer = parameters.details().name, parameters.graph, models.quantizer
    schema = None if shape is None else GRAPH_SCHEMA
    with SegmentWriter(folder, name, models.ivf, quantizer, schema) as writer:
        for references, columns in shuffle.partitions():
            graph = None
            if shape is not None:
                graph = build_graph(quantizer, columns, len(references), shape, on_nodes)
            writer.write(references, columns, graph)


def train_models(rows: IndexRows, parameters: VectorParameters) -> Models | None:
    """Return the models of a new index; None if there are too few rows to train them.

    Args:
        rows: The rows, of which a sample is read.
        parameters: Parameters of the index; given models are not trained.
    """
    trained_words = 0
    if parameters.compression.kind == PQ and parameters.codebook is None:
        trained_words = 2**parameters.compression.num_bits
    count = 0 if parameters.centroids is not None else _num_partitions(rows, parameters)
    bounds_rows = 256 if parameters.compression.kind == SQ else 0
    wanted = max(count, trained_words, bounds_rows) * parameters.sample_rate
    sample = sample_for(rows, parameters, wanted)
    if not rows.num_rows or (wanted and not len(sample)) or len(sample) < trained_words:
        return None
    centroids = parameters.centroids
    if centroids is None:
        most = count * parameters.sample_rate
        centroids = train_centroids(
            _some(sample, most),
            min(count, len(sample)),
            parameters.metric,
            parameters.max_iterations,
            find=parameters.find,
        )
    elif parameters.assigned is not None:
        _require_partitions(parameters.assigned[1], len(centroids))
    ivf = IvfModel(centroids, parameters.metric)
    return Models(ivf, _quantizer(parameters, ivf, sample))


def _num_partitions(rows: IndexRows, parameters: VectorParameters) -> int:
    is_product = parameters.compression.kind == PQ
    most = rows.num_rows // parameters.sample_rate if is_product else _NO_LIMIT
    size = parameters.partition_size
    return partition_count(rows.num_rows, parameters.num_partitions, size, most)


def sample_for(rows: IndexRows, parameters: VectorParameters, wanted: int) -> Matrix:
    """Return random vectors of rows: so many, as far as the memory suffices."""
    vectors = parameters.vectors
    if not wanted or not rows.num_rows:
        return np.empty((0, vectors.dimension), vectors.dtype)
    row_bytes = vectors.dimension * vectors.dtype.itemsize
    most = max(1, parameters.limit_bytes // _SHARE_OF_SAMPLES // row_bytes)
    return sample_of(rows.sample, rows.num_rows, wanted, most, vectors, parameters.metric)


def _some(sample: Matrix, most: int) -> Matrix:
    """Return rows from everywhere in a sample, at most so many."""
    return sample[:: max(1, -(-len(sample) // most))]


def _quantizer(parameters: VectorParameters, ivf: IvfModel, sample: Matrix) -> Quantizer:
    dimension, metric = parameters.vectors.dimension, parameters.metric
    kind = parameters.compression.kind
    if kind == PQ:
        codebook = parameters.codebook
        if codebook is None:
            codebook = _codebook(parameters, ivf, sample)
        return ProductQuantizer(codebook, metric, is_transposed=not parameters.is_plain)
    if kind == RQ:
        if parameters.rotation is not None:
            return Rabitq.of_model(parameters.rotation, metric)
        return Rabitq.new(dimension, metric, parameters.compression.num_bits)
    if kind == SQ:
        start, end = train_bounds(sample)
        return ScalarQuantizer(dimension, metric, start, end)
    return FlatQuantizer(parameters.vectors.dtype, dimension, metric)


def _codebook(parameters: VectorParameters, ivf: IvfModel, sample: Matrix) -> Matrix:
    words, count = 2**parameters.compression.num_bits, parameters.compression.num_sub_vectors
    rows = _some(sample, words * parameters.sample_rate)
    if parameters.metric.has_residuals:
        rows = (rows - ivf.centroids[ivf.assign(rows)[0]]).astype(rows.dtype)
    bits, iterations = parameters.compression.num_bits, parameters.max_iterations
    return train_codebook(rows, count, bits, iterations, find=parameters.find)


def _require_partitions(partitions: NDArray[np.uint32], count: int) -> None:
    if len(partitions) and int(partitions.max()) >= count:
        raise InvalidInputError(
            f"precomputed_partition_dataset: partition {int(partitions.max())} of {count}"
        )


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of a batch, as an index stores them.

    Attributes:
        references: Row references, of shape (n,).
        partitions: The partition of each row, of shape (n,).
        columns: Plain rows of the quantizer.
        loss: Sum of the distances to the centroids; NaN if unknown.
    """

    references: Addresses
    partitions: NDArray[np.uint32]
    columns: dict[str, NDArray[Any]]
    loss: float


def encoded(
    batches: Iterable[pa.RecordBatch], parameters: VectorParameters, models: Models
) -> Iterator[Encoded]:
    """Encode rows in several threads.

    Args:
        batches: Batches of the columns `VALUE` and `REFERENCE`.
        parameters: Parameters of the index.
        models: Its models.

    Yields:
        The rows of the batches, in the same order, without those that no index contains.
    """
    running: deque[Future[Encoded]] = deque()
    try:
        for batch in batches:
            running.append(submit(partial(_encode, batch, parameters, models)))
            if len(running) > num_threads():
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for task in running:
            task.cancel()


def _encode(batch: pa.RecordBatch, parameters: VectorParameters, models: Models) -> Encoded:
    vectors, rows = indexed_vectors(batch.column(VALUE), parameters.vectors, parameters.metric)
    references = number_values(batch.column(REFERENCE))
    if rows is not None:
        references = references[rows]
    if parameters.assigned is not None:
        partitions, is_listed = _listed(references, *parameters.assigned)
        references, vectors = references[is_listed], vectors[is_listed]
        loss = 0.0
    else:
        partitions, distances = models.ivf.assign(vectors)
        loss = float(distances.sum(dtype=np.float64))
    columns = models.quantizer.encode(vectors, partitions, models.ivf.centroids)
    return Encoded(references, partitions, columns, loss)


def _listed(
    references: Addresses, ids: NDArray[np.uint64], partitions: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Return the given partitions of those rows that have one, and which rows these are."""
    if not len(ids):
        return np.empty(0, np.uint32), np.zeros(len(references), np.bool_)
    places = np.minimum(np.searchsorted(ids, references), len(ids) - 1)
    is_listed = np.asarray(ids[places] == references)
    return partitions[places[is_listed]], is_listed
