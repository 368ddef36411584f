"""The array encodings of file version 2.0, found by their names in the description of a page."""

from __future__ import annotations

from pilum.encodings.describe import PageDescription, encoding_text
from pilum.encodings.v2_0.base import ArrayEncoding
from pilum.encodings.v2_0.binary import Binary
from pilum.encodings.v2_0.bitpacked import Bitpacked, BitpackedForNonNeg
from pilum.encodings.v2_0.dictionary import Dictionary
from pilum.encodings.v2_0.fixed_size import FixedSizeBinary, FixedSizeList
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.fsst import Fsst
from pilum.encodings.v2_0.list import List
from pilum.encodings.v2_0.nullable import Nullable
from pilum.encodings.v2_0.struct import PackedStruct, Struct
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings20_pb2 as pb

__all__ = ["ARRAY_ENCODINGS", "array_encoding_of", "describe_array"]

ARRAY_ENCODINGS: tuple[type[ArrayEncoding], ...] = (
    Flat,
    Nullable,
    FixedSizeList,
    List,
    Struct,
    Binary,
    Dictionary,
    Fsst,
    PackedStruct,
    Bitpacked,
    FixedSizeBinary,
    BitpackedForNonNeg,
)
_BY_ARM = {encoding.arm: encoding for encoding in ARRAY_ENCODINGS}


def array_encoding_of(message: pb.ArrayEncoding) -> ArrayEncoding:
    """Parse the description of the values of a page.

    UnsupportedFormatError is raised if files of version 2.0 do not have the encoding.
    """
    arm = message.WhichOneof("array_encoding")
    if arm is None:
        raise CorruptFileError("a page without a description of its values")
    if arm not in _BY_ARM:
        raise UnsupportedFormatError(f"the array encoding {arm!r} is not one of version 2.0")
    return _BY_ARM[arm].from_proto(getattr(message, arm), array_encoding_of)


def describe_array(encoding: pb.ArrayEncoding, num_items: int) -> PageDescription:
    """Describe a page for `pilum.explain`: its values, its dictionary and its nulls as text."""
    values, nulls = _without_nulls(encoding)
    dictionary = ""
    if values is not None and values.HasField("dictionary"):
        found = values.dictionary
        dictionary = f"{found.num_dictionary_items} values as {encoding_text(found.items)}"
        values = found.indices
    text = "no value" if values is None else encoding_text(values)
    return PageDescription("array", text, num_items, dictionary, nulls)


def _without_nulls(encoding: pb.ArrayEncoding) -> tuple[pb.ArrayEncoding | None, str]:
    if not encoding.HasField("nullable"):
        return encoding, ""
    found = encoding.nullable
    if found.HasField("all_nulls"):
        return None, ""
    if found.HasField("some_nulls"):
        return found.some_nulls.values, f"validity {encoding_text(found.some_nulls.validity)}"
    return found.no_nulls.values, ""
