"""The tokens that the reference implementation finds, read from an index that it builds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import lance
import numpy as np
import pyarrow as pa
from index.inverted.fst_paths import fst_paths
from lance.file import LanceFileReader

Tokens: TypeAlias = list[tuple[str, int]]
"""The tokens of a document and their positions, sorted."""


def reference_tokens(documents: pa.Array, folder: Path, **keywords: Any) -> list[Tokens]:
    """Return the tokens of each document; the format version must not be 1."""
    dataset = lance.write_dataset(pa.table({"text": documents}), folder)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, **keywords)
    found: list[Tokens] = [[] for _ in range(len(documents))]
    for path in folder.glob("_indices/*/part_*_tokens.lance"):
        tokens, docs, lists = (
            LanceFileReader(str(path).replace("_tokens.lance", f"_{name}.lance"))
            .read_all()
            .to_table()
            for name in ("tokens", "docs", "invert")
        )
        rows = docs["_rowid"].to_pylist()
        postings = lists.to_pylist()
        for token, number in fst_paths(tokens["_token_fst_bytes"][0].as_py()):
            for document, position in _postings(postings[number]):
                found[rows[document]].append((token.decode(), position))
        lengths = [len(found[row]) for row in rows]
        assert lengths == docs["_num_tokens"].to_pylist()
    return [sorted(tokens) for tokens in found]


def _postings(row: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield document and position of each occurrence of a token, from blocks of 128 documents."""
    left = row["_length"]
    offsets = [*row["_position_block_offset"], len(row["_compressed_position"])]
    for number, block in enumerate(row["_posting"]):
        documents, counts = _block(block[4:], min(left, 128))  # after the highest score
        left -= len(documents)
        stream = row["_compressed_position"][offsets[number] : offsets[number + 1]]
        deltas = _positions(stream, sum(counts))
        for document, count in zip(documents, counts, strict=True):
            position = 0
            for _ in range(count):
                position += next(deltas)
                yield document, position


def _block(data: bytes, count: int) -> tuple[list[int], list[int]]:
    if count == 128:
        (first,) = struct.unpack_from("<I", data)
        deltas, data = _unpacked(data[4:])
        counts, _ = _unpacked(data)
        return [first + int(sum_) for sum_ in np.cumsum(deltas)], counts
    numbers = list(_varints(data))
    return [int(sum_) for sum_ in np.cumsum(numbers[:count])], numbers[count:]


def _positions(data: bytes, count: int) -> Iterator[int]:
    while count >= 128:
        group, data = _unpacked(data)
        yield from group
        count -= 128
    yield from _varints(data)


def _unpacked(data: bytes) -> tuple[list[int], bytes]:
    """Return 128 numbers of `data[0]` bits in four lanes, and the bytes after them."""
    bits = data[0]
    words = np.frombuffer(data[1 : 1 + 16 * bits], "<u4").reshape(bits, 4)
    lanes = [sum(int(word) << 32 * i for i, word in enumerate(words[:, lane])) for lane in range(4)]
    numbers = [lanes[i % 4] >> bits * (i // 4) & ((1 << bits) - 1) for i in range(128)]
    return numbers, data[1 + 16 * bits :]


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0
