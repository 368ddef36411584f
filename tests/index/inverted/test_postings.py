"""Posting lists: their bytes, and what damage does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from index.inverted.reference_postings import (
    code_of,
    decode_block,
    decode_impacts,
    decode_positions,
)

from pilum.errors import CorruptFileError
from pilum.kernels import (
    Clause,
    DocumentSet,
    Entries,
    GrowingLists,
    Norms,
    Posting,
    PostingLayout,
    bm25_norms,
)

FORMATS = [(128, 1), (128, 2), (256, 3)]


def entries_of(lists: Sequence[dict[int, list[int]]]) -> tuple[Entries, np.ndarray[Any, Any]]:
    """Return entries of tokens, given the positions in each document; and lengths."""
    count = 1 + max((document for one in lists for document in one), default=0)
    documents: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for token, one in enumerate(lists):
        for document, positions in one.items():
            documents[document] += [(token, position) for position in positions]
    flat = [pair for one in documents for pair in one]
    tokens = np.array([token for token, _ in flat], np.uint32)
    places = np.array([place for _, place in flat], np.uint32)
    ends = np.cumsum([len(one) for one in documents], dtype=np.int64)
    lengths = np.diff(ends, prepend=0).astype(np.uint32) + np.uint32(1)
    growing = GrowingLists(True)
    growing.add(tokens, places, ends)
    return growing.entries(np.arange(len(lists), dtype=np.uint32)), lengths


def written(
    entries: Entries, lengths: np.ndarray[Any, Any], block_size: int, version: int
) -> dict[str, Any]:
    """Encode all tokens."""
    norms = bm25_norms(lengths, len(lengths), int(lengths.sum()), block_size == 256)
    layout = PostingLayout(block_size, version == 1)
    kind = "pieces" if version == 1 else "stream"
    return entries.write(lengths, norms, layout, kind)


def items(lists: Any, row: int) -> list[bytes]:
    """Return the byte strings of a list."""
    starts, offsets, data = lists
    places = range(starts[row], starts[row + 1])
    return [data[offsets[i] : offsets[i + 1]].tobytes() for i in places]


def postings(step: int, count: int, most: int) -> dict[int, list[int]]:
    """Return the entries of a token, some of them with many positions."""
    many = {i * step: most if i % 40 == 5 else 1 + i % 3 for i in range(count)}
    return {document: list(range(0, 3 * n, 3)) for document, n in many.items()}


lists = st.lists(
    st.dictionaries(
        st.integers(0, 700),
        st.lists(st.integers(0, 2**31), min_size=1, max_size=5).map(sorted),
        min_size=1,
        max_size=30,
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=40)
@given(lists, st.sampled_from(FORMATS))
@example([postings(2, 700, 300), postings(1, 128, 1), postings(7, 513, 9)], (128, 1))
@example([postings(2, 700, 300), postings(1, 128, 1), postings(7, 513, 9)], (128, 2))
@example([postings(2, 700, 300), postings(1, 256, 1), postings(7, 513, 9)], (256, 3))
def test_bytes(one: list[dict[int, list[int]]], format: tuple[int, int]) -> None:
    """The twins read what the kernels wrote, and the kernels read it again."""
    block_size, version = format
    entries, lengths = entries_of(one)
    made = written(entries, lengths, block_size, version)
    for row, expected in enumerate(one):
        numbers = sorted(expected)
        assert made["lengths"][row] == len(numbers)
        blocks = [numbers[i : i + block_size] for i in range(0, len(numbers), block_size)]
        stored = items(made["postings"], row)
        impacts = [decode_impacts(entry) for entry in items(made["impacts"], row)]
        assert len(stored) == len(blocks)
        assert len(impacts) == len(blocks) + -(-len(blocks) // 32)
        for i, (block, data) in enumerate(zip(blocks, stored, strict=True)):
            frequencies = [len(expected[document]) for document in block]
            assert decode_block(data, len(block), block_size, version) == (block, frequencies)
            last, pairs = impacts[i]
            assert last == block[-1]
            assert pairs == sorted(set(pairs))
            for document, frequency in zip(block, frequencies, strict=True):
                code = code_of(int(lengths[document]))
                assert any(f >= frequency and c <= code for f, c in pairs)
            if version > 1:
                offsets, data, starts, places = made["positions"]
                own = places[starts[row] : starts[row + 1]].tolist()
                stream = data[offsets[row] : offsets[row + 1]].tobytes()
                end = [*own, len(stream)][i + 1]
                positions = decode_positions(stream[own[i] : end], frequencies)
                assert positions == [expected[document] for document in block]
    layout = PostingLayout(block_size, version == 1)
    stored_positions = made["positions"] if version == 1 else (True, *made["positions"])
    again = Entries.read(made["postings"], made["lengths"], layout, len(lengths), stored_positions)
    for name in ("ends", "documents", "frequencies", "positions"):
        assert np.array_equal(getattr(again, name), getattr(entries, name))


def test_the_example_of_the_format() -> None:
    """A list of three documents, of format version 2."""
    entries, lengths = entries_of([{0: [0], 2: [0], 5: [0]}])
    made = written(entries, lengths, 128, 2)
    assert items(made["postings"], 0)[0][4:] == bytes([0, 2, 3, 1, 1, 1])
    assert items(made["impacts"], 0)[0] == bytes([5, 1, 1, 2])


@pytest.mark.parametrize("format", FORMATS)
def test_damage_is_an_error(format: tuple[int, int]) -> None:
    """Changed bytes and numbers are errors, or lists that are sound; never anything else."""
    block_size, version = format
    entries, lengths = entries_of([postings(2, 300, 200), postings(3, 20, 5)])
    made = written(entries, lengths, block_size, version)
    layout = PostingLayout(block_size, version == 1)
    norms = Norms(lengths, len(lengths), int(lengths.sum()), False)
    random = np.random.default_rng(3)
    outcomes = set()
    for _ in range(400):
        starts, offsets, data = (array.copy() for array in made["postings"])
        places = [array.copy() for array in made["positions"]]
        counts = made["lengths"].copy()
        for array in (
            [data, *(p for p in places if p.dtype == np.uint8)]
            if random.random() < 0.7
            else [starts, offsets, counts, *places]
        ):
            if random.random() < 0.5:
                bits = array.view(np.uint8)
                bits[random.integers(len(bits))] ^= np.uint8(1 << random.integers(8))
        stored = tuple(places) if version == 1 else (True, *places)
        try:
            read = Entries.read((starts, offsets, data), counts, layout, len(lengths), stored)
            first, _ = (
                Posting(layout, int(counts[i]), i, (starts, offsets, data), norms, stored)
                for i in range(2)
            )
            for k in (None, 3):
                Clause.phrase([(0, [(first, 1.0)]), (1, [(first, 1.0)])], 2).search(norms, k)
        except CorruptFileError:
            outcomes.add("error")
        else:
            assert int(read.documents.max()) < len(lengths)
            outcomes.add("sound")
    assert outcomes == {"error", "sound"}


@settings(max_examples=40)
@given(st.lists(st.integers(0, 300), unique=True), st.sets(st.integers(0, 300)), st.booleans())
def test_sets_of_documents(references: list[int], listed: set[int], is_complement: bool) -> None:
    """Only documents of allowed rows are found, in whichever order the rows are."""
    count = len(references)
    if count == 0:
        return
    entries, lengths = entries_of([{document: [0] for document in range(count)}])
    made = written(entries, lengths, 128, 2)
    norms = Norms(lengths, count, int(lengths.sum()), False)
    posting = Posting(PostingLayout(128, False), count, 0, made["postings"], norms)
    order = np.argsort(references).astype(np.uint32)
    in_order = np.sort(np.array(references, np.uint64))
    chosen = np.array(sorted(listed), np.uint64)
    allowed = DocumentSet(in_order, order, chosen, is_complement)
    expected = [i for i, one in enumerate(references) if (one in listed) != is_complement]
    assert allowed.count == len(expected)
    for k in (None, count):
        found, _ = Clause.token(posting, 1.0).search(norms, k, allowed)
        assert sorted(found.tolist()) == expected
