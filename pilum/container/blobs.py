"""Write the payloads of blob columns and replace them with descriptors.

    v1   the data file, at multiples of 64 bytes
    v2   up to 64 KiB the same (*inline*), up to 4 MiB one after another in files beside it
         (*packed*), larger ones each in a file of its own (*dedicated*)

The thresholds are metadata of the field. In tables with managed blobs, objects that belong to no
data file take the place of the files beside it. Columns of v2 may also be *prepared*: they contain
descriptors of payloads that are already written: beside a single file, or in objects to which a
table with managed blobs refers. The descriptors are checked and stored.
Payloads are written as batches arrive, so that only descriptors are buffered until a page is due.
Source: docs/format/blobs.md, "Where payloads lie" and "Prepared columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.blocks import validity_mask
from pilum.container.mapped import map_fields
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.blobs import DESCRIPTOR_V2, BlobKind, is_prepared
from pilum.format.fields import Field

__all__ = ["Managed", "Sidecars", "contiguous", "distinct_uris", "map_blobs", "place_blobs"]

_ALIGNMENT = 64
_PAD = b"\x48"
_LARGE_BYTES = 64 * 1024
"""Payloads of at least this average size are written one by one instead of being joined first."""

_INLINE_KEY = "lance-encoding:blob-inline-size-threshold"
_DEDICATED_KEY = "lance-encoding:blob-dedicated-size-threshold"
_PACK_KEY = "lance-encoding:blob-pack-file-size-threshold"
_NO_KIND = 255
_BESIDE = (BlobKind.PACKED, BlobKind.DEDICATED)
_BY_URI = (BlobKind.EXTERNAL, BlobKind.MANAGED, BlobKind.MANAGED_IN_BASE)
_INLINE_BYTES = 64 * 1024
_DEDICATED_BYTES = 4 * 1024 * 1024

Write: TypeAlias = Callable[[Any], int]
"""A function that appends a buffer to the data file and returns where it starts."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The places of managed objects, as descriptors name them.

    Attributes:
        base_id: Id of the base path that contains them; None for the folder of the data file.
        uris: Path of each object there.
    """

    base_id: int | None
    uris: pa.StringArray


class Sidecars(Protocol):
    """Files for payloads of blobs: beside a data file, or managed objects."""

    def pack(
        self, data: memoryview, sizes: NDArray[np.int64], max_bytes: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Append payloads, one after another, and return the file and position of each."""

    def dedicate(self, data: Any) -> int:
        """Write one payload to a file of its own and return the file's id."""

    def managed(self, numbers: NDArray[np.uint32]) -> Managed | None:
        """Return the managed objects of files; None if the files lie beside the data file."""

    def check_uri(self, uri: str, path: str) -> None:
        """Raise an error if a blob must not refer to a URI."""

    def check_reference(self, kind: int, base_id: int, uri: str, path: str) -> None:
        """Raise an error if a descriptor that is already prepared must not refer to a URI."""


def place_blobs(field: Field, array: pa.Array, write: Write, sidecars: Sidecars | None) -> pa.Array:
    """Write the payloads of a column to the data file, and return it with descriptors.

    Blobs of version 2 that are not prepared go to the files beside it.

    Raises:
        InvalidInputError: If a blob has neither data nor a URI, or both; or if a descriptor is
            invalid.
        UnsupportedFeatureError: If a descriptor refers to a payload that does not lie beside the
            file.
    """

    def place(blob: Field, values: pa.Array) -> pa.Array:
        if blob.blob_version == 1:
            return _place_v1(values, write)
        if is_prepared(blob):
            return _place_prepared(blob, values, write, sidecars)
        assert sidecars is not None
        return _place_v2(blob, values, write, sidecars)

    return map_blobs(field, array, place)


def map_blobs(
    field: Field, array: pa.Array, form: Callable[[Field, pa.Array], pa.Array]
) -> pa.Array:
    """Replace the values of blobs in an array by those that `form` makes of them, at any depth."""
    return map_fields(field, array, lambda one: one.blob_version > 0, form)


def _place_v1(array: pa.Array, write: Write) -> pa.Array:
    sizes = _sizes(array)
    positions = np.zeros(len(array), dtype=np.uint64)
    there = np.flatnonzero(sizes)
    positions[there] = _write_aligned(array.take(pa.array(there)), write)
    children = [pa.array(positions), pa.array(sizes.astype(np.uint64))]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, names=["position", "size"], mask=mask)


def _sizes(array: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(), dtype=np.int64)


def _write_aligned(array: pa.Array, write: Write) -> NDArray[np.uint64]:
    """Write payloads, each at a multiple of 64 bytes, and return where they start."""
    sizes = _sizes(array)
    if len(array) == 0:
        return np.empty(0, dtype=np.uint64)
    if sizes.mean() >= _LARGE_BYTES:
        starts = []
        for value in array:
            payload = value.as_buffer()
            starts.append(write(payload))
            write(_PAD * (-len(payload) % _ALIGNMENT))
        return np.array(starts, dtype=np.uint64)
    fill = -sizes % _ALIGNMENT
    ends = np.cumsum(np.concatenate(([0], fill)))
    pads = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(fill), [None, pa.py_buffer(ends), pa.py_buffer(_PAD * ends[-1])]
    )
    start = write(contiguous(pc.binary_join_element_wise(array, pads, pa.scalar(b"", array.type))))
    return np.asarray(start + np.cumsum(sizes + fill) - (sizes + fill), dtype=np.uint64)


def contiguous(array: pa.LargeBinaryArray) -> memoryview:
    """Return the bytes of all values, none of which are null, as one view without a copy."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    return memoryview(b"") if data is None else memoryview(data)[int(bounds[0]) : int(bounds[-1])]


def _place_v2(field: Field, array: pa.Array, write: Write, sidecars: Sidecars) -> pa.Array:
    data, uri = array.field("data"), array.field("uri")
    alive = validity_mask(array)
    _check_sources(field, data, uri, alive)
    made = _Descriptors(len(array))
    sizes = _sizes(data)
    has_data = alive & validity_mask(data)
    inline = sizes <= _threshold(field, _INLINE_KEY, _INLINE_BYTES)
    large = sizes > _threshold(field, _DEDICATED_KEY, _DEDICATED_BYTES)
    made.size[has_data] = sizes[has_data]
    rows = np.flatnonzero(has_data & inline & ~large)
    made.position[rows] = _write_aligned(data.take(pa.array(rows)), write)
    max_bytes = _threshold(field, _PACK_KEY, 0) or None
    packed = np.flatnonzero(has_data & ~inline & ~large)
    _pack(made, data, packed, sizes, sidecars, max_bytes)
    for row in np.flatnonzero(has_data & large).tolist():
        made.kind[row] = BlobKind.DEDICATED
        made.blob_id[row] = sidecars.dedicate(data[row].as_buffer())
    made.refer_to(sidecars)
    outside = alive & validity_mask(uri)
    for text in uri.filter(pa.array(outside)).unique().to_pylist():
        sidecars.check_uri(text, field.name)
    made.kind[outside] = BlobKind.EXTERNAL
    for name, member in (("position", made.position), ("size", made.size)):
        if array.type.get_field_index(name) >= 0:
            member[outside] = _members(array, name, outside)
    made.set_uris(outside, uri)
    return made.array(array)


def _pack(
    made: _Descriptors,
    data: pa.Array,
    rows: NDArray[np.int64],
    sizes: NDArray[np.int64],
    sidecars: Sidecars,
    max_bytes: int | None,
) -> None:
    if len(rows) == 0:
        return
    made.kind[rows] = BlobKind.PACKED
    data = data.take(pa.array(rows))
    placed = sidecars.pack(contiguous(data), sizes[rows], max_bytes)
    made.blob_id[rows], made.position[rows] = placed


def _place_prepared(
    field: Field, array: pa.Array, write: Write, sidecars: Sidecars | None
) -> pa.Array:
    alive = validity_mask(array)
    kinds = np.where(alive, array.field("kind").fill_null(_NO_KIND).to_numpy(), BlobKind.INLINE)
    _check_kinds(field, kinds, in_table=sidecars is not None)
    inline, beside = alive & (kinds == BlobKind.INLINE), np.isin(kinds, _BESIDE)
    by_uri, managed = np.isin(kinds, _BY_URI), np.isin(kinds, _BY_URI[1:])
    in_base, placed = kinds == BlobKind.MANAGED_IN_BASE, managed | (kinds == BlobKind.PACKED)
    _require_members(field, array, {"data": inline, "blob_id": beside | in_base, "uri": by_uri})
    _require_members(field, array, {"blob_size": beside | managed, "position": placed})
    made = _Descriptors(len(array))
    made.kind[:] = kinds
    made.blob_id[beside | by_uri] = _members(array, "blob_id", beside | by_uri)
    made.size[beside | by_uri] = _members(array, "blob_size", beside | by_uri)
    made.position[placed | by_uri] = _members(array, "position", placed | by_uri)
    if (wrong := beside & (made.blob_id == 0)).any():
        raise _refused(field, wrong, "has no blob_id")
    if (wrong := (beside | by_uri) & (made.position > ~made.size)).any():
        raise _refused(field, wrong, "ends beyond 64 bits")
    made.set_uris(by_uri, array.field("uri"))
    if sidecars is not None:
        for kind, base_id, _, uris in distinct_uris(made.kind, made.blob_id, made.uris):
            for uri in uris.dictionary.to_pylist():
                sidecars.check_reference(kind, base_id, uri, field.name)
    data = array.field("data").filter(pa.array(inline))
    made.size[inline] = _sizes(data)
    made.position[inline] = _write_aligned(data, write)
    return made.array(array)


def distinct_uris(
    kinds: NDArray[np.uint8], blob_ids: NDArray[np.uint32], uris: pa.Array
) -> Iterator[tuple[int, int, NDArray[np.intp], pa.DictionaryArray]]:
    """Yield the kinds and base ids of descriptors with a URI, each with their rows and its URIs."""
    for kind in np.unique(kinds[np.isin(kinds, _BY_URI)]).tolist():
        rows = np.flatnonzero(kinds == kind)
        for base_id in np.unique(blob_ids[rows]).tolist():
            own = rows[blob_ids[rows] == base_id]
            yield kind, base_id, own, uris.take(pa.array(own)).dictionary_encode()


def _check_kinds(field: Field, kinds: NDArray[np.uint8], *, in_table: bool) -> None:
    unknown = kinds > BlobKind.MANAGED_IN_BASE
    if unknown.any():
        raise _refused(field, unknown, f"is of kind {kinds[unknown.argmax()]}")
    wrong = np.isin(kinds, _BESIDE if in_table else _BY_URI)
    if not wrong.any():
        return
    row = int(wrong.argmax())
    where = f"column {field.name!r}, row {row} of a batch: descriptors of "
    name = BlobKind(int(kinds[row])).name.lower().replace("_", " ")
    if in_table:
        raise UnsupportedFeatureError(
            f"{where}{name} blobs belong to one data file, and tables name theirs themselves"
        )
    raise UnsupportedFeatureError(
        f"{where}{name} blobs are not written to single files; references are, by write_dataset"
    )


def _require_members(field: Field, array: pa.Array, needed: dict[str, NDArray[np.bool_]]) -> None:
    for name, rows in needed.items():
        missing = rows & ~validity_mask(array.field(name))
        if missing.any():
            raise _refused(field, missing, f"has no {name}")


def _refused(field: Field, rows: NDArray[np.bool_], what: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {field.name!r}, row {int(rows.argmax())} of a batch: a descriptor {what}"
    )


def _members(array: pa.Array, name: str, rows: NDArray[np.bool_]) -> NDArray[Any]:
    return np.asarray(array.field(name).fill_null(0).to_numpy())[rows]


class _Descriptors:
    """The members of descriptors, initially those of empty inline blobs."""

    def __init__(self, count: int) -> None:
        self.kind = np.zeros(count, dtype=np.uint8)
        self.position = np.zeros(count, dtype=np.uint64)
        self.size = np.zeros(count, dtype=np.uint64)
        self.blob_id = np.zeros(count, dtype=np.uint32)
        self.uris: pa.Array = pa.repeat(pa.scalar(""), count)

    def set_uris(self, rows: NDArray[np.bool_], uris: pa.Array) -> None:
        """Set the URIs of rows to the values that an array has there."""
        if rows.any():
            self.uris = pc.if_else(pa.array(rows), uris, self.uris)

    def refer_to(self, sidecars: Sidecars) -> None:
        """Refer to managed objects instead of files beside the data file, if there are any."""
        stored = np.isin(self.kind, _BESIDE)
        managed = sidecars.managed(self.blob_id[stored]) if stored.any() else None
        if managed is None:
            return
        in_base = managed.base_id is not None
        self.kind[stored] = BlobKind.MANAGED_IN_BASE if in_base else BlobKind.MANAGED
        self.blob_id[stored] = managed.base_id or 0
        self.uris = pc.replace_with_mask(self.uris, pa.array(stored), managed.uris)

    def array(self, given: pa.Array) -> pa.Array:
        """Return the descriptors, null where an array is."""
        children = [pa.array(self.kind), pa.array(self.position), pa.array(self.size)]
        children += [pa.array(self.blob_id), self.uris]
        fields = [member.arrow for member in DESCRIPTOR_V2]
        mask = given.is_null() if given.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _check_sources(field: Field, data: pa.Array, uri: pa.Array, alive: NDArray[np.bool_]) -> None:
    wrong = alive & (validity_mask(data) == validity_mask(uri))
    if wrong.any():
        raise InvalidInputError(
            f"column {field.name!r}, row {int(wrong.argmax())} of a batch: a blob must have either "
            "data or a uri"
        )


def _threshold(field: Field, key: str, default: int) -> int:
    text = field.metadata.get(key)
    if text is None:
        return default
    if not text.isdigit():
        raise InvalidInputError(f"column {field.name!r}: {key} = {text!r} is not a size in bytes")
    return int(text)
