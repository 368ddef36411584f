"""The messages of vector indices: in the manifest, and in global buffers of their files.

    manifest        VectorIndexDetails    metric, graph, compression, hints
    index.idx       Ivf                   centroids, rows of each partition's graph, loss
    auxiliary.idx   Ivf                   rows of each partition
                    Tensor                codebook, rotation

    10 f813 = 2552:  1a 08 f813 fb14 c912 d412    the lengths 2552, 2683, 2377, 2388 of an Ivf

Source: docs/format/vector-indices.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2 as pb
from pilum.index.vector.metrics import Metric

__all__ = [
    "FLAT",
    "PQ",
    "RQ",
    "SQ",
    "TYPE_URL",
    "Compression",
    "GraphParameters",
    "IvfMessage",
    "VectorDetails",
    "pack_tensor",
    "tensor_of",
    "unpack_tensor",
]

TYPE_URL = "/lance.index.pb.VectorIndexDetails"

FLAT, PQ, SQ, RQ = "FLAT", "PQ", "SQ", "RQ"
"""The ways to store vectors, as names of index types and statistics have them."""

_DTYPES: dict[int, np.dtype[Any]] = {
    pb.Tensor.FLOAT16: np.dtype("<f2"),
    pb.Tensor.FLOAT32: np.dtype("<f4"),
    pb.Tensor.FLOAT64: np.dtype("<f8"),
    pb.Tensor.UINT8: np.dtype("u1"),
    pb.Tensor.UINT16: np.dtype("<u2"),
    pb.Tensor.UINT32: np.dtype("<u4"),
    pb.Tensor.UINT64: np.dtype("<u8"),
}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


def tensor_of(array: NDArray[Any]) -> pb.Tensor:
    """Return an array as a message."""
    number = _NUMBERS[array.dtype.newbyteorder("<") if array.itemsize > 1 else array.dtype]
    kind: pb.Tensor.DataType = number  # type: ignore[assignment]
    return pb.Tensor(data_type=kind, shape=array.shape, data=array.tobytes())


def pack_tensor(array: NDArray[Any]) -> bytes:
    """Return an array as a serialized message."""
    data: bytes = tensor_of(array).SerializeToString()
    return data


def unpack_tensor(data: bytes | pb.Tensor, path: str, what: str) -> NDArray[Any]:
    """Return the array of a message.

    Args:
        data: The message, or its bytes.
        path: Path of the file, for errors.
        what: Name of the array, for errors.

    Raises:
        CorruptFileError: If its bytes do not fit its shape.
        UnsupportedFeatureError: If the type of the elements is unknown.
    """
    message = parse_message(pb.Tensor, data, path, what=what) if isinstance(data, bytes) else data
    dtype = _DTYPES.get(message.data_type)
    if dtype is None:
        raise UnsupportedFeatureError(f"{what} of element type {message.data_type}\n  {path}")
    shape = tuple(message.shape)
    if prod(shape) * dtype.itemsize != len(message.data) or not shape:
        raise CorruptFileError(
            f"{what}: {len(message.data)} bytes for {dtype} of shape {shape}", path
        )
    found: NDArray[Any] = np.frombuffer(message.data, dtype)
    return found.reshape(shape)


@dataclass(frozen=True)
class IvfMessage:
    """The partitions of one file.

    Attributes:
        offsets: The first row of each, int64, shape (P,); bytes in legacy files.
        lengths: The number of rows of each, int64, shape (P,).
        centroids: Shape (P, D); None if the file has none.
        loss: The sum of all distances between a vector and its centroid; None if unknown.
    """

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    centroids: NDArray[Any] | None = None
    loss: float | None = None

    @classmethod
    def of_lengths(
        cls,
        lengths: NDArray[np.int64],
        centroids: NDArray[Any] | None = None,
        loss: float | None = None,
    ) -> IvfMessage:
        """Describe partitions that lie one after the other."""
        return cls(np.cumsum(lengths) - lengths, lengths, centroids, loss)

    @classmethod
    def parse(cls, data: bytes | pb.Ivf, path: str, dimension: int | None = None) -> IvfMessage:
        """Parse a message.

        Args:
            data: The message, or its bytes.
            path: Path of the file, for errors.
            dimension: Dimension of the vectors, which old files need.

        Raises:
            CorruptFileError: If it does not parse, or its parts do not fit.
        """
        what = "partitions"
        message = parse_message(pb.Ivf, data, path, what=what) if isinstance(data, bytes) else data
        offsets = np.array(message.offsets, np.uint64)
        lengths = np.array(message.lengths, np.int64)
        if len(offsets) != len(lengths):
            raise CorruptFileError(f"{len(offsets)} offsets, {len(lengths)} lengths", path)
        if len(offsets) and int(offsets.max()) >= 1 << 62:
            raise CorruptFileError(f"a partition at {int(offsets.max())}", path)
        centroids = _centroids(message, path, dimension)
        if centroids is not None and len(centroids) != len(lengths):
            raise CorruptFileError(f"{len(centroids)} centroids, {len(lengths)} partitions", path)
        loss = message.loss if message.HasField("loss") else None
        return cls(offsets.astype(np.int64), lengths, centroids, loss)

    def pack(self) -> bytes:
        """Return the serialized message."""
        message = pb.Ivf(offsets=self.offsets.tolist(), lengths=self.lengths.tolist())
        if self.centroids is not None:
            message.centroids_tensor.CopyFrom(tensor_of(self.centroids))
        if self.loss is not None:
            message.loss = self.loss
        data: bytes = message.SerializeToString()
        return data


def _centroids(message: pb.Ivf, path: str, dimension: int | None) -> NDArray[Any] | None:
    if message.HasField("centroids_tensor"):
        found = unpack_tensor(message.centroids_tensor, path, "centroids")
        if found.ndim != 2 or found.shape[1] == 0:
            raise CorruptFileError(f"centroids of shape {found.shape}", path)
        return found
    if not message.centroids:
        return None
    flat = np.array(message.centroids, np.float32)
    if not dimension or len(flat) % dimension:
        raise CorruptFileError(f"{len(flat)} numbers for centroids of {dimension}", path)
    return flat.reshape(-1, dimension)


@dataclass(frozen=True)
class GraphParameters:
    """The parameters of a graph (HNSW).

    Attributes:
        max_connections: Edges of a node on the upper levels; twice as many on the lowest.
        construction_ef: Candidates that are kept when a node is inserted.
        max_level: Maximum number of levels.
    """

    max_connections: int = 20
    construction_ef: int = 150
    max_level: int = 7


@dataclass(frozen=True)
class Compression:
    """The way in which an index stores vectors.

    Attributes:
        kind: `FLAT`, `PQ`, `SQ` or `RQ`.
        num_bits: Bits of a code: per sub-vector (PQ), or per element (SQ, RQ); 0 for FLAT.
        num_sub_vectors: Number of sub-vectors (PQ); 0 for others.
        has_matrix: Whether vectors are rotated by a matrix (RQ) instead of fast rotations.
    """

    kind: str
    num_bits: int = 0
    num_sub_vectors: int = 0
    has_matrix: bool = False

    def described(self) -> dict[str, Any]:
        """Return the parameters by the names of the reference."""
        found: dict[str, Any] = {"type": self.kind.lower(), "num_bits": self.num_bits}
        if self.kind == PQ:
            found["num_sub_vectors"] = self.num_sub_vectors
        if self.kind == RQ:
            found["rotation_type"] = "matrix" if self.has_matrix else "fast"
        return found


@dataclass(frozen=True)
class VectorDetails:
    """The details of a vector index in the manifest.

    Attributes:
        metric: Its metric.
        compression: How vectors are stored.
        graph: The parameters of its graphs; None if it has none.
        target_partition_size: Rows of a partition, if given; 0 if not.
        hints: Preferences for builds, by name; unknown ones are kept.
        target_num_partitions: Number of partitions, if given; None if not.
    """

    metric: Metric
    compression: Compression
    graph: GraphParameters | None = None
    target_partition_size: int = 0
    hints: Mapping[str, str] = field(default_factory=dict)
    target_num_partitions: int | None = None

    @property
    def name(self) -> str:
        """The name of the index type in the API."""
        return f"IVF_{'HNSW_' if self.graph else ''}{self.compression.kind}"

    @classmethod
    def parse(cls, data: bytes, path: str = "") -> VectorDetails:
        """Parse the message of a manifest.

        Raises:
            CorruptFileError: If it does not parse.
        """
        message = parse_message(pb.VectorIndexDetails, data, path, what="details of a vector index")
        graph = None
        if message.HasField("hnsw"):
            hnsw = message.hnsw
            graph = GraphParameters(hnsw.max_connections, hnsw.construction_ef, hnsw.max_level)
        has_count = message.HasField("target_num_partitions")
        return cls(
            Metric.numbered(message.metric, path),
            _compression(message),
            graph,
            message.target_partition_size,
            dict(message.runtime_hints),
            message.target_num_partitions if has_count else None,
        )

    def pack(self) -> bytes:
        """Return the serialized message."""
        one, graph = self.compression, self.graph
        message = pb.VectorIndexDetails(
            metric=self.metric.number,  # type: ignore[arg-type]
            target_partition_size=self.target_partition_size,
            runtime_hints=self.hints,
            target_num_partitions=self.target_num_partitions,
        )
        if graph is not None:
            message.hnsw.max_connections = graph.max_connections
            message.hnsw.construction_ef = graph.construction_ef
            message.hnsw.max_level = graph.max_level
        if one.kind == PQ:
            message.pq.num_bits, message.pq.num_sub_vectors = one.num_bits, one.num_sub_vectors
        elif one.kind == SQ:
            message.sq.num_bits = one.num_bits
        elif one.kind == RQ:
            message.rq.num_bits = one.num_bits
            message.rq.rotation = message.rq.MATRIX if one.has_matrix else message.rq.FAST
        else:
            message.flat.SetInParent()
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    def described(self) -> dict[str, Any]:
        """Return the parameters by the names of the reference."""
        found: dict[str, Any] = {"metric_type": self.metric.name}
        if self.target_partition_size:
            found["target_partition_size"] = self.target_partition_size
        if self.graph is not None:
            found["hnsw"] = {
                "max_connections": self.graph.max_connections,
                "construction_ef": self.graph.construction_ef,
                "max_level": self.graph.max_level,
            }
        if self.compression.kind != FLAT:
            found["compression"] = self.compression.described()
        if self.hints:
            found["runtime_hints"] = dict(self.hints)
        return found


def _compression(message: pb.VectorIndexDetails) -> Compression:
    match message.WhichOneof("compression"):
        case "pq":
            return Compression(PQ, message.pq.num_bits, message.pq.num_sub_vectors)
        case "sq":
            return Compression(SQ, message.sq.num_bits)
        case "rq":
            has_matrix = message.rq.rotation == message.rq.MATRIX
            return Compression(RQ, message.rq.num_bits, has_matrix=has_matrix)
    return Compression(FLAT)
