"""Buffer the rows of a field until they form pages of its columns.

    struct   column k       only counts its items; one page without bytes at the end of the data
    list     column k       ends of the lists; a page of them ends with a page of their items
    others   column k       values, a page when enough are buffered

A page that is due is yielded as a `PageJob`, to be encoded by any free thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import join_arrays
from pilum.blocks import validity_mask
from pilum.encodings.options import EncodingOptions
from pilum.encodings.v2_0.base import ArrayEncoding, Buffers, Encoded
from pilum.encodings.v2_0.choose import encode_array, is_packed
from pilum.encodings.v2_0.list import List
from pilum.encodings.v2_0.struct import Struct, encode_places
from pilum.errors import InvalidInputError
from pilum.format.fields import DESCRIPTOR_ID, Field, FieldId
from pilum.levels import shown_items

__all__ = ["ColumnPages", "EncoderMaker", "FieldEncoder", "PageJob"]

T = TypeVar("T", bound=np.generic)

_OFFSET_BYTES = 8
_NARROW_BITS = 16


@dataclass
class ColumnPages:
    """The pages of one column so far, each with its items, buffers and encoding."""

    field_id: FieldId
    is_blob: bool
    pages: list[tuple[int, Buffers, ArrayEncoding]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PageJob:
    """A page to be encoded and written, of about `num_bytes`.

    `is_hard` says whether it will be compressed.
    """

    column: ColumnPages
    num_items: int
    num_bytes: int
    is_hard: bool
    encode: Callable[[], Encoded]


class FieldEncoder(ABC):
    """An encoder of the rows of a field, or of the items of a list."""

    @abstractmethod
    def add(self, array: pa.Array) -> Iterator[PageJob]:
        """Add rows and yield the pages that are due."""

    @abstractmethod
    def flush(self, *, empty: bool = False) -> Iterator[PageJob]:
        """Yield all buffered rows; with `empty`, yield a page without items if there are none."""

    def finish(self) -> Iterator[PageJob]:
        """Yield the pages that lie at the end of the data."""
        yield from ()

    @abstractmethod
    def goes_with(self, array: pa.Array) -> bool:
        """Return whether rows may share a page with the rows before them."""

    @property
    @abstractmethod
    def waiting_bytes(self) -> int:
        """Bytes that are buffered for pages."""


class ValuesEncoder(FieldEncoder):
    """An encoder of the values of one column."""

    def __init__(self, field: Field, path: str, make: EncoderMaker, column: ColumnPages) -> None:
        self._field = field
        self._path = path
        self._page_bytes = make.page_bytes
        self._options = EncodingOptions.of_field([(path, field.metadata)], make.encoding)
        self._column = column
        self._waiting: list[pa.Array] = []
        self._waiting_bytes = 0
        self._last_dictionary: pa.Array | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are buffered for pages."""
        return self._waiting_bytes

    def add(self, array: pa.Array) -> Iterator[PageJob]:
        """Add values and yield the pages that are due."""
        if not self.goes_with(array):
            yield from self.flush()
        if _has_narrow_keys(array.type):
            self._last_dictionary = array.dictionary
        while len(array):
            room = max(self._page_bytes - self._waiting_bytes, 0)
            size = array.nbytes
            rows = len(array) if size <= room else max(int(room / size * len(array)), 1)
            piece, array = array.slice(0, rows), array.slice(rows)
            self._waiting.append(piece)
            self._waiting_bytes += piece.nbytes
            if self._waiting_bytes >= self._page_bytes or len(array):
                yield from self.flush()

    def flush(self, *, empty: bool = False) -> Iterator[PageJob]:
        """Yield one page."""
        waiting, num_bytes = self._waiting, self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if not waiting and not empty:
            return
        array = (
            join_arrays(waiting, f"column {self._path!r}")
            if waiting
            else pa.nulls(0, self._field.arrow_type)
        )
        is_hard = self._options.compression is not None
        yield PageJob(self._column, len(array), num_bytes, is_hard, self._job(array))

    def _job(self, array: pa.Array) -> Callable[[], Encoded]:
        if self._column.is_blob:
            return partial(encode_places, array)
        if pt.is_struct(array.type):
            _require_no_nulls(array, self._path)
        return partial(encode_array, array, self._options)

    def goes_with(self, array: pa.Array) -> bool:
        """Return False if the dictionary differs so that narrow keys may not cover both."""
        last = self._last_dictionary
        return last is None or array.dictionary.equals(last)


class ListsEncoder(FieldEncoder):
    """An encoder of lists: their end offsets, and the encoder of their items."""

    def __init__(self, make: EncoderMaker, column: ColumnPages, items: FieldEncoder) -> None:
        self._page_lists = max(make.page_bytes // _OFFSET_BYTES, 1)
        self._column = column
        self._items = items
        self._ends: list[NDArray[np.int64]] = []
        self._valid: list[NDArray[np.bool_]] = []
        self._count = 0
        self._num_items = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are buffered for pages, including those of the items."""
        return self._count * _OFFSET_BYTES + self._items.waiting_bytes

    def add(self, array: pa.Array) -> Iterator[PageJob]:
        """Add lists and their items; items below null lists are dropped."""
        while len(array):
            room = self._page_lists - self._count
            piece, array = array.slice(0, room), array.slice(room)
            valid = validity_mask(piece)
            offsets, _, items = shown_items(piece, valid if piece.null_count else None)
            if self._count and not self._items.goes_with(items):
                # A page of lists must not need several dictionaries, or it could not be read as a
                # whole.
                yield from self.flush()
            self._ends.append(offsets[1:] + self._num_items if self._num_items else offsets[1:])
            self._num_items += len(items)
            self._valid.append(valid)
            self._count += len(piece)
            yield from self._items.add(items)
            if self._count >= self._page_lists:
                yield from self.flush()

    def goes_with(self, array: pa.Array) -> bool:
        """Return whether the items may share a page with those before them."""
        return self._items.goes_with(array.values)

    def flush(self, *, empty: bool = False) -> Iterator[PageJob]:
        """Yield one page of lists, then the buffered items."""
        count, self._count, self._num_items = self._count, 0, 0
        if not count and not empty:
            return
        ends, valid = _together(self._ends, np.int64), _together(self._valid, np.bool_)
        self._ends, self._valid = [], []
        encode = partial(List.encode, ends, None if valid.all() else valid)
        yield PageJob(self._column, count, ends.nbytes, False, encode)
        yield from self._items.flush(empty=not len(ends) or not ends[-1])

    def finish(self) -> Iterator[PageJob]:
        """Yield the pages of the items that lie at the end of the data."""
        yield from self._items.finish()


class StructsEncoder(FieldEncoder):
    """An encoder of structs: the encoders of their members, and a count."""

    def __init__(self, path: str, column: ColumnPages, members: list[FieldEncoder]) -> None:
        self._path = path
        self._column = column
        self._members = members
        self._count = 0

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the members that are buffered for pages."""
        return sum(member.waiting_bytes for member in self._members)

    def add(self, array: pa.Array) -> Iterator[PageJob]:
        """Add structs, none of which may be null."""
        _require_no_null_structs(array, self._path)
        self._count += len(array)
        for index, member in enumerate(self._members):
            yield from member.add(array.field(index))

    def goes_with(self, array: pa.Array) -> bool:
        """Return whether all members may share a page with those before them."""
        pairs = enumerate(self._members)
        return all(member.goes_with(array.field(index)) for index, member in pairs)

    def flush(self, *, empty: bool = False) -> Iterator[PageJob]:
        """Yield the pages of the members."""
        for member in self._members:
            yield from member.flush(empty=empty)

    def finish(self) -> Iterator[PageJob]:
        """Yield the only page of the struct."""
        yield PageJob(self._column, self._count, 0, False, lambda: Encoded(Struct(), ()))
        for member in self._members:
            yield from member.finish()


@dataclass
class EncoderMaker:
    """A factory of the encoders of a file and of their columns, in order.

    A page is due at `page_bytes` of values in memory.
    """

    page_bytes: int
    encoding: EncodingOptions
    columns: list[ColumnPages] = field(default_factory=list)

    def encoder_of(self, field: Field, above: str = "") -> FieldEncoder:
        """Make the encoder of a field, in its storage form."""
        path = above + field.name
        is_blob = any(child.id == DESCRIPTOR_ID for child in field.children)
        column = ColumnPages(field.id, is_blob)
        self.columns.append(column)
        if field.is_list:
            return ListsEncoder(self, column, self.encoder_of(field.item, f"{path}."))
        if field.is_struct and not is_blob and not is_packed(field.metadata):
            members = [self.encoder_of(child, f"{path}.") for child in field.children]
            return StructsEncoder(path, column, members)
        return ValuesEncoder(field, path, self, column)


def _has_narrow_keys(kind: pa.DataType) -> bool:
    return pt.is_dictionary(kind) and bool(kind.index_type.bit_width <= _NARROW_BITS)


def _together(pieces: list[NDArray[T]], kind: type[T]) -> NDArray[T]:
    """Concatenate all pieces; nearly always there is only one."""
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, kind), *pieces])


def _require_no_null_structs(array: pa.Array, path: str) -> None:
    if array.null_count:
        raise InvalidInputError(
            f"column {path!r}: {array.null_count} structs are null, which files of version 2.0 "
            "cannot store; write version 2.1 or newer"
        )


def _require_no_nulls(array: pa.Array, path: str) -> None:
    """Raise an error if a packed struct contains a null at any depth."""
    _require_no_null_structs(array, path)
    for member, values in zip(array.type, array.flatten(), strict=True):
        while pt.is_fixed_size_list(values.type) and not values.null_count:
            values = values.flatten()
        if values.null_count:
            raise InvalidInputError(
                f"column {path + '.' + member.name!r}: nulls, which packed structs cannot store"
            )
