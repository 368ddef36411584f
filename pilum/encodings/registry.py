"""The compressive encodings, found by their names in the descriptions of pages (since 2.1)."""

from __future__ import annotations

from pilum.encodings.base import Compressive
from pilum.encodings.compressive.byte_stream_split import ByteStreamSplit
from pilum.encodings.compressive.constant import Constant
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.inline_bitpacking import InlineBitpacking
from pilum.encodings.compressive.out_of_line_bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.packed_struct import PackedStruct
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.compressive.variable_packed_struct import VariablePackedStruct
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["COMPRESSIVE", "compressive_of"]

COMPRESSIVE: tuple[type[Compressive], ...] = (
    Flat,
    Variable,
    InlineBitpacking,
    OutOfLineBitpacking,
    Rle,
    Fsst,
    General,
    FixedSizeList,
    ByteStreamSplit,
    Constant,
    PackedStruct,
    VariablePackedStruct,
)
_BY_ARM = {encoding.arm: encoding for encoding in COMPRESSIVE}


def compressive_of(message: pb.CompressiveEncoding) -> Compressive:
    """Parse the description of a compressive encoding; UnsupportedFormatError if it is unknown."""
    arm = message.WhichOneof("compression")
    if arm is None:
        raise CorruptFileError("a page without a description of its values")
    if arm not in _BY_ARM:
        raise UnsupportedFormatError(f"the compressive encoding {arm!r} is not supported")
    return _BY_ARM[arm].from_proto(getattr(message, arm), compressive_of)
