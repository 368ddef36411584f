"""Vectors as they are (FLAT).

    flat    D elements of the type of the column; for cosine, scaled to length 1

    {"dim":D}

Source: docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.index.files import IndexFile
from pilum.index.vector.messages import FLAT
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Answer, Columns, Probe, Quantizer, Search
from pilum.index.vector.sieves import sieves_of
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.index.vector.vectors import VectorType
from pilum.kernels import nearest_flat

__all__ = ["COLUMN", "FlatQuantizer"]

COLUMN = "flat"


_TOLERANCE = 0.02
"""So far may the mean square of the lengths of vectors be from 1, for cosine."""

_LEAST_DIMENSION = 16
"""Shorter vectors are compared without a sieve, as to read a part of them first saves little."""

_SQUARES_AT_ONCE = 1 << 20
"""So many squares are added as floats of 32 bits; the sum of many more would be far too small."""


class FlatQuantizer(Quantizer):
    """Vectors as they are.

    Args:
        dtype: Type of the elements.
        dimension: Number of elements of a vector.
        metric: The metric of the index.

    Attributes:
        dtype: See above.
    """

    name = FLAT

    def __init__(self, dtype: np.dtype[Any], dimension: int, metric: Metric) -> None:
        self.dtype = dtype
        self.dimension = dimension
        self.metric = metric
        self._metric_name = metric.value
        self._has_sieves = metric is not Metric.HAMMING and dimension >= _LEAST_DIMENSION
        self.is_faster_together = not self._has_sieves

    @classmethod
    def read(
        cls, parameters: StoredParameters, file: IndexFile, metric: Metric, dimension: int
    ) -> Self:
        """See `Quantizer.read`."""
        parameters.integer("dim", dimension, dimension)
        if COLUMN not in file.schema.names:
            raise CorruptFileError(f"no column {COLUMN!r}", file.path)
        stored = VectorType.of(COLUMN, file.schema.field(COLUMN).type)
        if stored.is_multi or stored.is_binary != (metric is Metric.HAMMING):
            raise CorruptFileError(f"vectors of {stored.dtype} for {metric.value}", file.path)
        return cls(stored.dtype, dimension, metric)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """See `Quantizer.fields`."""
        return (pa.field(COLUMN, pa.list_(pa.from_numpy_dtype(self.dtype), self.dimension)),)

    @property
    def size_bytes(self) -> int:
        """See `Quantizer.size_bytes`."""
        return 0

    def encode(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """See `Quantizer.encode`."""
        del partitions, centroids
        return {COLUMN: vectors.astype(self.dtype, copy=False)}

    def metadata(self, add_buffer: Callable[[bytes], int]) -> str:
        """See `Quantizer.metadata`."""
        del add_buffer
        return json.dumps({"dim": self.dimension}, separators=(",", ":"))

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """See `Quantizer.nearest`."""
        parts = [(one.columns[COLUMN], one.rows, one.allowed, one.queries) for one in probes]
        sieves = None
        if self._has_sieves:
            sieves = sieves_of(probes, len(search.queries), COLUMN, self._metric_name)
        queries = search.queries
        if queries.dtype != self.dtype:
            with np.errstate(over="ignore"):  # values become infinite
                queries = queries.astype(self.dtype)
        return nearest_flat(
            parts,
            queries,
            self._metric_name,
            search.k,
            lower=search.lower,
            upper=search.upper,
            earlier=earlier,
            sieves=sieves,
            num_threads=search.num_threads,
        )

    def decoded(
        self, columns: Columns, partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> NDArray[np.float32]:
        """See `Quantizer.decoded`; bytes of bits remain bytes."""
        del partitions, centroids
        found = columns[COLUMN]
        return found if self.metric is Metric.HAMMING else found.astype(np.float32, copy=False)

    def flaw(self, columns: Columns) -> str | None:
        """See `Quantizer.flaw`; a product of all elements costs much less than a test of each."""
        rows = columns[COLUMN]
        if self.metric is Metric.HAMMING or not len(rows):
            return None
        with np.errstate(all="ignore"):
            elements = rows.reshape(-1)
            parts = np.split(elements, range(_SQUARES_AT_ONCE, len(elements), _SQUARES_AT_ONCE))
            is_summed = rows.dtype != np.float16
            total = sum(float(np.dot(one, one)) for one in parts) if is_summed else np.nan
        if not math.isfinite(total) and not np.isfinite(rows).all():
            return "vectors that are not finite"
        is_wrong = abs(total - len(rows)) > _TOLERANCE * len(rows)  # never for NaN
        if self.metric is Metric.COSINE and is_wrong:
            return f"vectors of the mean length {math.sqrt(total / len(rows)):.3g}, not 1"
        return None

    def statistics(self) -> dict[str, Any]:
        """See `Quantizer.statistics`."""
        return {"dim": self.dimension, "index_type": FLAT, "metric_type": self.metric.value}
