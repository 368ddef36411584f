"""Documents to tokens. The judge is the reference, asked now or when its answers were recorded."""

from __future__ import annotations

import itertools
import json
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from index.inverted.analysis_cases import CASES, JSON, documents, recorded_path
from index.inverted.reference_tokens import Tokens, reference_tokens

from pilum import kernels
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import Analyzer, DocumentTokens

RECORDED = json.loads(recorded_path().read_text("utf-8"))
NO_FILTERS = {
    "base_tokenizer": "raw",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
}


def analyzer(name: str) -> Analyzer:
    kind, keywords = CASES[name]
    return Analyzer(InvertedParameters.from_keywords(keywords, is_json=kind == JSON))


def raw(**keywords: object) -> Analyzer:
    return Analyzer(InvertedParameters.from_keywords({**NO_FILTERS, **keywords}))


def per_document(found: DocumentTokens) -> list[Tokens]:
    tokens = list(zip(found.tokens.to_pylist(), found.positions.tolist(), strict=True))
    ends = [0, *found.ends.tolist()]
    return [sorted(tokens[start:end]) for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("name", CASES)
def test_tokens_and_positions_are_those_that_the_reference_recorded(name: str) -> None:
    found = per_document(analyzer(name).tokens(documents(name, 24, 0)))
    assert json.loads(json.dumps(found)) == RECORDED["tokens"][name]


@pytest.mark.parametrize("name", ["simple", "operators", "icu", "json", "raw lists", "Finnish"])
@pytest.mark.seeds(1)
def test_tokens_and_positions_are_those_of_the_reference(
    name: str, seed: int, tmp_path: Path
) -> None:
    texts = documents(name, 200, seed + 1)
    expected = reference_tokens(texts, tmp_path, **CASES[name][1])
    assert per_document(analyzer(name).tokens(texts)) == expected


@pytest.mark.parametrize("name", CASES)
def test_numbers_stand_for_the_same_tokens(name: str) -> None:
    texts = documents(name, 60, 3)
    expected = analyzer(name).tokens(texts)
    builder = analyzer(name).builder()
    half = len(texts) // 2
    parts = [builder.analyze(texts[:half]), builder.analyze(texts[half:])]
    tokens, ids = builder.finish().listed()
    names = dict(zip(ids.tolist(), tokens.to_pylist(), strict=True))
    numbers = np.concatenate([part.token_ids for part in parts])
    assert [names[number] for number in numbers.tolist()] == expected.tokens.to_pylist()
    firsts = np.unique(numbers, return_index=True)[1]
    assert sorted(firsts) == firsts.tolist()
    positions = np.concatenate([part.positions for part in parts])
    assert positions.tolist() == expected.positions.tolist()
    ends = np.concatenate([parts[0].ends, parts[1].ends + len(parts[0].token_ids)])
    assert ends.tolist() == expected.ends.tolist()
    assert len(builder) == len(names)
    assert builder.size_bytes > 0


def test_slices_of_arrays() -> None:
    for name in ("simple", "lists", "json"):
        texts = documents(name, 30, 5)
        expected = per_document(analyzer(name).tokens(texts))
        assert per_document(analyzer(name).tokens(texts[3:11])) == expected[3:11]
        assert per_document(analyzer(name).tokens(texts[4:4])) == []


def test_json_in_its_binary_form() -> None:
    texts = pa.array(['{"b": 1.5, "a": ["x y"]}', None, '"z"'])
    given = np.array([0, 24, 24, 27], np.int32)
    data = np.frombuffer(b'{"b": 1.5, "a": ["x y"]}"z"', np.uint8)
    offsets, binary = kernels.encode_json(given, data, np.array([0b101], np.uint8))
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(binary)]
    stored = pa.Array.from_buffers(pa.large_binary(), 3, buffers)
    found = per_document(analyzer("json").tokens(stored))
    assert found == per_document(analyzer("json").tokens(texts))
    assert found == [[("a,str,x", 0), ("a,str,y", 1), ("b,number,1.5", 2)], [], [(",str,z", 0)]]


def test_queries_of_texts() -> None:
    found = analyzer("simple").query("quick the Foxes")
    assert per_document(found) == [[("fox", 2), ("quick", 0)]]
    assert analyzer("simple").words("quick the Foxes") == [("quick", 0), ("fox", 2)]
    found, _ = analyzer("simple").split("Größe der RUNNING")
    assert found.tokens.to_pylist() == ["Größe", "der", "RUNNING"]


def test_queries_of_json() -> None:
    found = analyzer("json").query("a.c,str,san Francisco;b,number,7;n,null,null")
    assert per_document(found) == [
        [("a.c,str,francisco", 1), ("a.c,str,san", 0), ("b,number,7", 2), ("n,null,null", 3)]
    ]
    for wrong in ("a", "a,b", "a,float,1", "a,str,x;"):
        with pytest.raises(InvalidInputError, match="Invalid triple"):
            analyzer("json").query(wrong)
        with pytest.raises(InvalidInputError, match="Invalid triple"):
            analyzer("json").words(wrong)


def test_what_is_no_document() -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        analyzer("json").tokens(pa.array(["{"]))
    for kind in (pa.int32(), pa.list_(pa.int32()), pa.list_(pa.list_(pa.string()))):
        with pytest.raises(UnsupportedTypeError, match="full text of"):
            analyzer("simple").tokens(pa.array([], kind))


def test_strings_that_are_no_text() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    wrong = pa.Array.from_buffers(pa.string(), 1, buffers)
    with pytest.raises(InvalidInputError, match="string 0"):
        analyzer("simple").tokens(wrong)


def test_the_characters_that_separate_words() -> None:
    bounds = np.array(RECORDED["separators"])
    code_points = [*range(1, 0xD800), *range(0xE000, 0x32000)]
    expected = np.searchsorted(bounds, code_points, side="right") % 2 == 1
    simple = raw(base_tokenizer="simple")
    counts = simple.tokens(pa.array([f"a{chr(point)}z" for point in code_points])).ends
    assert (np.diff(counts, prepend=0) == 1 + expected).all()


def test_folding_follows_the_decompositions_of_unicode() -> None:
    targets = [
        "AE",
        "ae",
        "OE",
        "oe",
        "O",
        "o",
        "L",
        "l",
        "D",
        "D",
        "d",
        "d",
        "TH",
        "th",
        "H",
        "h",
        "T",
        "t",
        "N",
        "n",
        "i",
        "k",
        "s",
        "ss",
        "SS",
    ]
    letters = dict(zip("ÆæŒœØøŁłĐÐđðÞþĦħŦŧŊŋıĸſßẞ", targets, strict=True))
    characters = [chr(point) for point in range(0x80, 0x32000) if not 0xD800 <= point < 0xE000]
    assigned = [one for one in characters if unicodedata.category(one) != "Cn"]
    folded = raw(ascii_folding=True).tokens(pa.array(assigned)).tokens.to_pylist()
    for character, found in zip(assigned, folded, strict=True):
        parts = unicodedata.normalize("NFKD", character)
        to = letters.get(character) or "".join(
            part if part.isascii() else letters.get(part, "") for part in parts
        )
        assert found == (to or character)


def test_lower_case_takes_each_character_by_itself() -> None:
    characters = [chr(point) for point in range(1, 0x32000) if not 0xD800 <= point < 0xE000]
    assigned = [one for one in characters if unicodedata.category(one) != "Cn"]
    lower = raw(lower_case=True).tokens(pa.array(assigned)).tokens.to_pylist()
    assert lower == [one.lower() for one in assigned]
    assert raw(lower_case=True).query("ΟΔΟΣ").tokens.to_pylist() == ["οδοσ"]
