"""Choose the array encoding of a page, as the reference writer of version 2.0 does.

    fixed width          nullable, flat
    fixed-size list      nullable, fixed_size_list of (nullable …)
    string               dictionary for few distinct ones, else fsst or binary
    other text           binary, compressed if requested by metadata
    dictionary           dictionary

Source: docs/format/encodings-2.0.md, "What writers choose".
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as pt

from pilum.encodings.options import EncodingOptions
from pilum.encodings.v2_0.base import Encoded
from pilum.encodings.v2_0.binary import OFFSET_BITS, Binary
from pilum.encodings.v2_0.dictionary import Dictionary
from pilum.encodings.v2_0.fixed_size import FixedSizeList, items_of
from pilum.encodings.v2_0.flat import Compression, Flat
from pilum.encodings.v2_0.fsst import Fsst
from pilum.encodings.v2_0.nullable import Nullable
from pilum.encodings.v2_0.struct import PackedStruct

__all__ = ["encode_array", "is_packed"]

_DEFAULTS = EncodingOptions()
_MIN_DICTIONARY_ROWS = 100
_MAX_DISTINCT = 99
_SAMPLE_ROWS = (128, 4096)
"""Rows that are checked first: very few rows identify most columns of many distinct values."""


def is_packed(metadata: Mapping[str, str]) -> bool:
    """Return whether the metadata of a struct ask for its rows to be stored whole."""
    wanted = metadata.get("packed", metadata.get("lance-encoding:packed", ""))
    return wanted.lower() == "true"


def encode_array(array: pa.Array, options: EncodingOptions = _DEFAULTS, first: int = 0) -> Encoded:
    """Encode values of one column, other than lists and structs with columns of their own."""
    if array.type.id in OFFSET_BITS:
        return _text(array, options, first)
    if pt.is_dictionary(array.type):
        return Dictionary.encode_keys(array, first)
    if pt.is_struct(array.type):
        return PackedStruct.encode(array, first)
    return _nullable(array, first)


def _nullable(array: pa.Array, first: int) -> Encoded:
    inner = _lists if pt.is_fixed_size_list(array.type) else Flat.encode
    return Nullable.encode(array, first, inner)


def _lists(array: pa.Array, first: int) -> Encoded:
    items = _nullable(items_of(array), first)
    return Encoded(FixedSizeList(array.type.list_size, items.encoding), items.buffers)


def _text(array: pa.Array, options: EncodingOptions, first: int) -> Encoded:
    few = _few_distinct(array) if pt.is_string(array.type) else None
    if few is not None:
        return Dictionary.encode_strings(few, first)
    scheme = options.compression
    if scheme == "fsst":
        can = pt.is_string(array.type) or pt.is_binary(array.type)
        return Fsst.encode(array, first) if can else Binary.encode(array, first)
    if scheme is None:
        return Binary.encode(array, first)
    return Binary.encode(array, first, Compression(scheme, options.compression_level))


def _few_distinct(array: pa.Array) -> pa.DictionaryArray | None:
    """Return the strings as a dictionary array if they are many rows of few distinct values."""
    if len(array) < _MIN_DICTIONARY_ROWS:
        return None
    for rows in _SAMPLE_ROWS:
        if len(array) > rows and len(array.slice(0, rows).unique()) > _MAX_DISTINCT:
            return None
    encoded = array.dictionary_encode()
    return encoded if len(encoded.dictionary) <= _MAX_DISTINCT else None
