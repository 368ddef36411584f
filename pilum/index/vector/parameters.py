"""The parameters of a vector index: what it stores, and how it is trained.

    create_index("v", "IVF_HNSW_PQ", metric="cosine", num_sub_vectors=16, m=20, …)

    manifest    VectorIndexDetails    metric, compression, graph, target size of partitions
                hints                 lance.ivf.max_iters = "50", …: how it was trained
    not stored                        number of partitions, given models, memory limit

Source: docs/format/vector-indices.md.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.arguments import optional_count, require_count
from pilum.errors import InvalidInputError, UnsupportedFeatureError, UnsupportedTypeError
from pilum.index.vector.kmeans import Nearest
from pilum.index.vector.messages import (
    FLAT,
    PQ,
    RQ,
    SQ,
    Compression,
    GraphParameters,
    VectorDetails,
)
from pilum.index.vector.metrics import Metric
from pilum.index.vector.partitions import default_partition_size
from pilum.index.vector.vectors import Matrix, VectorType, matrix

__all__ = ["DEFAULT_MEMORY_LIMIT_MIB", "VectorParameters", "given_centroids", "given_codebook"]

DEFAULT_MEMORY_LIMIT_MIB = 1024

_DEFAULT_RQ_BITS = 5
_SQ_BITS = 8
_PQ_BITS = (4, 8)
_MOST_RQ_BITS = 9
_MOST_LEVELS = 2**16 - 1
_FEWEST_CONNECTIONS = 4
_FLOATS = (np.float16, np.float32, np.float64)
_MAX_ITERATIONS, _SAMPLE_RATE, _TRANSPOSED = "max_iters", "sample_rate", "lance.skip_transpose"
_BATCHES, _CONCURRENCY = "shuffle_partition_batches", "shuffle_partition_concurrency"


@dataclass(frozen=True, eq=False)
class VectorParameters:
    """The parameters of a vector index.

    Attributes:
        vectors: Type of the column.
        metric: Its metric.
        compression: How vectors are stored.
        graph: Parameters of graphs; None without graphs.
        num_partitions: Number of partitions; None for the default.
        target_partition_size: Rows that a partition should have; None for the default.
        sample_rate: Rows of the sample for each centroid.
        max_iterations: Most updates of centroids in a training.
        centroids: Given centroids of partitions, in the element type of the column, of shape
            (P, D); None to train them.
        codebook: Given codebook, in the element type of the column, of shape
            (m, 2**num_bits, D / m); None to train it.
        rotation: Given model of rotated codes (RQ), a JSON object as text; None to draw one.
        find: Finds the nearest centroids in trainings; None for the processors.
        assigned: Given partitions: row references, sorted, as uint64, and the partition of each as
            uint32; rows that are not listed are left out. None to find them.
        filter_nan: Whether rows that no index contains are searched for and left out.
        is_plain: Whether codes are stored as plain rows: neither transposed nor packed.
        is_legacy: Whether to write the legacy layout.
        memory_limit_mib: Memory of a build in MiB, for samples and rows. Graphs come on top.
        hints: Further entries of the details.
    """

    vectors: VectorType
    metric: Metric
    compression: Compression
    graph: GraphParameters | None = None
    num_partitions: int | None = None
    target_partition_size: int | None = None
    sample_rate: int = 256
    max_iterations: int = 50
    centroids: Matrix | None = None
    codebook: Matrix | None = None
    rotation: str | None = None
    find: Nearest | None = None
    assigned: tuple[Any, Any] | None = None
    filter_nan: bool = True
    is_plain: bool = False
    is_legacy: bool = False
    memory_limit_mib: int = DEFAULT_MEMORY_LIMIT_MIB
    hints: Mapping[str, str] | None = None

    @classmethod
    def from_keywords(
        cls, kind: str, has_graph: bool, given: Mapping[str, Any], type: pa.DataType
    ) -> Self:
        """Check the keywords of `create_index`; unknown ones are ignored, as by the reference.

        Args:
            kind: `FLAT`, `PQ`, `SQ` or `RQ`.
            has_graph: Whether partitions have graphs.
            given: The keywords.
            type: Type of the column.

        Raises:
            InvalidInputError: If a value is invalid, or values contradict each other.
            UnsupportedFeatureError: If the reference has a value that this library does not write.
        """
        vectors = VectorType.of("", type)
        metric = Metric.named(given.get("metric") or "l2")
        _require_fitting(kind, vectors, metric)
        compression = _compression(kind, given, vectors)
        count = _num_partitions(given.get("num_partitions"))
        centroids = given.get("ivf_centroids")
        if centroids is not None:
            centroids = given_centroids(centroids, vectors)
            if count not in (None, len(centroids)):
                raise InvalidInputError(
                    f"Ivf centroids has {len(centroids)} clusters, but num_partitions={count}"
                )
        codebook = given.get("pq_codebook") if kind == PQ else None
        if codebook is not None:
            if centroids is None:
                raise InvalidInputError(
                    "ivf_centroids must be specified when pq_codebook is provided"
                )
            codebook = given_codebook(codebook, compression, vectors)
        rotation = given.get("rabitq_model") if kind == RQ else None
        batches = optional_count(_BATCHES, given.get(_BATCHES), 1)
        workers = optional_count(_CONCURRENCY, given.get(_CONCURRENCY), 1)
        limit = optional_count("memory_limit", given.get("memory_limit"), 1)
        return cls(
            vectors=vectors,
            metric=metric,
            compression=compression,
            graph=_graph(given) if has_graph else None,
            num_partitions=count,
            target_partition_size=optional_count(
                "target_partition_size", given.get("target_partition_size"), 1
            ),
            sample_rate=require_count("sample_rate", given.get(_SAMPLE_RATE, 256), 1),
            max_iterations=require_count("max_iters", given.get(_MAX_ITERATIONS, 50), 1),
            centroids=centroids,
            codebook=codebook,
            rotation=None if rotation is None else _rotation(rotation),
            find=given.get("find"),
            assigned=given.get("precomputed_partitions"),
            filter_nan=bool(given.get("filter_nan", True)),
            is_plain=bool(given.get("skip_transpose", False))
            or (bool(given.get("is_shard", False)) and (kind == PQ or rotation is not None)),
            is_legacy=_is_legacy(given.get("index_file_version"), compression, has_graph),
            memory_limit_mib=limit or DEFAULT_MEMORY_LIMIT_MIB,
            hints={
                "lance.ivf.shuffle_partition_batches": str(batches or 10240),
                "lance.ivf.shuffle_partition_concurrency": str(workers or 2),
                _TRANSPOSED: str(bool(given.get("skip_transpose", False))).lower(),
            },
        )

    @classmethod
    def from_details(cls, details: VectorDetails, vectors: VectorType) -> Self:
        """Return the parameters that a manifest stores, for an index that is trained again."""
        hints = details.hints
        return cls(
            vectors=vectors,
            metric=details.metric,
            compression=details.compression,
            graph=details.graph,
            num_partitions=details.target_num_partitions,
            target_partition_size=details.target_partition_size or None,
            sample_rate=_hint(hints, "lance.ivf.sample_rate", 256),
            max_iterations=_hint(hints, "lance.ivf.max_iters", 50),
            is_plain=hints.get(_TRANSPOSED) == "true",
            hints=hints,
        )

    @property
    def partition_size(self) -> int:
        """Rows that a partition should have."""
        default = default_partition_size(self.compression.kind, has_graph=self.graph is not None)
        return self.target_partition_size or default

    @property
    def limit_bytes(self) -> int:
        """Memory of a build in bytes."""
        return self.memory_limit_mib << 20

    def details(self) -> VectorDetails:
        """Return what the manifest stores."""
        hints = {
            "lance.ivf.max_iters": str(self.max_iterations),
            "lance.ivf.sample_rate": str(self.sample_rate),
        }
        if self.compression.kind == PQ:
            hints["lance.pq.max_iters"] = str(self.max_iterations)
            hints["lance.pq.sample_rate"] = str(self.sample_rate)
            hints["lance.pq.kmeans_redos"] = "1"
        elif self.compression.kind == SQ:
            hints["lance.sq.sample_rate"] = str(self.sample_rate)
        if self.graph is not None:
            hints["lance.hnsw.prefetch_distance"] = "2"
        return VectorDetails(
            self.metric,
            self.compression,
            self.graph,
            self.target_partition_size or 0,
            {**hints, **(self.hints or {})},
        )

    def with_plain_rows(self) -> Self:
        """Return the parameters for a shard, whose codes are plain rows."""
        return replace(self, is_plain=True)


def given_centroids(centroids: Any, vectors: VectorType) -> Matrix:
    """Return centroids that a caller gave, in the element type of a column.

    Args:
        centroids: Anything that is an array of numbers of shape (P, D), or fixed-size lists.
        vectors: Type of the column.

    Raises:
        InvalidInputError: If there are none, their dimension differs, or one is not finite.
    """
    found = _matrix("ivf_centroids", centroids)
    if found.ndim != 2:
        raise InvalidInputError(
            f"Ivf centroids must be 2D array: (clusters, dim), got {found.shape}"
        )
    if len(found) == 0:
        raise InvalidInputError(f"Ivf centroids must have at least one cluster, got {found.shape}")
    if found.shape[1] != vectors.dimension:
        raise InvalidInputError(
            f"ivf_centroids: vectors of {found.shape[1]} elements; those of the column have "
            f"{vectors.dimension}"
        )
    return _elements("ivf_centroids", found, vectors)


def given_codebook(codebook: Any, compression: Compression, vectors: VectorType) -> Matrix:
    """Return a codebook that a caller gave, in the element type of a column.

    Args:
        codebook: An array of shape (m, 2**num_bits, D / m), or fixed-size lists with the same
            elements in this order.
        compression: How vectors are stored.
        vectors: Type of the column.

    Raises:
        InvalidInputError: If the shape differs, or an element is not finite.
    """
    num_words, count = 2**compression.num_bits, compression.num_sub_vectors
    shape = (count, num_words, vectors.dimension // count)
    is_listed = isinstance(codebook, (pa.Array, pa.ChunkedArray))
    found = _matrix("pq_codebook", codebook)
    if found.size != np.prod(shape) or (not is_listed and found.shape != shape):
        raise InvalidInputError(
            f"PQ codebook must be 3D array: (sub_vectors, {num_words}, dim), here {shape}, for "
            f"num_bits={compression.num_bits}, got {found.shape}"
        )
    return _elements("pq_codebook", found.reshape(shape), vectors)


def _require_fitting(kind: str, vectors: VectorType, metric: Metric) -> None:
    if vectors.is_multi and metric is not Metric.COSINE:
        raise InvalidInputError(
            "indices of lists of vectors have metric='cosine': multivector type supports only "
            f"cosine distance, got {metric.value}"
        )
    if vectors.is_binary != (metric is Metric.HAMMING):
        fitting = "hamming" if vectors.is_binary else "l2, cosine and dot"
        raise InvalidInputError(
            f"metric {metric.value!r} for vectors of {vectors.dtype}; there are {fitting}"
        )
    if vectors.is_binary and kind != FLAT:
        raise UnsupportedTypeError(
            f"vectors of {vectors.dtype} have indices of the types IVF_FLAT and IVF_HNSW_FLAT; "
            f"{kind} is for float16, float32 and float64"
        )


def _compression(kind: str, given: Mapping[str, Any], vectors: VectorType) -> Compression:
    dimension = vectors.dimension
    count = optional_count("num_sub_vectors", given.get("num_sub_vectors"), 1)
    if count is not None and dimension % count:
        raise InvalidInputError(
            f"dimension ({dimension}) must be divisible by num_sub_vectors ({count})"
        )
    num_bits = optional_count("num_bits", given.get("num_bits"), 1)
    if kind == PQ:
        num_bits = num_bits or 8
        if count is None:
            raise InvalidInputError("num_partitions and num_sub_vectors are required for IVF_PQ")
        if num_bits not in _PQ_BITS:
            raise InvalidInputError(f"num_bits of product quantization: 4 or 8, found {num_bits}")
        if num_bits == 4 and count % 2:
            raise InvalidInputError(
                f"num_sub_vectors must be divisible by 2 for num_bits=4, found {count}"
            )
        return Compression(PQ, num_bits, count)
    if kind == RQ:
        num_bits = num_bits or _DEFAULT_RQ_BITS
        if num_bits > _MOST_RQ_BITS:
            raise InvalidInputError(f"IVF_RQ num_bits must be in 1..=9, got {num_bits}")
        if dimension % 8:
            raise InvalidInputError(f"IVF_RQ: the dimension ({dimension}) must be divisible by 8")
        return Compression(RQ, num_bits)
    return Compression(SQ, _SQ_BITS) if kind == SQ else Compression(FLAT)


def _graph(given: Mapping[str, Any]) -> GraphParameters:
    most = require_count("m", given.get("m", 20))
    effort = require_count("ef_construction", given.get("ef_construction", 150))
    levels = require_count("max_level", given.get("max_level", 7), 1)
    if levels > _MOST_LEVELS:
        raise InvalidInputError(f"max_level: expected at most {_MOST_LEVELS}, found {levels}")
    if most < _FEWEST_CONNECTIONS:
        raise InvalidInputError(f"m: expected at least {_FEWEST_CONNECTIONS}, found {most}")
    if effort < most:
        raise InvalidInputError(f"ef_construction must be at least m ({most}), found {effort}")
    return GraphParameters(most, effort, levels)


def _num_partitions(given: Any) -> int | None:
    if isinstance(given, float) and math.isfinite(given):
        warnings.warn("num_partitions is float, converting to int", stacklevel=2)
        given = int(given)
    return optional_count("num_partitions", given, 1)


def _is_legacy(version: Any, compression: Compression, has_graph: bool) -> bool:
    if version is None or str(version).upper() == "V3":
        return False
    if str(version).upper() != "LEGACY":
        raise InvalidInputError(f"index_file_version: expected 'V3' or 'Legacy', found {version!r}")
    if has_graph or compression.kind != PQ:
        return False  # as the reference, which writes these types in one layout only
    raise UnsupportedFeatureError(
        "index_file_version='Legacy': the legacy layout is read but not written; omit it, or pass "
        "'V3'"
    )


def _rotation(model: Any) -> str:
    text = model if isinstance(model, str) else json.dumps(model)
    try:
        is_model = isinstance(json.loads(text), dict)
    except ValueError:
        is_model = False
    if not is_model:
        raise InvalidInputError(f"rabitq_model: expected a JSON object, found {model!r:.80}")
    return text


def _hint(hints: Mapping[str, str], name: str, default: int) -> int:
    text = hints.get(name, "")
    return max(1, int(text)) if text.isdecimal() else default


def _matrix(what: str, given: Any) -> Matrix:
    if isinstance(given, (pa.Array, pa.ChunkedArray)) and pt.is_fixed_size_list(given.type):
        if given.null_count:
            raise InvalidInputError(f"{what}: expected vectors, found nulls")
        return matrix(given)[0]
    try:
        found = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what}: {error}") from error
    return found


def _elements(what: str, found: Matrix, vectors: VectorType) -> Matrix:
    if vectors.is_binary:
        if found.dtype != np.uint8:
            raise UnsupportedTypeError(f"{what}: expected uint8, found {found.dtype}")
        return np.ascontiguousarray(found)
    if found.dtype not in _FLOATS:
        raise UnsupportedTypeError(f"{what}: expected floating numbers, found {found.dtype}")
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(found.astype(vectors.dtype, copy=False))
    if not np.isfinite(cast).all():
        raise InvalidInputError(f"{what}: all elements must be finite in {vectors.dtype}")
    return cast
