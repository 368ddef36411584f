"""The legacy layout of IVF_PQ: one file.

    for each partition, at its offset    n x m codes, row by row; n row references, 8 bytes each
    at the position                      u32 length, and the message LegacyIndex
    the last 16 bytes                    u64 position | u16 major 0 | u16 minor 1 | "LANC"

Source: docs/format/vector-indices.md, "Legacy layout".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2 as pb
from pilum.format.rows import Addresses
from pilum.index.files import IndexFolder
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.messages import IvfMessage, unpack_tensor
from pilum.index.vector.metrics import Metric
from pilum.index.vector.product import COLUMN, ProductQuantizer, codewords_of
from pilum.index.vector.quantizer import Columns
from pilum.index.vector.segment_files import INDEX_FILE, StoredPartitions
from pilum.storage.base import Ranges, Source

__all__ = ["LegacyPartitions", "open_legacy"]

_TAIL = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_REFERENCE_BYTES = 8


class LegacyPartitions(StoredPartitions):
    """The partitions of a legacy file.

    Args:
        source: The file.
        ivf: The partitions; offsets are bytes.
        num_bytes: Bytes of the codes of a row.
        stop: Where partitions must end, bytes.

    Attributes:
        lengths: The number of rows of each partition, int64.
        path: Path of the file, for errors.
    """

    def __init__(self, source: Source, ivf: IvfMessage, num_bytes: int, stop: int) -> None:
        self._source = source
        self._offsets = ivf.offsets
        self._num_bytes = num_bytes
        self.lengths = ivf.lengths
        self.path = source.path
        ends = ivf.offsets + ivf.lengths * (num_bytes + _REFERENCE_BYTES)
        if len(ends) and int(ends.max()) > stop:
            raise CorruptFileError(f"a partition that ends at {int(ends.max())}", source.path)

    def read(self, numbers: Sequence[int]) -> list[tuple[Addresses, Columns]]:
        """See `StoredPartitions.read`."""
        lengths = self.lengths[list(numbers)].tolist()
        starts = self._offsets[list(numbers)].tolist()
        width = self._num_bytes + _REFERENCE_BYTES
        ranges = [(start, n * width) for start, n in zip(starts, lengths, strict=True)]
        found: list[tuple[Addresses, Columns]] = []
        for length, data in zip(lengths, _read(self._source, ranges), strict=True):
            cut = length * self._num_bytes
            rows = np.frombuffer(data[cut:], np.uint64)
            codes = np.frombuffer(data[:cut], np.uint8).reshape(length, self._num_bytes)
            found.append((rows, {COLUMN: codes}))
        return found

    def references(self) -> Addresses:
        """See `StoredPartitions.references`."""
        starts = self._offsets + self.lengths * self._num_bytes
        sizes = self.lengths * _REFERENCE_BYTES
        ranges = list(zip(starts.tolist(), sizes.tolist(), strict=True))
        return np.frombuffer(b"".join(_read(self._source, ranges)), np.uint64)


class LegacyProduct(ProductQuantizer):
    """Product quantization in the legacy layout, which is described in other words."""

    def statistics(self) -> dict[str, Any]:
        """See `Quantizer.statistics`."""
        found = {**super().statistics(), "metric_type": self.metric.value}
        del found["transposed"]
        return found


def open_legacy(folder: IndexFolder) -> tuple[IvfModel, ProductQuantizer, LegacyPartitions]:
    """Open a segment of one legacy file.

    Raises:
        NotFoundError: If it does not exist.
        CorruptFileError: If it is damaged.
        UnsupportedFeatureError: If it is not an IVF_PQ index.
    """
    source = folder.store.source(f"{folder.path}/{INDEX_FILE}", folder.sizes.get(INDEX_FILE))
    position, message = _message(source)
    path, index = source.path, message.vector_index
    kinds = [stage.WhichOneof("stage") for stage in index.stages]
    if kinds != ["ivf", "pq"]:
        raise UnsupportedFeatureError(f"legacy index with the stages {kinds}\n  {path}")
    metric = Metric.numbered(index.metric, path)
    ivf = IvfMessage.parse(index.stages[0].ivf, path, index.dimension)
    product = index.stages[1].pq
    if ivf.centroids is None or ivf.centroids.shape[1] != index.dimension:
        raise CorruptFileError(f"no centroids of dimension {index.dimension}", path)
    if metric is Metric.HAMMING or product.dimension != index.dimension or product.num_bits != 8:
        raise CorruptFileError(
            f"codes of {product.num_bits} bits of dimension {product.dimension}, {metric.value}",
            path,
        )
    if product.HasField("codebook_tensor"):
        flat = unpack_tensor(product.codebook_tensor, path, "codebook")
    else:
        flat = np.array(product.codebook, np.float32)
    words = codewords_of(flat, 8, product.num_sub_vectors, index.dimension, path)
    quantizer = LegacyProduct(words, metric, is_transposed=False)
    stored = LegacyPartitions(source, ivf, quantizer.num_bytes, position)
    return IvfModel(ivf.centroids, metric, ivf.loss), quantizer, stored


def _message(source: Source) -> tuple[int, pb.LegacyIndex]:
    """Return where the message begins, and the message."""
    path, end = source.path, source.size - _TAIL.size
    if end < _LENGTH.size:
        raise CorruptFileError(f"a vector index of {source.size} bytes", path)
    [tail] = _read(source, [(end, _TAIL.size)])
    position, major, minor, magic = _TAIL.unpack(tail)
    if magic != _MAGIC or (major, minor) not in ((0, 1), (0, 2)):
        raise CorruptFileError(f"a legacy vector index with the end {tail.hex()}", path)
    if position > end - _LENGTH.size:
        raise CorruptFileError(f"a message at {position} of {source.size} bytes", path)
    [data] = _read(source, [(position, end - position)])
    [length] = _LENGTH.unpack_from(data)
    if length > len(data) - _LENGTH.size:
        raise CorruptFileError(f"a message of {length} bytes at {position}", path)
    data = data[_LENGTH.size : _LENGTH.size + length]
    message = parse_message(pb.LegacyIndex, data, path, what="legacy vector index")
    return position, message


def _read(source: Source, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Read ranges, each a position and a number of bytes; empty ones cost nothing."""
    filled = sorted({one for one in ranges if one[1]})
    if not filled:
        return [b""] * len(ranges)
    parts = source.read(Ranges.of(*filled))
    by_range = {one: part.tobytes() for one, part in zip(filled, parts, strict=True)}
    return [by_range.get(one, b"") for one in ranges]
