"""Trained models of vector indices, which can be saved: `IvfModel` and `PqModel`.

    ivf.lance    centroids: fixed_size_list<T>[D]    one row per partition
                 metadata   distance_type
    pq.lance     codebook: fixed_size_list<T>[D]     2**num_bits rows, sub-vector after sub-vector
                 metadata   num_subvectors, num_bits

Source: docs/format/vector-indices.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import pyarrow as pa
import pyarrow.types as pt

from pilum.arguments import require_count
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.file import LanceFileReader, LanceFileWriter
from pilum.storage.open import Location

__all__ = ["IvfModel", "PqModel"]

_CENTROIDS, _DISTANCE_TYPE = "centroids", "distance_type"
_CODEBOOK, _SUB_VECTORS, _BITS = "codebook", "num_subvectors", "num_bits"


class IvfModel:
    """The centroids of the partitions of an index.

    Args:
        centroids: Fixed-size lists, one for each partition.
        distance_type: Metric for which they were trained: "l2", "cosine", "dot" or "hamming".

    Attributes:
        centroids: See above.
        distance_type: See above.
    """

    def __init__(self, centroids: pa.Array, distance_type: str) -> None:
        if not isinstance(centroids, pa.Array) or not pt.is_fixed_size_list(centroids.type):
            raise InvalidInputError(f"centroids: expected fixed-size lists, got {centroids!r:.80}")
        self.centroids = centroids
        self.distance_type = distance_type

    @property
    def num_partitions(self) -> int:
        """The number of partitions."""
        return len(self.centroids)

    def save(self, uri: Location, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write the model to a Lance file.

        Args:
            uri: Location of the file.
            storage_options: Options of the object store.
        """
        _write(
            uri, _CENTROIDS, self.centroids, {_DISTANCE_TYPE: self.distance_type}, storage_options
        )

    @classmethod
    def load(cls, uri: Location, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Read a model from a Lance file.

        Args:
            uri: Location of the file.
            storage_options: Options of the object store.

        Raises:
            NotFoundError: If it does not exist.
            CorruptFileError: If it is damaged, or contains no such model.
        """
        centroids, metadata = _read(uri, _CENTROIDS, (_DISTANCE_TYPE,), storage_options)
        return cls(centroids, metadata[_DISTANCE_TYPE])


class PqModel:
    """The codebook of a product quantizer.

    Args:
        num_subvectors: Number of sub-vectors of a vector.
        codebook: Fixed-size lists of the dimension of vectors, `2**num_bits` of them. Their
            elements are the codewords of the first sub-vector, then those of the second one, …
        num_bits: Bits of a code.

    Attributes:
        num_subvectors: See above.
        codebook: See above.
        num_bits: See above.
    """

    def __init__(
        self, num_subvectors: int, codebook: pa.FixedSizeListArray, *, num_bits: int = 8
    ) -> None:
        if not isinstance(codebook, pa.Array) or not pt.is_fixed_size_list(codebook.type):
            raise InvalidInputError(f"codebook: expected fixed-size lists, got {codebook!r:.80}")
        self.num_subvectors = require_count("num_subvectors", num_subvectors, 1)
        self.codebook = codebook
        self.num_bits = require_count("num_bits", num_bits, 1)

    @property
    def dimension(self) -> int:
        """The number of elements of a vector."""
        return int(self.codebook.type.list_size)

    def save(self, uri: Location, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write the model to a Lance file; see `IvfModel.save`."""
        metadata = {_SUB_VECTORS: str(self.num_subvectors), _BITS: str(self.num_bits)}
        _write(uri, _CODEBOOK, self.codebook, metadata, storage_options)

    @classmethod
    def load(cls, uri: Location, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Read a model from a Lance file; see `IvfModel.load`."""
        codebook, metadata = _read(uri, _CODEBOOK, (_SUB_VECTORS,), storage_options)
        numbers = metadata[_SUB_VECTORS], metadata.get(_BITS, "8")
        if not all(text.isdecimal() and int(text) > 0 for text in numbers):
            raise CorruptFileError(
                f"model with {numbers[0]} sub-vectors of {numbers[1]} bits", str(uri)
            )
        return cls(int(numbers[0]), codebook, num_bits=int(numbers[1]))


def _write(
    uri: Location,
    name: str,
    rows: pa.Array,
    metadata: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
) -> None:
    schema = pa.schema([pa.field(name, rows.type)], dict(metadata))
    with LanceFileWriter(uri, schema, storage_options=storage_options) as file:
        file.write_batch(pa.table([rows], schema=schema))


def _read(
    uri: Location, name: str, keys: tuple[str, ...], storage_options: Mapping[str, str] | None
) -> tuple[pa.Array, dict[str, str]]:
    file = LanceFileReader(uri, storage_options=storage_options)
    table = file.read_all(batch_size=max(1, file.num_rows())).to_table()
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }
    is_model = name in table.column_names and pt.is_fixed_size_list(table.schema.field(name).type)
    if not is_model or not metadata.keys() >= set(keys):
        raise CorruptFileError(
            f"no model with the column {name!r} and the metadata {keys}", str(uri)
        )
    return table.column(name).combine_chunks(), metadata
