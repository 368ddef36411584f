"""The types of vector indices: how partitions are searched, and how vectors are stored.

    IVF_FLAT         all rows of a partition      vectors as they are
    IVF_PQ           all rows                     codes of sub-vectors
    IVF_SQ           all rows                     one byte per element
    IVF_RQ           all rows                     rotated, 1 to 9 bits per element
    IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ       a graph per partition

All have the same details. Old segments, whose details are empty, are recognised by their files.

Source: docs/format/vector-indices.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.index.answers import Answer
from pilum.index.base import Index, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import Query
from pilum.index.vector.balancing import balanced_centroids, has_outgrown
from pilum.index.vector.building import (
    Models,
    build,
    common_quantizer,
    encoded,
    merge,
    train_models,
    write_encoded,
)
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.messages import FLAT, PQ, RQ, SQ, TYPE_URL, Compression, VectorDetails
from pilum.index.vector.opening import open_vector_index
from pilum.index.vector.parameters import VectorParameters
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.rabitq import Rabitq
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.segment_files import INDEX_FILE
from pilum.index.vector.vectors import VectorType

__all__ = ["VECTOR_TYPES", "Definition", "VectorIndexType", "details_of", "vector_type_of"]

_LAST_VERSION = 2


class Definition(Index):
    """A segment without files: a table had too few rows to build the index.

    Args:
        details: The details in the manifest.

    Attributes:
        details: See above.
    """

    def __init__(self, details: bytes) -> None:
        self.details = details

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return len(self.details)

    def search(self, query: Query) -> Answer | None:
        """Return None: it has no rows."""
        del query
        return None

    def estimate(self, query: Query) -> int | None:
        """Return None: it has no rows."""
        del query
        return None

    def statistics(self) -> dict[str, Any]:
        """Return no figures."""
        return {}

    def prewarm(self) -> None:
        """Load nothing."""


class VectorIndexType(IndexType[Index]):
    """A type of vector index."""

    type_url = TYPE_URL
    references = References.ROW_IDS
    files = ("index.idx",)
    has_partitions = True

    def __init__(self, quantizer: str, *, has_graph: bool = False) -> None:
        """Define a type.

        Args:
            quantizer: `FLAT`, `PQ`, `SQ` or `RQ`.
            has_graph: Whether partitions are searched by a graph.
        """
        self.name = f"IVF_{'HNSW_' if has_graph else ''}{quantizer}"  # type: ignore[misc]
        self._quantizer = quantizer
        self._has_graph = has_graph

    def index_version(self, *, has_stable_row_ids: bool, details: bytes = b"") -> int:
        """Return the version of the index format."""
        del has_stable_row_ids, details
        return 2 if self._quantizer == RQ else 1

    def references_of(self, index_version: int) -> References | None:
        """Return what identifies a row in segments of a version; None if it is not supported."""
        return References.ROW_IDS if index_version <= _LAST_VERSION else None

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        vectors = VectorType.of(column, type)
        if vectors.dtype == np.int8 or (vectors.is_binary and self._quantizer != FLAT):
            fitting = "float16, float32 and float64"
            if self._quantizer == FLAT:
                fitting += ", or uint8 with metric='hamming'"
            raise UnsupportedTypeError(
                f"{self.name} index column {column!r} has vectors of {vectors.dtype}; there are "
                f"indices of vectors of {fitting}"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> VectorParameters:
        """Check the keywords of `create_index`."""
        return VectorParameters.from_keywords(self._quantizer, self._has_graph, given, type)

    def described(self, details: bytes) -> dict[str, Any]:
        """Return the parameters in the details, by the names of the reference."""
        return VectorDetails.parse(details).described() if details else {}

    def shared_models(self, rows: IndexRows, parameters: VectorParameters) -> dict[str, Any]:
        """Train the centroids and the codebook; none with given centroids or too few rows."""
        models = None if parameters.centroids is not None else train_models(rows, parameters)
        if models is None:
            return {}
        centroids = models.ivf.centroids
        shared = {"num_partitions": len(centroids), "ivf_centroids": centroids}
        if isinstance(models.quantizer, ProductQuantizer):
            shared["pq_codebook"] = models.quantizer.codewords
        return shared

    def train(
        self, rows: IndexRows, parameters: VectorParameters, folder: IndexFolderWriter
    ) -> bytes:
        """Train models, and write the rows by them; write no files if there are too few rows."""
        build(rows, parameters, folder)
        return parameters.details().pack()

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> Index:
        """Open a segment: read its centroids and its quantizer."""
        del index_version
        if not folder.has(INDEX_FILE):
            return Definition(details)
        found = open_vector_index(folder)
        found.details = details
        return found

    def merge(
        self, parts: Sequence[Part[Index]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Merge segments and new rows by the models of the last segment.

        A definition is built with the new rows, if there are enough by now.

        Raises:
            InvalidInputError: If the models of the segments differ.
        """
        last = parts[-1].index
        if isinstance(last, Definition):
            return self.retrain(parts, rows, folder)
        details = _details(last)
        stored = [
            Part(one.index, one.moves, one.has_rows)
            for one in parts
            if isinstance(one.index, VectorIndex)
        ]
        merge(stored, rows, details, folder)
        return details.pack()

    def retrain(
        self, parts: Sequence[Part[Index]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Train models on rows, and write the rows by them; no files if there are too few rows."""
        details = _details(parts[-1].index)
        if rows is not None:
            vectors = VectorType.of("", rows.type)
            build(rows, VectorParameters.from_details(details, vectors), folder)
        return details.pack()

    def has_outgrown(self, segments: Sequence[Index], num_new_rows: int) -> bool:
        """Return whether a partition will have far more rows than it should have."""
        stored = [one for one in segments if isinstance(one, VectorIndex)]
        if len(stored) < len(segments):
            return False
        model = stored[-1].model
        vectors = VectorType(model.centroids.dtype, model.dimension)
        parameters = VectorParameters.from_details(_details(stored[-1]), vectors)
        return has_outgrown(stored, num_new_rows, parameters.partition_size)

    def balance(
        self, parts: Sequence[Part[Index]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Split and dissolve partitions, and write rows by the quantizer of the segments."""
        last = parts[-1].index
        details = _details(last)
        if rows is not None:
            assert isinstance(last, VectorIndex)
            vectors = VectorType.of("", rows.type)
            parameters = VectorParameters.from_details(details, vectors)
            centroids = balanced_centroids(last, rows, parameters)
            ivf = IvfModel(centroids, last.model.metric)
            models = Models(ivf, common_quantizer([last.quantizer]))
            found = encoded(rows.batches, parameters, models)
            write_encoded(found, parameters, models, folder, rows.on_nodes)
        return details.pack()


VECTOR_TYPES = (
    VectorIndexType(FLAT),
    VectorIndexType(PQ),
    VectorIndexType(SQ),
    VectorIndexType(RQ),
    VectorIndexType(FLAT, has_graph=True),
    VectorIndexType(PQ, has_graph=True),
    VectorIndexType(SQ, has_graph=True),
)

_BY_NAME = {one.name: one for one in VECTOR_TYPES}


def vector_type_of(details: bytes) -> VectorIndexType:
    """Return the type with some details; if they are empty, one that reads what the files say."""
    return _BY_NAME[VectorDetails.parse(details).name] if details else VECTOR_TYPES[0]


def details_of(folder: IndexFolder) -> bytes:
    """Return the details of a segment by its files alone.

    Raises:
        NotFoundError: If a file does not exist.
        CorruptFileError: If a file is damaged.
    """
    return _details(open_vector_index(folder)).pack()


def _details(index: Index) -> VectorDetails:
    """Return the details of a segment; what its files say, if the manifest has none."""
    assert isinstance(index, Definition | VectorIndex)
    if index.details:
        return VectorDetails.parse(index.details)
    if isinstance(index, Definition):
        raise CorruptFileError("a vector index without details and without files")
    quantizer = index.quantizer
    compression = Compression(quantizer.name)
    if isinstance(quantizer, ProductQuantizer):
        compression = Compression(PQ, quantizer.num_bits, quantizer.num_sub_vectors)
    elif isinstance(quantizer, Rabitq):
        compression = Compression(RQ, quantizer.bits)
    elif quantizer.name == SQ:
        compression = Compression(SQ, 8)
    graph = None if index.graphs is None else index.graphs.parameters()
    return VectorDetails(index.model.metric, compression, graph)
