"""Choose the layout and the encoding of a page: by size, in this order.

1. No value, or only nulls: a constant page; since 2.2 also if all values are equal.
2. A dictionary where values repeat enough: strings, and values of 32, 64 and 128 bits.
3. Values below 256 bytes: mini-block; else full-zip. Long runs of 64-bit numbers that no encoding
   makes smaller, and without nulls or lists: full-zip, where they are as contiguous as in memory.
4. Integers and floats: the smallest of flat, run-length and bit-packing.
5. Text: FSST if it makes the page smaller; very long strings: zstd, each on its own.
6. If lz4 or zstd is requested: around the chunks, if this makes the page smaller. Decimals without
   a dictionary: lz4, if a sample becomes clearly smaller.

Any choice can be read by any reader. Source: docs/format/encodings-2.1.md, "What the writer
chooses".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from pilum.blocks import (
    BitBlock,
    FixedBlock,
    ListBlock,
    StringBlock,
    ValueBlock,
    block_of,
    value_bytes,
)
from pilum.encodings.base import Candidate, EncodedPage
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.constant import (
    FEWEST_SLOTS_OF_A_SCALAR,
    encode_constant,
    scalar_of,
)
from pilum.encodings.structural.full_zip import encode_full_zip
from pilum.encodings.structural.mini_block_writer import (
    encode_mini_block,
    levels_fit_chunks,
    split_rows,
)
from pilum.encodings.values import (
    Choice,
    PlainValues,
    choose_dictionary,
    choose_text,
    choose_zipped_text,
    compressed_decimals,
    compressed_fixed,
    dictionary_choice,
    list_encoding,
    smallest,
)
from pilum.format.version import FileVersion
from pilum.levels import Levels, ravel

__all__ = ["encode_pages"]

_WIDE_BYTES = 256
_WIDE_TEXT_BYTES = 4_096
_COMPRESS_MIN_BYTES = 4_096
_CONTIGUOUS_BITS = 64
"""Narrower numbers cost other readers of full-zip pages too much for each row of a take."""

_CONTIGUOUS_BYTES = 2 * 1024 * 1024
"""Least size of a page from which its bytes are mapped instead of copied."""

_UNASKED_MAX_RATIO = 0.9
"""Compression that no one requested for the column takes time, so it has to save a tenth."""
_PREFERRED_MAX_RATIO = 0.98
_DEFAULTS = EncodingOptions()


class _Rows(NamedTuple):
    """The rows to be stored, except for the values."""

    levels: Levels
    num_rows: int
    version: FileVersion
    options: EncodingOptions
    raw_bytes: int | None = None


def encode_pages(
    chain: pa.Array,
    version: FileVersion,
    options: EncodingOptions = _DEFAULTS,
    as_if_null: Sequence[bool] = (),
) -> list[EncodedPage]:
    """Encode some rows of a leaf column: a chain with at least one row, see `pilum.levels.ravel`.

    There are several pages if there are too many lists without items for the levels of one.
    UnsupportedTypeError is raised if the file format cannot store the leaf type.
    """
    levels, leaf = ravel(chain, as_if_null=as_if_null)
    num_rows = len(chain)
    rows = _Rows(levels, num_rows, version, options)
    if _is_without_values(leaf, levels):
        return [_constant(rows)]
    too_many_levels = not levels_fit_chunks(levels, options.minichunk_values)
    if too_many_levels and num_rows > 1:
        return [
            page
            for piece in split_rows(chain, levels)
            for page in encode_pages(piece, version, options, levels.nullable_items)
        ]
    if pt.is_dictionary(leaf.type):
        return [_mini_block(dictionary_choice(leaf, version, options), rows)]
    block = block_of(leaf)
    rows = _Rows(levels, num_rows, version, options, block.raw_bytes)
    is_likely = version.has_scalar_pages and _may_be_one_value(block, levels)
    if is_likely and (scalar := scalar_of(leaf, block, levels)):
        page = encode_constant(levels, num_rows, version, scalar)
        return [page.chosen_from((Candidate("one value for all"),), rows.raw_bytes)]
    if too_many_levels:
        why = Candidate("mini-block", None, "a row has too many lists without items")
        return [_full_zip(block, rows, why)]
    return [_encode(leaf, block, rows)]


def _may_be_one_value(block: ValueBlock, levels: Levels) -> bool:
    """Return whether all values may be equal; the first and the last one rule out most pages."""
    if isinstance(block, ListBlock) or block.num_values < FEWEST_SLOTS_OF_A_SCALAR:
        return False
    last = block.num_values - 1
    return levels.max_def > 0 or value_bytes(block, 0) == value_bytes(block, last)


def _is_without_values(leaf: pa.Array, levels: Levels) -> bool:
    """Return whether every value is null or below a null."""
    if leaf.null_count == len(leaf) or (pt.is_struct(leaf.type) and leaf.type.num_fields == 0):
        return True
    return levels.max_def > 0 and bool(levels.def_.min() > 0)


def _constant(rows: _Rows) -> EncodedPage:
    page = encode_constant(rows.levels, rows.num_rows, rows.version)
    return page.chosen_from((Candidate("no value"),))


def _encode(leaf: pa.Array, block: ValueBlock, rows: _Rows) -> EncodedPage:
    plain = PlainValues(block, rows.options)
    dictionary = choose_dictionary(leaf, plain, rows.version)
    if isinstance(dictionary, Choice):
        return _mini_block(dictionary, rows)
    if why := _why_full_zip(block, rows.options):
        return _full_zip(block, rows, dictionary, Candidate("mini-block", None, why))
    if isinstance(block, StringBlock):
        return _text(block, rows, dictionary)
    choice = plain.fixed
    if _is_contiguous(choice, rows):
        chunks = Candidate("mini-block", None, "not smaller than contiguous values")
        return _full_zip(block, rows, dictionary, *choice.candidates[1:], chunks)
    return _mini_block(choice, rows, dictionary)


def _is_contiguous(choice: Choice, rows: _Rows) -> bool:
    """Return whether the chosen values are best stored as they are in memory."""
    return (
        isinstance(choice.encoding, Flat)
        and choice.encoding.bits == _CONTIGUOUS_BITS
        and choice.size_bytes >= _CONTIGUOUS_BYTES
        and not rows.levels.max_rep
        and not rows.levels.max_def
        and rows.options.structural_encoding is None
        and rows.options.general is None
    )


def _text(block: StringBlock, rows: _Rows, refused: Candidate) -> EncodedPage:
    """Encode the page of strings; if small ones are preferred, zstd of symbols or of the text."""
    page = _mini_block(choose_text(block, rows.options), rows, refused)
    if rows.options.compression is not None or rows.options.prefer != "size":
        return page
    symbols = choose_text(block, replace(rows.options, prefer=None))
    return min(page, _mini_block(symbols, rows, refused), key=lambda made: made.size_bytes)


def _why_full_zip(block: ValueBlock, options: EncodingOptions) -> str:
    """Return why values do not suit chunks; an empty text if they do."""
    if options.structural_encoding is not None:
        return "full-zip is asked for" if options.structural_encoding == "fullzip" else ""
    is_text = isinstance(block, StringBlock) and block.max_value_bytes <= _WIDE_TEXT_BYTES
    if is_text and options.general == "zstd":
        return ""  # several together become much smaller than each on its own
    return f"values of {_WIDE_BYTES} bytes" if block.max_value_bytes >= _WIDE_BYTES else ""


def _mini_block(choice: Choice, rows: _Rows, *refused: Candidate) -> EncodedPage:
    """Encode the page of a choice, compressed if that is requested and smaller."""
    plain = _chunks(choice, rows)
    general = _general(choice, rows.options)
    candidates = (*refused, *choice.candidates)
    if general is None:
        return plain.chosen_from(candidates, rows.raw_bytes)
    if plain.size_bytes < _COMPRESS_MIN_BYTES:
        note = f"less than {_COMPRESS_MIN_BYTES} bytes"
        return plain.chosen_from((*candidates, Candidate(general, None, note)), rows.raw_bytes)
    packed = _chunks(choice._replace(encoding=general), rows)
    size_bytes = choice.size_bytes + packed.size_bytes - plain.size_bytes
    candidates = (*candidates, Candidate(general, max(size_bytes, 0)))
    most_bytes = plain.size_bytes * _most_share(rows.options)
    smaller = packed if packed.size_bytes <= most_bytes else plain
    return smaller.chosen_from(candidates, rows.raw_bytes)


def _most_share(options: EncodingOptions) -> float:
    """Return the share of the plain bytes that compressed ones may have."""
    if options.compression is not None:
        return 1.0
    return _PREFERRED_MAX_RATIO if options.prefer == "size" else _UNASKED_MAX_RATIO


def _chunks(choice: Choice, rows: _Rows) -> EncodedPage:
    return encode_mini_block(
        choice.block,
        choice.encoding,
        rows.levels,
        rows.num_rows,
        rows.version,
        choice.dictionary,
        rows.options,
    )


def _general(choice: Choice, options: EncodingOptions) -> General | None:
    """Return the general compression that is requested or promising; chunks of lists have none."""
    scheme = options.general
    if isinstance(choice.block, ListBlock):
        return None
    if scheme is None:
        return compressed_decimals(choice, options)
    if isinstance(choice.block, FixedBlock) and choice.block.bits in (8, 16, 32, 64):
        return compressed_fixed(choice.block, choice.encoding, scheme, options)
    return General.of(scheme, choice.encoding, options.compression_level)


def _full_zip(block: ValueBlock, rows: _Rows, *refused: Candidate) -> EncodedPage:
    if isinstance(block, StringBlock):
        choice = choose_zipped_text(block, rows.options)
    else:
        encoding = Flat(8) if isinstance(block, BitBlock) else list_encoding(block)
        choice = smallest(block, [(encoding, len(block.data))])
    page = encode_full_zip(choice.block, choice.encoding, rows.levels, rows.num_rows)
    return page.chosen_from((*refused, *choice.candidates), rows.raw_bytes)
