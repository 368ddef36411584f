"""The graph of a partition (HNSW), as index.idx has it.

    __vector_id   u32         level 0: 0 to n - 1; then the nodes of level 1, 2, …, ascending
    __neighbors   list<u32>   the linked nodes of this level
    _distance     list<f32>   and how far they are, by the distance of the stored codes

    {"entry_point":364,"params":{"max_level":7,"m":20,"ef_construction":150,
     "prefetch_distance":2},"level_offsets":[0,2390,2520,2525,2525,2525,2525,2525]}

A node is a row of the partition in auxiliary.idx. Releases until 2025 counted one row too few for
each upper level, so the ends of levels are found by the ids, and their lists may have nodes that do
not exist, which are left out. Source: docs/format/vector-indices.md, "Graphs".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_array, number_values
from pilum.errors import CorruptFileError
from pilum.index.vector.flat import COLUMN as FLAT_COLUMN
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.messages import GraphParameters
from pilum.index.vector.metrics import Metric
from pilum.index.vector.product import COLUMN as PRODUCT_COLUMN
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.quantizer import Columns, Quantizer
from pilum.index.vector.scalar_codes import COLUMN as SCALAR_COLUMN
from pilum.index.vector.scalar_codes import ScalarQuantizer
from pilum.index.vector.segment_files import GraphRows
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.kernels import HnswBuilder, HnswGraph, HnswVectors
from pilum.parallel import num_threads

__all__ = ["GRAPH_SCHEMA", "build_graph", "read_graph", "vectors_of"]

_ID, _LINKED, _AWAY = "__vector_id", "__neighbors", "_distance"

GRAPH_SCHEMA = pa.schema(
    [
        pa.field(_ID, pa.uint32()),
        pa.field(_LINKED, pa.list_(pa.uint32())),
        pa.field(_AWAY, pa.list_(pa.float32())),
    ]
)
"""The columns of index.idx with graphs."""

_AT_ONCE = 4096
"""So many rows are inserted by one call; between calls, a build can be stopped."""


def vectors_of(quantizer: Quantizer, columns: Columns) -> HnswVectors:
    """Return the codes of a partition in the form that graphs compare.

    Args:
        quantizer: FLAT, PQ or SQ.
        columns: Plain rows.
    """
    if isinstance(quantizer, FlatQuantizer):
        rows = columns[FLAT_COLUMN]
        if quantizer.metric is Metric.HAMMING:
            return HnswVectors.bits(np.ascontiguousarray(rows))
        is_dot = quantizer.metric in (Metric.DOT, Metric.COSINE)  # of length 1 for cosine
        with np.errstate(over="ignore"):  # values of float64 become infinite
            return HnswVectors.floats(np.ascontiguousarray(rows, np.float32), is_dot)
    if isinstance(quantizer, ScalarQuantizer):
        codes = np.ascontiguousarray(columns[SCALAR_COLUMN])
        is_dot = quantizer.code_metric == "dot"
        return HnswVectors.scalar_codes(codes, quantizer.start, quantizer.end, is_dot)
    assert isinstance(quantizer, ProductQuantizer)
    codes = columns[PRODUCT_COLUMN]
    if quantizer.num_bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    codewords = np.ascontiguousarray(quantizer.codewords, np.float32)
    is_dot = quantizer.code_metric == "dot"
    return HnswVectors.product_codes(np.ascontiguousarray(codes), codewords, is_dot)


def build_graph(
    quantizer: Quantizer,
    columns: Columns,
    num_rows: int,
    parameters: GraphParameters,
    progress: Callable[[int], None] | None = None,
) -> GraphRows | None:
    """Build the graph of a partition with all processors.

    Args:
        quantizer: FLAT, PQ or SQ.
        columns: Plain rows.
        num_rows: Their number.
        parameters: The shape of the graph.
        progress: Called with the number of rows inserted since the last call.

    Returns:
        The graph; None for a partition without rows.
    """
    if not num_rows:
        return None
    vectors = vectors_of(quantizer, columns)
    m, ef = parameters.max_connections, parameters.construction_ef
    builder = HnswBuilder(num_rows, m, ef, parameters.max_level)
    inserted = 0
    while inserted < num_rows:
        before, inserted = inserted, builder.insert(vectors, _AT_ONCE, num_threads())
        if progress is not None:
            progress(inserted - before)
    ids, offsets, linked, away, bounds, entry_point = builder.finish(vectors)
    levels = bounds.tolist()
    levels += levels[-1:] * (parameters.max_level + 1 - len(levels))
    about = {
        "entry_point": entry_point,
        "params": {
            "max_level": parameters.max_level,
            "m": m,
            "ef_construction": ef,
            "prefetch_distance": 2,
        },
        "level_offsets": levels,
    }
    columns_of_rows = [
        number_array(ids),
        pa.ListArray.from_arrays(number_array(offsets), number_array(linked)),
        pa.ListArray.from_arrays(number_array(offsets), number_array(away)),
    ]
    rows = pa.RecordBatch.from_arrays(columns_of_rows, schema=GRAPH_SCHEMA)
    return GraphRows(rows, json.dumps(about, separators=(",", ":")))


def read_graph(ids: pa.Array, linked: pa.Array, about: str, num_nodes: int, path: str) -> HnswGraph:
    """Read the graph of a partition that is not empty.

    Args:
        ids: The column `__vector_id` of its rows.
        linked: The column `__neighbors`.
        about: The JSON about it.
        num_nodes: Number of rows of the partition.
        path: Path of the file, for errors.

    Raises:
        CorruptFileError: If it is damaged.
    """
    parameters = StoredParameters(about, path)
    entry_point = parameters.integer("entry_point", 0, max(num_nodes - 1, 0))
    levels = parameters.numbers("level_offsets", len(ids))
    node_ids = _integers(ids, pa.uint32(), _ID, path)
    if not pa.types.is_list(linked.type) or linked.null_count:
        raise CorruptFileError(f"column {_LINKED!r}: {linked.type}, or nulls", path)
    nodes = _integers(linked.values, pa.uint32(), _LINKED, path)
    offsets = _integers(linked.offsets, pa.int32(), _LINKED, path)
    is_old = levels[-1:] != [len(ids)]
    try:
        return HnswGraph(node_ids, offsets, nodes, num_nodes, entry_point, is_old)
    except CorruptFileError as error:
        raise CorruptFileError(str(error), path) from error


def _integers(array: pa.Array, type: pa.DataType, name: str, path: str) -> NDArray[Any]:
    if array.type != type or array.null_count:
        raise CorruptFileError(
            f"column {name!r}: {array.type} with {array.null_count} nulls, not {type}", path
        )
    return number_values(array)
