"""Which encoding values of fixed width get: the smallest of flat, run-length and bit-packing."""

from __future__ import annotations

from pilum import kernels
from pilum.blocks import FixedBlock
from pilum.encodings.base import Compressive
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.inline_bitpacking import InlineBitpacking
from pilum.encodings.compressive.rle import Rle

__all__ = ["fixed_encoding"]


def fixed_encoding(block: FixedBlock) -> tuple[int, Compressive]:
    """Bytes of the values in the best encoding, and the encoding."""
    flat = len(block.data), Flat(block.bits)
    if block.bits not in (8, 16, 32, 64):
        return flat
    rle_bytes, packed_bytes = kernels.fixed_costs(block.data, block.bits)
    packed = packed_bytes, InlineBitpacking(block.bits)
    return min(flat, packed, (rle_bytes, Rle(block.bits)), key=lambda option: option[0])
