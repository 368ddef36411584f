"""RaBitQ (RQ): signs of rotated residuals, and up to 8 further bits of each component.

    _rabit_codes         D/8 bytes      bit i, lowest first: 1 if component i of y = R (v - c) is
                                        not negative
    __add_factors        float32        distance = b (add - a) + g + scale * (sum of the query's
    __scale_factors      float32                   components with a set bit - half of them all)
    __error_factors      float32        its error, in units of |q - b c|
    __blocked_ex_codes   64 ceil(D/64) * (bits - 1) / 8 bytes    further bits, in blocks of 64
    __add_factors_ex     float32        the same by all bits
    __scale_factors_ex   float32

With l2 and cosine a = 0, b = 1 and g = |q - c|^2. With dot a = 1, b = q.c / |c|^2 and g = 1 - q.c:
b c is the part of the query along the centroid, whose product with a row has no error.

The last three columns exist if there is more than one bit. Sign codes are stored per partition, in
the order in which 32 rows are looked up at once ("packed"), or as plain rows. An older layout has
one bit and no errors, and its factors belong to residuals of queries.

    {"rotate_mat_position":null,"fast_rotation_signs":[21,27,…],"rotation_type":"fast",
     "code_dim":128,"num_bits":5,"packed":true,"query_estimator":"raw_query"}

Source: docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.index.files import IndexFile
from pilum.index.vector.messages import RQ, pack_tensor, unpack_tensor
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Answer, Columns, Probe, Quantizer, Search
from pilum.index.vector.rotation import FastRotation, MatrixRotation, Rotation
from pilum.index.vector.stored_parameters import StoredParameters

__all__ = ["Rabitq"]

_SIGNS, _FURTHER = "_rabit_codes", "__blocked_ex_codes"
_ADD, _SCALE, _ERROR = "__add_factors", "__scale_factors", "__error_factors"
_ADD_ALL, _SCALE_ALL = "__add_factors_ex", "__scale_factors_ex"
_RAW, _RESIDUAL = "raw_query", "residual_query"
_KEYS = {
    "rotate_mat_position",
    "fast_rotation_signs",
    "rotation_type",
    "code_dim",
    "num_bits",
    "packed",
    "query_estimator",
}
"""The known parameters; others may change the meaning of codes."""
_MAX_BITS = 9
_BLOCK_BYTES = 64 << 20
"""Bytes of rotated vectors that are encoded together."""


class Rabitq(Quantizer):
    """RaBitQ codes of one index.

    Args:
        rotation: The rotation.
        metric: The metric of the index.
        bits: Bits of a component, 1 to 9.
        is_packed: Whether sign codes are stored in the packed order.
        by_residuals: Whether the factors belong to residuals of queries: the older layout.
    """

    name = RQ

    def __init__(
        self,
        rotation: Rotation,
        metric: Metric,
        bits: int,
        *,
        is_packed: bool = True,
        by_residuals: bool = False,
    ) -> None:
        self.rotation = rotation
        self.metric = metric
        self.dimension = rotation.dimension
        self.bits = bits
        self.is_packed = is_packed
        self.by_residuals = by_residuals
        self._codes = kernels.RabitqCodes(self.dimension, bits, metric is Metric.DOT)
        self._rotated: dict[int, NDArray[np.float32]] = {}

    @classmethod
    def new(cls, dimension: int, metric: Metric, bits: int = 5) -> Rabitq:
        """Return a new quantizer with a random rotation.

        Raises:
            InvalidInputError: If the dimension, the metric or the number of bits is not supported.
        """
        if dimension % 8:
            raise InvalidInputError(f"RQ needs a dimension divisible by 8, not {dimension}")
        if not 1 <= bits <= _MAX_BITS:
            raise InvalidInputError(f"RQ has 1 to {_MAX_BITS} bits, not {bits}")
        if metric is Metric.HAMMING:
            raise InvalidInputError("RQ cannot be used with the metric hamming")
        return cls(FastRotation.random(dimension), metric, bits)

    @classmethod
    def read(
        cls, parameters: StoredParameters, file: IndexFile, metric: Metric, dimension: int
    ) -> Rabitq:
        """See `Quantizer.read`."""
        found = cls.parse(parameters.fields, file.global_buffer, metric, file.path)
        if found.dimension != dimension or metric is Metric.HAMMING:
            raise parameters.error(f"codes of dimension {found.dimension} for {metric.value}")
        return found

    @classmethod
    def parse(
        cls,
        metadata: Mapping[str, Any],
        read_buffer: Callable[[int], bytes],
        metric: Metric,
        path: str,
    ) -> Rabitq:
        """Return the quantizer that metadata describes.

        Args:
            metadata: The JSON object of `storage_metadata`, or of a model.
            read_buffer: Reads a global buffer of auxiliary.idx.
            metric: The metric of the index.
            path: Path of the file, for errors.

        Raises:
            CorruptFileError: If a value is missing or impossible.
            UnsupportedFeatureError: If the layout is newer than this library.
        """
        bits = _number(metadata, "num_bits", path)
        if not 1 <= bits <= _MAX_BITS:
            raise CorruptFileError(f"RQ codes of {bits} bits", path)
        estimator = metadata.get("query_estimator") or _RESIDUAL
        _require_known("query_estimator", estimator, (_RAW, _RESIDUAL), path)
        for key in metadata.keys() - _KEYS:
            if metadata[key]:
                raise UnsupportedFeatureError(f"RQ codes with {key} {metadata[key]!r}\n  {path}")
        by_residuals = estimator == _RESIDUAL
        if by_residuals and bits > 1:
            raise UnsupportedFeatureError(
                f"RQ codes of {bits} bits for residuals of queries, instead of 1 bit\n  {path}"
            )
        return cls(
            _rotation(metadata, read_buffer, path),
            metric,
            bits,
            is_packed=bool(metadata.get("packed", False)),
            by_residuals=by_residuals,
        )

    @classmethod
    def of_model(cls, model: str, metric: Metric) -> Rabitq:
        """Return the quantizer of a model, from `model`.

        Raises:
            InvalidInputError: If the model is invalid.
        """
        try:
            return cls.parse(json.loads(model), _no_buffer, metric, "the RQ model")
        except (ValueError, AttributeError, CorruptFileError, UnsupportedFeatureError) as error:
            raise InvalidInputError(f"not an RQ model: {error}") from error

    def model(self) -> str:
        """Return the model as JSON, for segments that are built separately and merged later.

        Segments of a model have plain rows of sign codes.
        """
        return self._json(None, is_packed=False)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of auxiliary.idx after the row references."""
        floats = [_ADD, _SCALE] if self.by_residuals else [_ADD, _SCALE, _ERROR]
        found = [pa.field(_SIGNS, pa.list_(pa.uint8(), self.dimension // 8))]
        found += [pa.field(name, pa.float32()) for name in floats]
        if self.bits > 1:
            width = -(-self.dimension // 64) * 8 * (self.bits - 1)
            found.append(pa.field(_FURTHER, pa.list_(pa.uint8(), width)))
            found += [pa.field(name, pa.float32()) for name in (_ADD_ALL, _SCALE_ALL)]
        return tuple(found)

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self.rotation.size_bytes

    def has_model_of(self, other: Quantizer) -> bool:
        """Return whether another quantizer makes the same codes."""
        return (
            isinstance(other, Rabitq)
            and (self.metric, self.bits, self.by_residuals)
            == (other.metric, other.bits, other.by_residuals)
            and self.rotation.equals(other.rotation)
        )

    def encode(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """Return the codes of vectors as plain rows."""
        centroids = np.ascontiguousarray(centroids, np.float32)
        rotated = self.rotation.rotated(centroids)
        step = max(_BLOCK_BYTES // (4 * self.dimension), 1)
        starts = range(0, max(len(vectors), 1), step)
        blocks = [
            self._encoded(vectors[at : at + step], partitions[at : at + step], centroids, rotated)
            for at in starts
        ]
        return {
            field.name: np.concatenate([one[field.name] for one in blocks]) for field in self.fields
        }

    def _encoded(
        self,
        vectors: NDArray[Any],
        partitions: NDArray[np.uint32],
        centroids: NDArray[np.float32],
        rotated_centroids: NDArray[np.float32],
    ) -> dict[str, NDArray[Any]]:
        residuals = np.asarray(vectors, np.float32) - centroids[partitions]
        rotated = self.rotation.rotated(residuals)
        signs, further = self._codes.encode(
            rotated, rotated_centroids, np.ascontiguousarray(partitions, np.uint32)
        )
        found: dict[str, NDArray[Any]] = {_SIGNS: signs[0], _ERROR: signs[2]}
        found[_ADD], found[_SCALE] = signs[1]
        if self.by_residuals:
            self._make_residual(found, rotated, residuals, centroids[partitions])
        if self.bits > 1:
            found |= {_FURTHER: further[0], _ADD_ALL: further[1][0], _SCALE_ALL: further[1][1]}
        _require_finite(found)
        return found

    def _make_residual(
        self,
        found: dict[str, NDArray[Any]],
        rotated: NDArray[np.float32],
        residuals: NDArray[np.float32],
        centroids: NDArray[np.float32],
    ) -> None:
        """Replace factors by those of the older layout, whose sums are not shifted."""
        found[_SCALE] = found[_SCALE] * np.float32(np.sqrt(self.dimension) / 2)
        if self.metric is Metric.DOT:
            found[_ADD] = 1 - np.einsum("ij,ij->i", residuals, centroids)
        else:
            found[_ADD] = np.einsum("ij,ij->i", rotated, rotated)

    def arranged(self, columns: Columns) -> Columns:
        """Return the plain rows of one partition as they are stored."""
        if not self.is_packed:
            return columns
        return {**columns, _SIGNS: kernels.pack_sign_codes(_contiguous(columns[_SIGNS]))}

    def plain(self, columns: Columns) -> Columns:
        """Return the stored rows of one partition as plain rows: the inverse of `arranged`."""
        if not self.is_packed:
            return columns
        return {**columns, _SIGNS: kernels.unpack_sign_codes(_contiguous(columns[_SIGNS]))}

    def metadata(self, add_buffer: Callable[[bytes], int]) -> str:
        """Return the JSON object of `storage_metadata`."""
        position = None
        if isinstance(self.rotation, MatrixRotation):
            position = add_buffer(pack_tensor(self.rotation.matrix))
        return self._json(position, self.is_packed)

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """Return the `search.k` nearest rows of all probes, for each query."""
        return self._codes.nearest(
            [self._part(probe) for probe in probes],
            self.rotation.rotated(search.queries),
            search.k,
            by_signs=search.approx_mode == "fast",
            by_residuals=self.by_residuals,
            packed=self.is_packed,
            lower=search.lower,
            upper=search.upper,
            earlier=earlier,
        )

    def _part(self, probe: Probe) -> tuple[Any, ...]:
        columns = probe.columns
        signs = columns[_SIGNS], columns[_ADD], columns[_SCALE]
        further = None
        if self.bits > 1:
            names = _FURTHER, _ERROR, _ADD_ALL, _SCALE_ALL
            further = tuple(columns[name] for name in names)
        centroid = self._rotated.get(probe.number)
        if centroid is None:
            centroid = self.rotation.rotated(probe.centroid[np.newaxis])[0]
            self._rotated[probe.number] = centroid
        return signs, further, probe.rows, probe.allowed, probe.queries, centroid

    def decoded(
        self, columns: Columns, partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> NDArray[np.float32]:
        """Return approximate vectors of plain rows, shape (n, D)."""
        further = columns[_FURTHER] if self.bits > 1 else None
        scale = columns[_SCALE if further is None else _SCALE_ALL]
        codes = self._codes.decode(_contiguous(columns[_SIGNS]), further)
        if self.by_residuals:
            scale = scale * np.float32(2 / np.sqrt(self.dimension))
        factors = -scale if self.metric is Metric.DOT else scale * np.float32(-0.5)
        residuals = self.rotation.restored(codes * factors[:, np.newaxis])
        return residuals + np.asarray(centroids, np.float32)[partitions]

    def flaw(self, columns: Columns) -> str | None:
        """See `Quantizer.flaw`."""
        wrong = [name for name in (_ADD, _SCALE) if np.isnan(columns[name]).any()]
        return f"column {wrong[0]!r}: NaN" if wrong else None

    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` about it, by the reference's names."""
        found: dict[str, Any] = json.loads(self._json(None, self.is_packed))
        return found

    def _json(self, position: int | None, is_packed: bool) -> str:
        is_fast = isinstance(self.rotation, FastRotation)
        signs = self.rotation.signs.tolist() if isinstance(self.rotation, FastRotation) else None
        values = {
            "rotate_mat_position": position,
            "fast_rotation_signs": signs,
            "rotation_type": "fast" if is_fast else "matrix",
            "code_dim": self.dimension,
            "num_bits": self.bits,
            "packed": is_packed,
            "query_estimator": _RESIDUAL if self.by_residuals else _RAW,
        }
        return json.dumps(values, separators=(",", ":"))


def _rotation(
    metadata: Mapping[str, Any], read_buffer: Callable[[int], bytes], path: str
) -> Rotation:
    kind = metadata.get("rotation_type") or "matrix"
    _require_known("rotation_type", kind, ("fast", "matrix"), path)
    try:
        if kind == "fast":
            dimension = _number(metadata, "code_dim", path)
            if dimension <= 0 or dimension % 8:
                raise CorruptFileError(f"RQ codes of dimension {dimension}", path)
            signs = np.array(metadata.get("fast_rotation_signs"), np.uint8)
            return FastRotation(signs.reshape(-1), dimension)
        matrix = unpack_tensor(
            read_buffer(_number(metadata, "rotate_mat_position", path)), path, "rotation"
        )
        if not len(matrix) or len(matrix) % 8:
            raise CorruptFileError(f"RQ codes of dimension {len(matrix)}", path)
        return MatrixRotation(matrix, len(matrix))
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(f"signs of a rotation: {error}", path) from error


def _number(metadata: Mapping[str, Any], key: str, path: str) -> int:
    value = metadata.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptFileError(f"RQ codes with {key} {value!r}", path)
    return value


def _require_known(key: str, value: object, known: Sequence[str], path: str) -> None:
    if value not in known:
        raise UnsupportedFeatureError(
            f"RQ codes with {key} {value!r}; known are {', '.join(known)}\n  {path}"
        )


def _require_finite(columns: Columns) -> None:
    """Raise InvalidInputError if a factor is too large for float32, as distances are then, too."""
    if not all(np.isfinite(one).all() for one in columns.values() if one.dtype == np.float32):
        raise InvalidInputError(
            "vectors are so long that their squares overflow float32; scale the vectors, or use "
            "the metric cosine"
        )


def _no_buffer(number: int) -> bytes:
    raise CorruptFileError(f"a rotation in global buffer {number}, which a model does not have")


def _contiguous(rows: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(rows)
