"""Choose the encoding of strings and binaries: plain, as FSST codes, or compressed.

Source: docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import StringBlock
from pilum.encodings.candidates import Choice
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.options import EncodingOptions
from pilum.encodings.page import Candidate

__all__ = ["choose_text", "choose_zipped_text"]

_FSST_MIN_BYTES = 32_768
_FSST_MIN_LENGTH = 5
_FSST_MAX_RATIO = 0.9
_ZIPPED_MIN_BYTES = 32_768


def choose_text(block: StringBlock, options: EncodingOptions) -> Choice:
    """Choose plain strings, or FSST codes if these are clearly smaller."""
    plain = Variable(block.offset_bits)
    candidates = [Candidate(plain, block.data_bytes)]
    if reason := _why_no_fsst(block, options):
        candidates.append(Candidate("fsst", None, reason))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    table, offsets, data = kernels.compress_fsst(block.offsets, block.data)
    coded = Fsst(table.tobytes(), plain)
    most = (1.0 if options.compression == "fsst" else _FSST_MAX_RATIO) * block.data_bytes
    if len(data) > most:
        candidates.append(Candidate(coded, len(data), f"more than {most:.0f} bytes"))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    candidates.append(Candidate(coded, len(data)))
    return Choice(_with_offsets(block, offsets, data), coded, tuple(candidates), len(data))


def _why_no_fsst(block: StringBlock, options: EncodingOptions) -> str:
    asked = options.compression
    if asked == "fsst":
        return ""
    if asked is not None:
        return f"compression {asked} is asked for"
    if not block.is_text:
        return "not text"
    if block.max_value_bytes < _FSST_MIN_LENGTH:
        return f"no string of {_FSST_MIN_LENGTH} bytes"
    if block.raw_bytes < _FSST_MIN_BYTES:
        return f"less than {_FSST_MIN_BYTES} bytes"
    return ""


def choose_zipped_text(block: StringBlock, options: EncodingOptions) -> Choice:
    """Choose zstd for each string if that is requested or promising, else `choose_text`."""
    if (level := _zstd_level(block, options)) is None:
        return choose_text(block, options)
    offsets, data = kernels.compress_zstd(block.offsets, block.data, level)
    plain = Variable(block.offset_bits)
    zstd = General("zstd", plain, level)
    if len(data) >= block.data_bytes:
        choice = choose_text(block, options)
        return choice._replace(candidates=(*choice.candidates, Candidate(zstd, len(data))))
    candidates = Candidate(plain, block.data_bytes), Candidate(zstd, len(data))
    return Choice(_with_offsets(block, offsets, data), zstd, candidates, len(data))


def _zstd_level(block: StringBlock, options: EncodingOptions) -> int | None:
    """Return the level of zstd; None if zstd is not to be tried."""
    if block.data_bytes < _ZIPPED_MIN_BYTES or options.compression in {"none", "fsst"}:
        return None
    if options.compression == "zstd":
        return options.compression_level or 0
    # Each value is a frame of its own, where lz4 is hardly faster; the reference does the same.
    long_values = block.max_value_bytes > _ZIPPED_MIN_BYTES
    return 0 if options.compression == "lz4" or long_values else None


def _with_offsets(
    block: StringBlock, offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> StringBlock:
    """Return the block with other bytes; offsets keep their width."""
    kind: np.dtype[Any] = block.offsets.dtype
    return StringBlock(offsets.astype(kind), data, block.num_values, block.is_text)
