"""The typed door to the compiled extension: pure functions from buffers to buffers.

Nothing here decides anything. A `Plan` says how the values of a page are stored, a `Block` how
its levels or its dictionary are; one call then walks all chunks of the page without the GIL.
Arrays must be contiguous. Damage raises `CorruptFileError`, an impossible request `ValueError`.

`pilum.kernels.reference` holds naive twins that the tests compare with.
"""

import os

# The extension's allocator keeps what is freed for a second, to use it again: on a fast machine as
# much as a scan holds. A twentieth of that costs hardly any time. It reads this when it is loaded.
_KEPT_MS = "MIMALLOC_PURGE_DELAY"
_given = os.environ.get(_KEPT_MS)
os.environ.setdefault(_KEPT_MS, "50")
try:
    from pilum._kernels import (
        Block,
        MiniBlock,
        PickedChunks,
        PickedSlots,
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
        decode_mini_blocks,
        decode_mini_blocks_as_one,
        decompress,
        decompress_fsst,
        distinct_strings,
        encode_full_zip_fixed,
        encode_full_zip_strings,
        encode_json,
        encode_levels,
        encode_mini_block,
        exceeds_distinct,
        fixed_costs,
        gather_bits,
        gather_bytes,
        join_rows,
        look_up_strings,
        most_entries,
        pack_block,
        ravel,
        shown_offsets,
        split_rows,
        text_ends,
        unpack_linear,
        unravel,
    )
finally:
    if _given is None:
        del os.environ[_KEPT_MS]

__all__ = [
    "Block",
    "MiniBlock",
    "PickedChunks",
    "PickedSlots",
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
    "decode_mini_blocks",
    "decode_mini_blocks_as_one",
    "decompress",
    "decompress_fsst",
    "distinct_strings",
    "encode_full_zip_fixed",
    "encode_full_zip_strings",
    "encode_json",
    "encode_levels",
    "encode_mini_block",
    "exceeds_distinct",
    "fixed_costs",
    "gather_bits",
    "gather_bytes",
    "join_rows",
    "look_up_strings",
    "most_entries",
    "pack_block",
    "ravel",
    "shown_offsets",
    "split_rows",
    "text_ends",
    "unpack_linear",
    "unravel",
]
