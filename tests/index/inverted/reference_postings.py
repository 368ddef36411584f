"""Posting lists by their description: slow and plain twins of the kernels.

Bytes are read with Python's integers, bit by bit, as docs/format/indices.md describes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence


class Bytes:
    """A place in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def word(self) -> int:
        """Return the next 32-bit number."""
        return int(struct.unpack("<I", self.take(4))[0])

    def varint(self) -> int:
        """Return the next number of variable length."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def packed(self, lanes: int, bits: int) -> list[int]:
        """Return the next group of packed values."""
        words = [self.word() for _ in range(lanes * bits)]
        streams = [
            sum(word << (32 * i) for i, word in enumerate(words[lane::lanes]))
            for lane in range(lanes)
        ]
        mask = (1 << bits) - 1
        return [(streams[i % lanes] >> (i // lanes * bits)) & mask for i in range(32 * lanes)]

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes were read."""
        return self.at == len(self.data)


def decode_block(
    data: bytes, count: int, block_size: int, version: int
) -> tuple[list[int], list[int]]:
    """Return the documents and frequencies of a block."""
    source = Bytes(data)
    if block_size == 128:
        source.take(4)
    if count < block_size:
        if version == 1:
            return [source.word() for _ in range(count)], [source.word() for _ in range(count)]
        deltas = [source.varint() for _ in range(count)]
        documents = [sum(deltas[: i + 1]) for i in range(count)]
        return documents, [source.varint() for _ in range(count)]
    first, lanes = source.word(), block_size // 32
    deltas = source.packed(lanes, source.byte())
    documents = [first + sum(deltas[: i + 1]) for i in range(count)]
    bits = source.byte()
    if block_size == 128:
        frequencies = source.packed(lanes, bits)
    else:
        exceptions = source.byte()
        frequencies = source.packed(lanes, bits)
        for _ in range(exceptions):
            index = source.byte()
            frequencies[index] |= source.varint() << bits
    assert source.is_at_end
    return documents, frequencies


def decode_positions(data: bytes, frequencies: Sequence[int]) -> list[list[int]]:
    """Return the positions in each document of a block of a stream."""
    source = Bytes(data)
    deltas: list[int] = []
    total = sum(frequencies)
    while total - len(deltas) >= 128:
        deltas += source.packed(4, source.byte())
    deltas += [source.varint() for _ in range(total - len(deltas))]
    assert source.is_at_end
    found, start = [], 0
    for frequency in frequencies:
        own = deltas[start : start + frequency]
        found.append([sum(own[: i + 1]) for i in range(frequency)])
        start += frequency
    return found


def decode_impacts(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the last document of an entry, and its pairs of frequency and length code."""
    source, frequency, code, pairs = Bytes(data), 0, 0, []
    last = source.varint()
    for _ in range(source.varint()):
        step = source.varint()
        frequency += (step >> 1) + 1
        code += source.byte() if step & 1 else 1
        pairs.append((frequency, code))
    assert source.is_at_end
    return last, pairs


def code_of(length: int) -> int:
    """Return the code of a length."""
    if length < 8:
        return length
    shift = length.bit_length() - 4
    return ((length >> shift) & 7) | (shift + 1) << 3
