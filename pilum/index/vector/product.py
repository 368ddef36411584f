"""Product quantization: each sub-vector as the number of the nearest codeword (PQ).

    vector (D)    ──cut──▶ m sub-vectors ──nearest of 2^bits codewords──▶ m codes
    __pq_code     8 bits: a byte for each code; 4 bits: two codes in a byte, the first one lower
                  transposed: column by column within a partition
                  (1, 2) (3, 4) (5, 6)  ──▶  01 03 05  02 04 06

    {"codebook_position":2,"nbits":8,"num_sub_vectors":m,"dimension":D,"codebook_tensor":[],
     "transposed":true}

With l2 and cosine, the difference to the centroid is encoded. Source:
docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.index.files import IndexFile
from pilum.index.vector.messages import PQ, pack_tensor, unpack_tensor
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Answer, Columns, Probe, Quantizer, Search
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.kernels import ProductCodebook

__all__ = ["COLUMN", "ProductQuantizer", "codewords_of"]

COLUMN = "__pq_code"


class ProductQuantizer(Quantizer):
    """Each sub-vector as the number of the nearest codeword.

    Args:
        codewords: Shape (m, 16 or 256, D / m), of the element type of the column.
        metric: The metric of the index.
        is_transposed: Whether the bytes of a partition are stored column by column.

    Attributes:
        codewords: See above.
        num_bits: Bits of a code, 4 or 8.
        num_sub_vectors: Number of sub-vectors, m.
        codebook: The same codewords for kernels.
        code_metric: The metric by which codes are compared: "l2" or "dot".
        has_residuals: Whether codes are those of the difference to the centroid.
        is_transposed: See above.
    """

    name = PQ

    def __init__(
        self, codewords: NDArray[Any], metric: Metric, *, is_transposed: bool = True
    ) -> None:
        self.codewords = codewords
        self.num_sub_vectors, num_codes, width = codewords.shape
        self.num_bits = num_codes.bit_length() - 1
        self.dimension = self.num_sub_vectors * width
        self.metric = metric
        self.has_residuals = metric.has_residuals
        self.code_metric = "l2" if self.has_residuals else "dot"
        self.is_transposed = is_transposed
        self.codebook = ProductCodebook(np.ascontiguousarray(codewords, np.float32))

    @classmethod
    def read(
        cls, parameters: StoredParameters, file: IndexFile, metric: Metric, dimension: int
    ) -> Self:
        """See `Quantizer.read`."""
        parameters.integer("dimension", dimension, dimension)
        num_bits = parameters.integer("nbits", 4, 8)
        num_sub_vectors = parameters.integer("num_sub_vectors", 1, dimension)
        position = parameters.integer("codebook_position", 0, 1 << 31)
        if position:
            data = file.global_buffer(position)
        else:  # written around release 0.27
            data = bytes(parameters.numbers("codebook_tensor", 255))
        flat = unpack_tensor(data, file.path, "codebook")
        words = codewords_of(flat, num_bits, num_sub_vectors, dimension, file.path)
        if metric is Metric.HAMMING:
            raise parameters.error("product quantization with hamming")
        return cls(words, metric, is_transposed=parameters.flag("transposed", False))

    @property
    def num_bytes(self) -> int:
        """The number of bytes of the codes of a vector."""
        num_bits: int = self.num_sub_vectors * self.num_bits
        return num_bits // 8

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """See `Quantizer.fields`."""
        return (pa.field(COLUMN, pa.list_(pa.uint8(), self.num_bytes)),)

    @property
    def size_bytes(self) -> int:
        """See `Quantizer.size_bytes`."""
        return self.codewords.nbytes + 4 * self.codewords.size

    def encode(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """See `Quantizer.encode`."""
        codes = self.codebook.encode(self.residuals(vectors, partitions, centroids))
        if self.num_bits == 8:
            return {COLUMN: codes}
        return {COLUMN: codes[:, ::2] | codes[:, 1::2] << 4}

    def residuals(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> NDArray[np.float32]:
        """Return what is encoded: the difference to the centroid or, for dot, the vector itself.

        Args:
            vectors: Shape (n, D); for cosine, of length 1.
            partitions: The partition of each, shape (n,).
            centroids: Shape (P, D).
        """
        if not self.has_residuals:
            return np.ascontiguousarray(vectors, np.float32)
        return np.asarray(np.subtract(vectors, centroids[partitions], dtype=np.float32))

    def arranged(self, columns: Columns) -> Columns:
        """See `Quantizer.arranged`."""
        if not self.is_transposed:
            return columns
        return {COLUMN: _turned(columns[COLUMN])}

    def plain(self, columns: Columns) -> Columns:
        """See `Quantizer.plain`."""
        if not self.is_transposed:
            return columns
        codes = columns[COLUMN]
        return {COLUMN: np.ascontiguousarray(codes.reshape(codes.shape[::-1]).T)}

    def metadata(self, add_buffer: Callable[[bytes], int]) -> str:
        """See `Quantizer.metadata`."""
        flat = self.codewords.reshape(1 << self.num_bits, self.dimension)  # only in name
        parameters = {
            "codebook_position": add_buffer(pack_tensor(flat)),
            "nbits": self.num_bits,
            "num_sub_vectors": self.num_sub_vectors,
            "dimension": self.dimension,
            "codebook_tensor": [],
            "transposed": self.is_transposed,
        }
        return json.dumps(parameters, separators=(",", ":"))

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """See `Quantizer.nearest`."""
        has_residuals = self.has_residuals
        parts = [
            (
                (one.columns[COLUMN], one.centroid if has_residuals else None),
                one.rows,
                one.allowed,
                one.queries,
            )
            for one in probes
        ]
        return self.codebook.nearest(
            parts,
            search.queries,
            self.code_metric,
            search.k,
            transposed=self.is_transposed,
            lower=search.lower,
            upper=search.upper,
            earlier=earlier,
            num_threads=search.num_threads,
        )

    def decoded(
        self, columns: Columns, partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> NDArray[np.float32]:
        """See `Quantizer.decoded`."""
        codes = columns[COLUMN]
        if self.num_bits == 4:
            codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
        words = np.asarray(self.codewords, np.float32)
        found = words[np.arange(self.num_sub_vectors), codes].reshape(len(codes), -1)
        if self.has_residuals:
            found += centroids[partitions]
        return found

    def statistics(self) -> dict[str, Any]:
        """See `Quantizer.statistics`."""
        return {
            "metric_type": self.code_metric,
            "nbits": self.num_bits,
            "num_sub_vectors": self.num_sub_vectors,
            "dimension": self.dimension,
            "index_type": PQ,
            "transposed": self.is_transposed,
        }


def codewords_of(
    codebook: NDArray[Any], num_bits: int, num_sub_vectors: int, dimension: int, path: str
) -> NDArray[Any]:
    """Return the codewords of a stored codebook, shape (m, 2^bits, D / m).

    Args:
        codebook: All its numbers, in any shape.
        num_bits: Bits of a code.
        num_sub_vectors: Number of sub-vectors.
        dimension: Number of elements of a vector.
        path: Path of the file, for errors.

    Raises:
        CorruptFileError: If the parameters do not fit.
    """
    is_valid = num_bits in (4, 8) and num_sub_vectors > 0 and dimension % num_sub_vectors == 0
    if not is_valid or (num_bits == 4 and num_sub_vectors % 2):
        raise CorruptFileError(
            f"{num_sub_vectors} sub-vectors of {num_bits} bits of dimension {dimension}", path
        )
    if codebook.dtype.kind != "f" or codebook.size != dimension << num_bits:
        raise CorruptFileError(
            f"a codebook of {codebook.size} numbers of {codebook.dtype} for codes of {num_bits} "
            f"bits of dimension {dimension}",
            path,
        )
    return codebook.reshape(num_sub_vectors, 1 << num_bits, dimension // num_sub_vectors)


def _turned(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes column by column, cut into rows of the same width."""
    return np.ascontiguousarray(codes.T).reshape(codes.shape)
