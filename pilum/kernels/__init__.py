"""The typed door to the compiled extension: pure functions from buffers to buffers.

Nothing here decides anything. A `Plan` says how the values of a page are stored, a `Block` how
its levels or its dictionary are; one call then walks all chunks of the page without the GIL.
Arrays must be contiguous. Damage raises `CorruptFileError`, an impossible request `ValueError`.

`pilum.kernels.reference` holds naive twins that the tests compare with.
"""

from pilum._kernels import (
    Block,
    Plan,
    adjusted_entries,
    compress,
    compress_fsst,
    compress_zstd,
    count_runs,
    decode_block,
    decode_full_zip,
    decode_json,
    decode_mini_block,
    decompress,
    decompress_fsst,
    encode_full_zip_fixed,
    encode_full_zip_strings,
    encode_json,
    encode_levels,
    encode_mini_block,
    fixed_costs,
    gather_bits,
    gather_bytes,
    join_rows,
    look_up_strings,
    pack_block,
    ravel,
    split_rows,
    text_ends,
    unpack_linear,
    unravel,
)

__all__ = [
    "Block",
    "Plan",
    "adjusted_entries",
    "compress",
    "compress_fsst",
    "compress_zstd",
    "count_runs",
    "decode_block",
    "decode_full_zip",
    "decode_json",
    "decode_mini_block",
    "decompress",
    "decompress_fsst",
    "encode_full_zip_fixed",
    "encode_full_zip_strings",
    "encode_json",
    "encode_levels",
    "encode_mini_block",
    "fixed_costs",
    "gather_bits",
    "gather_bytes",
    "join_rows",
    "look_up_strings",
    "pack_block",
    "ravel",
    "split_rows",
    "text_ends",
    "unpack_linear",
    "unravel",
]
