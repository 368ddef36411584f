"""Page descriptions of version 2.3, which describe structure and values apart (`PlanarLayout`).

    structure    dense: levels as in 2.2              sparse: positions of nulls and lists
    values       chunked, zipped, constant, none      the same, and indexed

Dense pages have the bytes of pages of 2.2, so their descriptions become those of 2.2. Sparse ones
are read by `structural/sparse.py`. Version 2.3 is not final. Source: docs/format/encodings-2.1.md,
"Version 2.3".
"""

from __future__ import annotations

from collections.abc import Iterable

from pilum.encodings.base import demand
from pilum.errors import UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["full_zip", "mini_block", "page_layout"]

_WRAPPERS = frozenset({"fsst", "general", "fixed_size_list"})
_RUN_BITS = 8
_MOST_PACKED_BITS = 64


def page_layout(planar: pb.PlanarLayout) -> pb.PageLayout:
    """Return the description of a page in the form of version 2.2, or as a sparse page.

    Raises:
        CorruptFileError: If a part of the description is missing.
        UnsupportedFormatError: If the values have an encoding that only version 2.3 has.
    """
    _require_known(planar.values)
    structure, values = planar.structure.WhichOneof("codec"), planar.values.WhichOneof("codec")
    demand(structure is not None, "planar page: no structure")
    demand(values is not None, "planar page: no values")
    if structure == "sparse":
        return pb.PageLayout(sparse_layout=planar)
    layers = planar.structure.dense.layers
    if values == "chunked":
        return pb.PageLayout(mini_block_layout=mini_block(planar.values.chunked, layers))
    if values == "zipped":
        return pb.PageLayout(full_zip_layout=full_zip(planar.values.zipped, layers))
    if values == "constant":
        scalar = planar.values.constant.scalar
        return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers, inline_value=scalar))
    raise UnsupportedFormatError(f"a dense page with {values} values is not supported")


def _require_known(values: pb.ValuePlane) -> None:
    """Raise UnsupportedFormatError if values have an encoding that 2.2 does not have."""
    chunked = values.chunked
    if chunked.dictionary.WhichOneof("compression") == "general":
        inner = chunked.dictionary.general.values.WhichOneof("compression")
        if inner == "fixed_size_list":
            raise UnsupportedFormatError("a dictionary of wide values is not supported")
    levels = chunked.levels
    for encoding in (
        *(chunked.compression, chunked.dictionary, levels.repetition, levels.definition),
        values.zipped.compression,
    ):
        _require_known_encoding(encoding)


def _require_known_encoding(encoding: pb.CompressiveEncoding) -> None:
    arm = encoding.WhichOneof("compression")
    if arm == "variable":
        found = encoding.variable.offsets.WhichOneof("compression")
        if found != "flat":
            raise UnsupportedFormatError(f"strings with offsets as {found} are not supported")
    elif arm == "rle":
        items, lengths = encoding.rle.values, encoding.rle.run_lengths
        if not items.HasField("flat") or lengths.flat.bits_per_value != _RUN_BITS:
            raise UnsupportedFormatError("compressed runs are not supported")
    elif arm == "inline_bitpacking":
        if encoding.inline_bitpacking.uncompressed_bits_per_value > _MOST_PACKED_BITS:
            raise UnsupportedFormatError("bit-packed words of 128 bits are not supported")
    elif arm in _WRAPPERS:
        _require_known_encoding(getattr(encoding, arm).values)


def mini_block(values: pb.ChunkedValues, layers: Iterable[pb.RepDefLayer]) -> pb.MiniBlockLayout:
    """Return the description of chunks in the form of version 2.2."""
    layout = pb.MiniBlockLayout(
        value_compression=values.compression,
        num_dictionary_items=values.num_dictionary_items,
        layers=layers,
        num_buffers=values.num_buffers,
        repetition_index_depth=values.levels.repetition_index_depth,
        num_items=values.num_items,
        has_large_chunk=True,
    )
    if values.HasField("dictionary"):
        layout.dictionary.CopyFrom(values.dictionary)
    if values.levels.HasField("repetition"):
        layout.rep_compression.CopyFrom(values.levels.repetition)
    if values.levels.HasField("definition"):
        layout.def_compression.CopyFrom(values.levels.definition)
    return layout


def full_zip(values: pb.ZippedValues, layers: Iterable[pb.RepDefLayer]) -> pb.FullZipLayout:
    """Return the description of zipped values in the form of version 2.2."""
    layout = pb.FullZipLayout(
        bits_rep=values.levels.bits_repetition,
        bits_def=values.levels.bits_definition,
        num_items=values.num_items,
        num_visible_items=values.num_visible_items,
        value_compression=values.compression,
        layers=layers,
    )
    addressing = values.WhichOneof("addressing")
    if addressing is not None:
        setattr(layout, addressing, getattr(values, addressing))
    return layout
