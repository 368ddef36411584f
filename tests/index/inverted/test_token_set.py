"""Sets of tokens: stored forms, lookups, similar tokens, damage."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index.inverted.fst_paths import fst_paths
from lance.file import LanceFileReader

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import FST_COLUMNS, TOKEN_COLUMNS, Analyzer, TokenSet

WORDS = st.lists(st.text("abné中\U0001f600", max_size=6), unique=True, max_size=60)


def token_set(words: list[str]) -> TokenSet:
    builder = Analyzer(InvertedParameters()).builder()
    assert builder.add(pa.array(words, pa.string())).tolist() == list(range(len(words)))
    return builder.finish()


def stored(words: list[str]) -> bytes:
    found = token_set(words).to_table()["_token_fst_bytes"][0].as_py()
    assert isinstance(found, bytes)
    return found


def edits(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b)))
    return row[-1]


@given(WORDS, st.permutations(range(300)))
@settings(max_examples=60)
def test_the_stored_form_has_all_tokens(words: list[str], extra: list[int]) -> None:
    words = words + [f"w{number}" for number in extra[: len(words) * 4]]
    made = token_set(words)
    in_order = sorted((word.encode(), number) for number, word in enumerate(words))
    table = made.to_table()
    assert table.schema == FST_COLUMNS
    row = table.to_pylist()[0]
    assert fst_paths(row["_token_fst_bytes"]) == in_order
    assert row["_token_next_id"] == len(words) == len(made)
    assert row["_token_total_length"] == sum(len(word) for word, _ in in_order)
    tokens, ids = TokenSet.from_table(table).listed()
    assert [word.encode() for word in tokens.to_pylist()] == [word for word, _ in in_order]
    assert ids.tolist() == [number for _, number in in_order]


@given(WORDS, WORDS)
@settings(max_examples=60)
def test_lookups(words: list[str], asked: list[str]) -> None:
    found = token_set(words).find(pa.array([*asked, *words], pa.large_string()))
    known = {word: number for number, word in enumerate(words)}
    assert found.tolist() == [known.get(word, -1) for word in [*asked, *words]]
    assert token_set(words).ids(asked) == [known.get(word, -1) for word in asked]


@given(WORDS, st.text("abné中", max_size=5), st.integers(0, 3), st.integers(0, 7))
@settings(max_examples=100)
def test_similar_tokens(words: list[str], word: str, distance: int, prefix: int) -> None:
    start = word.encode()[:prefix]
    expected = [
        one
        for one in sorted(words, key=str.encode)
        if edits(word, one) <= distance and one.encode().startswith(start)
    ]
    made = token_set(words)
    tokens, ids, ends = made.similar([(word, distance, prefix)], 1000)
    assert tokens.to_pylist() == expected
    assert [words[number] for number in ids.tolist()] == expected
    assert ends == [len(expected)]


def test_the_first_words_use_up_the_expansions() -> None:
    made = token_set(["apple", "ample", "aple", "maple", "pear", "peer", "bear"])
    tokens, _, ends = made.similar([("apple", 1, 0), ("pear", 1, 0)], 3)
    assert tokens.to_pylist() == ["ample", "aple", "apple"]
    assert ends == [3, 3]
    tokens, _, ends = made.similar([("apple", 1, 1), ("pear", 1, 0)], 5)
    assert tokens.to_pylist() == ["ample", "aple", "apple", "bear", "pear"]
    assert ends == [3, 5]


def test_long_words_and_deep_graphs() -> None:
    word = "x" * 100_000
    made = token_set([word, "x" * 99_999 + "y"])
    assert made.similar([(word[:2000], 1, 0)], 9)[2] == [0]
    assert made.find(pa.array([word])).tolist() == [0]
    assert len(made.listed()[0]) == 2
    assert made.similar([(word + "xx", 2, 0)], 9)[2] == [1]
    assert made.similar([(word[2:], 2, 0)], 9)[2] == [2]
    assert made.similar([("", 2**32 - 1, 0)], 9)[2] == [2]
    assert made.size_bytes > 0


def test_all_bytes_as_first_inputs() -> None:
    words = [chr(point) for point in (*range(1, 0x80), *range(0x400, 0xD000, 64))]
    made = token_set(words)
    assert made.find(pa.array(words)).tolist() == list(range(len(words)))
    assert fst_paths(stored(words)) == sorted((word.encode(), i) for i, word in enumerate(words))


def test_the_arrow_form() -> None:
    table = pa.table([["a", "b", "é"], [2, 0, 1]], schema=TOKEN_COLUMNS)
    made = TokenSet.from_table(table)
    assert made.find(pa.array(["é", "c", "a"])).tolist() == [1, -1, 2]
    for tokens, ids in [(["b", "a"], [0, 1]), (["a", "a"], [0, 1]), (["a"], [1]), ([None], [0])]:
        with pytest.raises(CorruptFileError):
            TokenSet.from_table(
                pa.table({"_token": tokens, "_token_id": pa.array(ids, pa.uint32())})
            ).listed()


def test_sets_that_the_reference_wrote(tmp_path: Path) -> None:
    texts = [" ".join(f"word{n * i % 977} é{i}" for n in range(9)) for i in range(400)]
    dataset = lance.write_dataset(pa.table({"s": texts}), tmp_path)
    dataset.create_scalar_index("s", "INVERTED", stem=False, ascii_folding=False)
    [path] = tmp_path.glob("_indices/*/part_0_tokens.lance")
    table = LanceFileReader(str(path)).read_all().to_table()
    made = TokenSet.from_table(table)
    tokens, ids = made.listed()
    expected = fst_paths(table["_token_fst_bytes"][0].as_py())
    assert [
        (token.encode(), number)
        for token, number in zip(tokens.to_pylist(), ids.tolist(), strict=True)
    ] == expected
    assert made.find(tokens).tolist() == ids.tolist()
    assert made.to_table() == table.replace_schema_metadata(None)


def read(data: bytes) -> None:
    made = TokenSet(kernels.TokenSet.read(np.frombuffer(data, np.uint8)))
    made.listed()
    made.find(pa.array(["apple", "zebra"]))
    made.similar([("aple", 2, 0)], 50)


def test_damaged_sets_are_refused() -> None:
    whole = stored(["apple", "ample", "zebra", "é", *map(str, range(40))])
    read(whole)
    for end in range(len(whole)):
        with pytest.raises(CorruptFileError):
            read(whole[:end])
    for position in range(len(whole)):
        for flip in (1, 0x80):
            with pytest.raises(CorruptFileError):
                read(damaged(whole, position, flip))


def damaged(whole: bytes, position: int, flip: int) -> bytes:
    return whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :]


def masked_checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


@pytest.mark.seeds(1)
def test_sets_with_a_right_checksum_never_crash(seed: int) -> None:
    random = np.random.default_rng(seed)
    whole = stored(["apple", "ample", "zebra", "é", *map(str, range(40))])
    for _ in range(1500):
        position, flip = int(random.integers(8, len(whole) - 4)), int(random.integers(1, 256))
        body = damaged(whole, position, flip)[:-4]
        try:
            read(body + masked_checksum(body))
        except CorruptFileError:
            continue


def test_a_graph_of_too_many_paths_is_refused() -> None:
    # 60 nodes, each with two transitions to the next one: 2^60 keys, of which 2 are announced.
    nodes = b""
    for level in range(60):
        delta = 0 if level == 0 else 1
        nodes += bytes([delta, delta, ord("b"), ord("a"), 0x10, 0x02])
    head = (3).to_bytes(8, "little") + bytes(8)
    root = len(head) + len(nodes) - 1
    body = head + nodes + (2).to_bytes(8, "little") + root.to_bytes(8, "little")
    made = TokenSet(kernels.TokenSet.read(np.frombuffer(body + masked_checksum(body), np.uint8)))
    with pytest.raises(CorruptFileError, match="tokens of the set"):
        made.listed()
    assert made.find(pa.array(["ab" * 30])).tolist() == [0]
    tokens, _, _ = made.similar([("ab" * 30, 1, 0)], 2)
    assert len(tokens) == 2
