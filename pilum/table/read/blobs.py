"""Reading of blob payloads: from descriptors to places, and from places to bytes.

    descriptors ──▶ places: an object, a position, a size ──▶ one request per object ──▶ binary

Places are found for whole columns at a time. Each object is read once, however many of its payloads
are requested. Source: docs/format/blobs.md, "Where payloads lie".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import validity_mask
from pilum.container.blobs import distinct_uris, map_blobs
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFormatError
from pilum.format.blobs import BlobKind
from pilum.format.fields import Field, FieldId
from pilum.format.rows import by_fragment
from pilum.storage.base import Ranges, Source, Store
from pilum.storage.open import open_object
from pilum.table.model.names import sidecar_beside
from pilum.table.read.columns import ScanColumn
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses

__all__ = [
    "BlobHome",
    "BlobPlace",
    "blob_column",
    "blob_places",
    "materialize",
    "payloads",
    "read_places",
]

_SIDECAR = re.compile(r".+/[01]{32}\.blob")


class BlobHome(Protocol):
    """Interface of the owner of blobs: a fragment, or a file."""

    def file_of(self, field_id: FieldId) -> tuple[Store, str] | None:
        """Return the store and path of the file that contains a leaf; None if none does."""

    def managed_blob(self, field_id: FieldId, path: str) -> tuple[Store, str]:
        """Return the store and path of a managed blob to which the file of a leaf refers."""

    def blob_below(self, base_id: int, path: str) -> tuple[Store, str]:
        """Return the store and path of a blob, given its base path and its place there."""


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Location of one payload: a range of an object. It is plain, so other processes can use it."""

    store: Store
    path: str
    position: int
    size: int

    def source(self) -> Source:
        """Open the object; raise CorruptFileError if it is a missing file of the table."""
        try:
            return self.store.source(self.path)
        except NotFoundError:
            if _SIDECAR.fullmatch(self.path) is None:
                raise
            raise CorruptFileError(
                "a file of blobs is missing that a data file refers to",
                f"{self.store.uri}/{self.path}",
            ) from None


@dataclass(frozen=True, slots=True)
class _Places:
    """Locations of many payloads.

    Attributes:
        objects: Store and path of the objects that contain the payloads. The first ones belong to
            one data file, so that their payloads do not overlap.
        which: int64, index of the object of each payload; -1 for null.
        positions: int64, positions of the first bytes.
        sizes: int64, sizes in bytes.
        num_owned: Number of the objects that belong to one data file.
    """

    objects: list[tuple[Store, str]]
    which: NDArray[np.int64]
    positions: NDArray[np.int64]
    sizes: NDArray[np.int64]
    num_owned: int = 0

    def __iter__(self) -> Iterator[BlobPlace | None]:
        columns = (self.which.tolist(), self.positions.tolist(), self.sizes.tolist())
        for which, position, size in zip(*columns, strict=True):
            if which < 0:
                yield None
                continue
            store, path = self.objects[which]
            yield BlobPlace(store, path, position, size)


def blob_column(snapshot: Snapshot, name: str) -> Field:
    """Return the field of a blob column.

    Raises:
        ColumnNotFoundError: If the column does not exist.
        InvalidInputError: If the column does not hold blobs, or holds them within lists.
        UnsupportedFormatError: If the table has legacy files.
    """
    field = snapshot.schema.project([name]).fields[0]
    for _ in range(0 if field.name == name else name.count(".")):
        field = field.children[0]
    if not field.blob_version:
        raise InvalidInputError(f"column {name!r} does not hold blobs")
    if snapshot.described is snapshot.schema:
        raise UnsupportedFormatError(
            f"column {name!r}: files of version 0.1 keep blobs among the values; scan or take them"
        )
    return field


def blob_places(
    snapshot: Snapshot, name: str, addresses: NDArray[np.uint64]
) -> list[BlobPlace | None]:
    """Find payloads by the addresses of their rows, in that order; None for nulls.

    InvalidInputError is raised if a row is deleted or does not exist; others are as `blob_column`.
    """
    field = blob_column(snapshot, name)
    table = take_addresses(snapshot, addresses, [name])
    if table.num_rows != len(addresses):
        raise InvalidInputError(f"{len(addresses) - table.num_rows} of the rows are deleted")
    column = table.column(0)
    if table.column_names != [name]:
        column = pc.struct_field(column, name.split(".")[1:])
    descriptors = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0)
    places: list[BlobPlace | None] = [None] * len(addresses)
    for number, rows in by_fragment(addresses):
        fragment = snapshot.manifest.fragments.find(number)
        assert fragment is not None  # its rows were read
        found = _locate(snapshot.reader(fragment), field, descriptors.take(pa.array(rows)))
        for row, place in zip(rows.tolist(), found, strict=True):
            places[row] = place
    return places


def read_places(places: Sequence[BlobPlace | None]) -> list[bytes | None]:
    """Read whole payloads, with one request per object."""
    known = [place for place in places if place is not None]
    objects = list(dict.fromkeys((place.store.uri, place.path) for place in known))
    numbers = {key: number for number, key in enumerate(objects)}
    stores = {(place.store.uri, place.path): place.store for place in known}
    rows = [
        (-1, 0, 0)
        if place is None
        else (numbers[place.store.uri, place.path], place.position, place.size)
        for place in places
    ]
    which, positions, sizes = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    found = _Places([(stores[key], key[1]) for key in objects], which, positions, sizes)
    read: list[bytes | None] = _payloads(found).to_pylist()
    return read


def materialize(
    home: BlobHome, columns: Sequence[ScanColumn], table: pa.Table, schema: pa.Schema
) -> pa.Table:
    """Replace descriptors in the rows of a fragment or file by their payloads, at any depth.

    `schema` is that of the result.

    Raises:
        UnsupportedFormatError: If a payload is in a place that this library cannot read.
        NotFoundError: If an object outside of the table is missing.
    """
    arrays = []
    for column, found, field in zip(columns, table.columns, schema, strict=True):
        chunks = found.chunks
        if column.leaf is not None:
            chunks = [map_blobs(column.leaf, chunk, partial(payloads, home)) for chunk in chunks]
        arrays.append(pa.chunked_array(chunks, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def payloads(home: BlobHome, field: Field, descriptors: pa.Array) -> pa.Array:
    """Return the payloads of the descriptors of a column, as large_binary; null for nulls."""
    return _payloads(_locate(home, field, descriptors))


def _locate(home: BlobHome, field: Field, descriptors: pa.Array) -> _Places:
    place = home.file_of(field.id)
    alive = validity_mask(descriptors)
    positions = _numbers(descriptors, "position", field, alive)
    sizes = _numbers(descriptors, "size", field, alive)
    if place is None:
        nothing = np.full(len(descriptors), -1, dtype=np.int64)
        return _Places([], nothing, positions, sizes)
    which = np.where(alive, 0, -1)
    objects: list[tuple[Store, str]] = [place]
    num_owned = 1
    if field.blob_version == 2:
        num_owned = _locate_outside(home, field, descriptors, alive, which, objects)
        _measure(objects, which, positions, sizes, descriptors)
    return _Places(objects, which, positions, sizes, num_owned)


def _numbers(
    descriptors: pa.Array, name: str, field: Field, alive: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return a member of the descriptors, 0 for nulls."""
    if len(descriptors) == 0 or not alive.any():
        return np.zeros(len(descriptors), dtype=np.int64)
    values = np.where(alive, descriptors.field(name).fill_null(0).to_numpy(), 0)
    if int(values.max()) >= 1 << 63:
        raise CorruptFileError(f"blob {name} {int(values.max())}", f"column {field.name!r}")
    return values.astype(np.int64)


def _locate_outside(
    home: BlobHome,
    field: Field,
    descriptors: pa.Array,
    alive: NDArray[np.bool_],
    which: NDArray[np.int64],
    objects: list[tuple[Store, str]],
) -> int:
    """Locate payloads outside of the data file; the distinct objects are few.

    The data file is the first of the objects; sidecars come next. Returns the number of objects
    that belong to the data file.
    """
    store, file_path = objects[0]
    kinds = np.where(alive, descriptors.field("kind").fill_null(0).to_numpy(), 0)
    ids = descriptors.field("blob_id").fill_null(0).to_numpy()
    if (newest := int(kinds.max(initial=0))) > BlobKind.MANAGED_IN_BASE:
        raise UnsupportedFormatError(f"blobs of kind {newest} are not supported")
    for beside in (BlobKind.PACKED, BlobKind.DEDICATED):
        rows = np.flatnonzero(kinds == beside)
        found, index = np.unique(ids[rows], return_inverse=True)
        which[rows] = len(objects) + index
        objects.extend((store, sidecar_beside(file_path, number)) for number in found.tolist())
    num_owned = len(objects)
    for kind, base_id, rows, uris in distinct_uris(kinds, ids, descriptors.field("blob_uri")):
        which[rows] = len(objects) + uris.indices.to_numpy()
        place = partial(_place_outside, home, field, kind, base_id, options=store.options)
        objects.extend(map(place, uris.dictionary.to_pylist()))
    return num_owned


def _place_outside(
    home: BlobHome,
    field: Field,
    kind: int,
    base_id: int,
    uri: str,
    options: Mapping[str, str],
) -> tuple[Store, str]:
    if kind == BlobKind.MANAGED:
        if base_id:
            raise CorruptFileError(f"a managed blob at {uri!r} names base path {base_id}")
        return home.managed_blob(field.id, uri)
    if kind == BlobKind.MANAGED_IN_BASE or base_id:
        return home.blob_below(base_id, uri)
    return _object_at(uri, options)


def _object_at(uri: str, options: Mapping[str, str] | None = None) -> tuple[Store, str]:
    """Return the store and path of an object that a blob refers to by a location.

    The storage options of the table are used for objects in the same object store. The location is
    damaged if it is not an absolute URI, and unsupported if no store has its scheme.
    """
    if "://" not in uri:
        raise CorruptFileError(f"a blob at {uri!r}, which is no absolute URI")
    try:
        return open_object(uri, options)
    except InvalidInputError as error:
        raise CorruptFileError(f"a blob at {error}") from None


def _measure(
    objects: list[tuple[Store, str]],
    which: NDArray[np.int64],
    positions: NDArray[np.int64],
    sizes: NDArray[np.int64],
    descriptors: pa.Array,
) -> None:
    """Set the sizes of payloads that are a whole object at a URI to the size of that object."""
    kinds = descriptors.field("kind").fill_null(0).to_numpy()
    whole = (which >= 0) & (kinds == BlobKind.EXTERNAL) & (sizes == 0) & (positions == 0)
    for number in np.unique(which[whole]).tolist():
        store, path = objects[number]
        sizes[whole & (which == number)] = store.source(path).size


def _payloads(places: _Places) -> pa.Array:
    """Read the bytes of all places, as large_binary."""
    wanted = (places.which >= 0) & (places.sizes > 0)
    order = np.flatnonzero(wanted)[np.argsort(places.which[wanted], kind="stable")]
    pieces = [
        _read_object(int(places.which[rows[0]]), places, rows)
        for rows in _groups(order, places.which)
    ]
    lengths = places.sizes[order]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    data = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
    found = pa.Array.from_buffers(
        pa.large_binary(), len(order), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    if len(order) == len(wanted) and bool((order[:-1] < order[1:]).all()):
        return found
    index = np.full(len(wanted), len(order), dtype=np.int64)
    index[order] = np.arange(len(order))
    with_empty = pa.concat_arrays([found, pa.array([b""], pa.large_binary())])
    return with_empty.take(pa.array(index, mask=places.which < 0))


def _groups(order: NDArray[np.int64], which: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    if len(order) == 0:
        return []
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)


def _read_object(which: int, places: _Places, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Read payloads of one object, concatenated.

    Those of an object of the data file do not overlap, which bounds their total size.
    """
    store, path = places.objects[which]
    positions, sizes = places.positions[rows], places.sizes[rows]
    source = BlobPlace(store, path, 0, 0).source()
    end = int((positions.astype(np.uint64) + sizes.astype(np.uint64)).max())
    if end > source.size:
        raise CorruptFileError(f"a blob ends at byte {end} of {source.size}", source.path)
    if which < places.num_owned and int(sizes.sum()) > source.size:
        raise CorruptFileError(f"{int(sizes.sum())} bytes of blobs overlap", source.path)
    fetched = source.read(Ranges(positions, sizes))
    ranges = np.column_stack((fetched.starts, fetched.sizes))
    return kernels.gather_bytes(fetched.data, ranges)
