"""Scalar quantization: each element as a byte (SQ).

    __sq_code    trunc(clamp((x - start) * 255 / (end - start), 0, 255)), D bytes

    {"dim":D,"num_bits":8,"bounds":{"start":-1.5,"end":1.5}}

With equal bounds all codes are 0. Source: docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.index.files import IndexFile
from pilum.index.vector.messages import SQ
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Answer, Columns, Probe, Quantizer, Search
from pilum.index.vector.sieves import sieves_of
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.kernels import encode_scalar_codes, nearest_scalar_codes

__all__ = ["COLUMN", "ScalarQuantizer"]

COLUMN = "__sq_code"

_LEAST_DIMENSION = 64
"""Shorter codes are compared without a sieve, whose codes are not much shorter than they are."""


class ScalarQuantizer(Quantizer):
    """Each element as a byte between two bounds.

    Args:
        dimension: Number of elements of a vector.
        metric: The metric of the index.
        start: The number that code 0 represents.
        end: The number that code 255 represents.

    Attributes:
        start: See above.
        end: See above.
        code_metric: The metric by which codes are compared: "l2" or "dot".
    """

    name = SQ

    def __init__(self, dimension: int, metric: Metric, start: float, end: float) -> None:
        self.dimension = dimension
        self.metric = metric
        self.start = start
        self.end = end
        self.code_metric = "dot" if metric is Metric.DOT else "l2"

    @classmethod
    def read(
        cls, parameters: StoredParameters, file: IndexFile, metric: Metric, dimension: int
    ) -> Self:
        """See `Quantizer.read`."""
        del file
        parameters.integer("dim", dimension, dimension)
        parameters.integer("num_bits", 8, 8)
        bounds = parameters.parameters("bounds")
        start, end = bounds.number("start"), bounds.number("end")
        if start > end or metric is Metric.HAMMING:
            raise parameters.error(f"bounds {start} and {end} for {metric.value}")
        return cls(dimension, metric, start, end)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """See `Quantizer.fields`."""
        return (pa.field(COLUMN, pa.list_(pa.uint8(), self.dimension)),)

    @property
    def size_bytes(self) -> int:
        """See `Quantizer.size_bytes`."""
        return 0

    def encode(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """See `Quantizer.encode`."""
        del partitions, centroids
        wide = np.ascontiguousarray(vectors, np.float32)
        return {COLUMN: encode_scalar_codes(wide, self.start, self.end)}

    def metadata(self, add_buffer: Callable[[bytes], int]) -> str:
        """See `Quantizer.metadata`."""
        del add_buffer
        return json.dumps(self._parameters(), separators=(",", ":"))

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """See `Quantizer.nearest`."""
        parts = [(one.columns[COLUMN], one.rows, one.allowed, one.queries) for one in probes]
        sieves = None
        if self.code_metric == "l2" and self.dimension >= _LEAST_DIMENSION:
            sieves = sieves_of(probes, len(search.queries), COLUMN, "l2")
        return nearest_scalar_codes(
            parts,
            search.queries,
            self.start,
            self.end,
            self.code_metric,
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
        """See `Quantizer.decoded`."""
        del partitions, centroids
        found = columns[COLUMN].astype(np.float32)
        found *= np.float32((self.end - self.start) / 255)
        found += np.float32(self.start)
        return found

    def statistics(self) -> dict[str, Any]:
        """See `Quantizer.statistics`."""
        return {**self._parameters(), "index_type": SQ, "metric_type": self.metric.value}

    def _parameters(self) -> dict[str, Any]:
        bounds = {"start": self.start, "end": self.end}
        return {"dim": self.dimension, "num_bits": 8, "bounds": bounds}
