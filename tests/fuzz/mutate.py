"""Ways to damage a file: bytes, words, cuts, and its messages, taken apart and put together."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fuzz.messages import mutate_message
from fuzz.parts import FileParts
from google.protobuf.message import DecodeError, EncodeError

__all__ = ["mutate"]

_WORDS = [0, 1, 2, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
_NEAR_END = 900
"""Bytes at the end of a file, where most of the descriptions are."""

Source = random.Random


def mutate(data: bytes, source: Source) -> bytes:
    """The file with one to four damages."""
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        data = source.choices(_WAYS, _WEIGHTS)[0](data, source)
    return data


def _place(data: bytes, source: Source) -> int:
    if source.random() < 0.5:
        return max(len(data) - 1 - source.randrange(_NEAR_END), 0)
    return source.randrange(max(len(data), 1))


def _bit(data: bytes, source: Source) -> bytes:
    out, at = bytearray(data), _place(data, source)
    if out:
        out[at] ^= 1 << source.randrange(8)
    return bytes(out)


def _word(data: bytes, source: Source) -> bytes:
    size = source.choice([1, 2, 4, 8])
    value: int = source.choice([*_WORDS, source.randrange(2**16)]) % 2 ** (8 * size)
    at = _place(data, source)
    return data[:at] + value.to_bytes(size, "little")[: len(data) - at] + data[at + size :]


def _cut(data: bytes, source: Source) -> bytes:
    at, size = _place(data, source), source.choice((1, 8, 64, 500))
    return data[:at] + data[at + size :]


def _doubled(data: bytes, source: Source) -> bytes:
    at, size = _place(data, source), source.choice([1, 8, 64, 500])
    return data[: at + size] + data[at:]


def _moved(data: bytes, source: Source) -> bytes:
    """Some bytes over others."""
    here, there, size = _place(data, source), _place(data, source), source.choice([2, 8, 40])
    piece = data[here : here + size][: len(data) - there]
    return data[:there] + piece + data[there + len(piece) :]


def _with_parts(change: Callable[[FileParts, Source], None]) -> Callable[[bytes, Source], bytes]:
    """Takes the file apart; what cannot be is damaged by a word instead."""

    def mutation(data: bytes, source: Source) -> bytes:
        parts = FileParts.parse(data)
        if parts is None or not parts.columns:
            return _word(data, source)
        try:
            change(parts, source)
            return parts.build()
        except (DecodeError, EncodeError, ValueError):  # damaged before
            return _word(data, source)

    return mutation


def _layout(parts: FileParts, source: Source) -> None:
    """The description of a page."""
    pages = [page for column in parts.columns for page in column.pages]
    if pages:
        page: Any = source.choice(pages)
        parts.change_layout(page, lambda message: mutate_message(message, source))


def _column(parts: FileParts, source: Source) -> None:
    mutate_message(source.choice(parts.columns), source)


def _descriptor(parts: FileParts, source: Source) -> None:
    mutate_message(parts.descriptor, source)


def _buffer(parts: FileParts, source: Source) -> None:
    """The first words of a buffer, where sizes and counts stand."""
    pages = [page for column in parts.columns for page in column.pages if page.buffer_offsets]
    if not pages:
        return
    page: Any = source.choice(pages)
    at = source.choice(page.buffer_offsets) + source.choice([0, 0, 1, 2, 4, 8, 12])
    size = source.choice([1, 2, 4, 8])
    value = source.choice([*_WORDS, source.randrange(2**12)]) % 2 ** (8 * size)
    if at + size <= len(parts.data):
        parts.data[at : at + size] = value.to_bytes(size, "little")


def _footer(parts: FileParts, source: Source) -> None:
    parts.footer[source.randrange(7)] = source.choice([*_WORDS, source.randrange(5000)])


_WAYS: list[Callable[[bytes, Source], bytes]] = [
    _bit,
    _word,
    _cut,
    _doubled,
    _moved,
    _with_parts(_layout),
    _with_parts(_column),
    _with_parts(_descriptor),
    _with_parts(_buffer),
    _with_parts(_footer),
]
_WEIGHTS = [2, 3, 1, 1, 1, 8, 3, 1, 5, 1]
