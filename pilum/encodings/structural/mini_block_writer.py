"""Encode mini-block pages: cut values and levels into chunks.

`mini_block.py` describes their layout.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pilum import kernels
from pilum.blocks import ValueBlock
from pilum.encodings.base import Compressive, EncodedPage, layer_kinds
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.level_blocks import (
    LEVEL_BYTES,
    LevelEncoding,
    level_encodings,
    most_values,
)
from pilum.encodings.structural.mini_block import PageDictionary
from pilum.errors import UnsupportedTypeError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import Levels

__all__ = ["encode_mini_block"]

_MAX_SMALL_CHUNK = 32_768
_MAX_HEAD = 512
"""Bytes of a chunk's header and padding, and of the growth of incompressible values."""
_DEFAULTS = EncodingOptions()


def encode_mini_block(
    block: ValueBlock,
    values: Compressive,
    levels: Levels,
    num_rows: int,
    version: FileVersion,
    dictionary: PageDictionary | None = None,
    options: EncodingOptions = _DEFAULTS,
) -> EncodedPage:
    """Cut values in stored form (compressed strings, or indices) and levels into chunks.

    UnsupportedTypeError is raised for values too wide for chunks, of which each has two.
    """
    rep, def_ = level_encodings(levels, version)
    coding, compression = values.chunk_coding()
    writer = kernels.MiniBlockWriter(
        coding,
        rep=rep.block,
        def_=def_.block,
        max_rep=levels.max_rep,
        max_visible=levels.max_visible,
        large=version.has_large_chunks,
        max_values=most_values(levels, options.minichunk_values),
        target_bytes=_target_bytes(levels, version, options),
        compression=compression,
    )
    try:
        words, chunks, index = writer.encode(block.page_values(), levels.rep, levels.def_)
    except ValueError as error:
        raise UnsupportedTypeError(
            f"two of the values do not fit into a mini-block chunk: {error}; use full-zip"
        ) from error
    layout = _layout(
        _Description(
            values,
            rep,
            def_,
            levels.codes,
            levels.max_rep > 0,
            block.num_values,
            version.has_large_chunks,
            dictionary.encoding if dictionary else None,
            dictionary.num_values if dictionary else 0,
        )
    )
    buffers: list[object] = [words, chunks]
    if dictionary is not None:
        buffers.append(dictionary.data)
    if levels.max_rep:
        buffers.append(index)
    return EncodedPage(num_rows, layout, tuple(buffers))


class _Description(NamedTuple):
    values: Compressive
    rep: LevelEncoding
    def_: LevelEncoding
    codes: bytes
    has_lists: bool
    num_items: int
    large: bool
    dictionary: Compressive | None
    num_dictionary_items: int


@lru_cache(maxsize=256)
def _layout(found: _Description) -> pb.PageLayout:
    """Return the message, which is immutable because many columns share it."""
    layout = pb.MiniBlockLayout(
        rep_compression=found.rep.to_proto(),
        def_compression=found.def_.to_proto(),
        value_compression=found.values.to_proto(),
        dictionary=found.dictionary.to_proto() if found.dictionary else None,
        num_dictionary_items=found.num_dictionary_items,
        layers=layer_kinds(found.codes),
        num_buffers=found.values.num_buffers,
        repetition_index_depth=int(found.has_lists),
        num_items=found.num_items,
        has_large_chunk=found.large,
    )
    return pb.PageLayout(mini_block_layout=layout)


def _target_bytes(levels: Levels, version: FileVersion, options: EncodingOptions) -> int | None:
    """Return the target size of the values of a chunk in bytes; None for the default."""
    target = options.minichunk_size
    if target is None or version.has_large_chunks:
        return target
    has_levels = levels.max_rep or levels.max_def
    room = _MAX_SMALL_CHUNK - _MAX_HEAD - (LEVEL_BYTES if has_levels else 0)
    return min(target, room)
