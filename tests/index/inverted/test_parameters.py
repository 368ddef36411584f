"""The parameters of full-text indices and their stored forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    UnknownArgumentError,
    UnsupportedFeatureError,
)
from pilum.format.pb import index_pb2
from pilum.index.inverted.parameters import TYPE_URL, InvertedParameters

KEYWORDS: list[dict[str, Any]] = [
    {},
    {"base_tokenizer": "code"},
    {"analyzer": "code", "split_identifiers": True, "split_on_numerics": False, "stem": True},
    {"analyzer": "text", "base_tokenizer": "ngram", "min_ngram_length": 2, "prefix_only": True},
    {"base_tokenizer": "icu/split", "analyzer": "text", "language": "Tamil"},
    {"max_token_length": None, "custom_stop_words": ['a"b', "é"], "with_position": True},
    {"block_size": 256},
    {"format_version": 1, "memory_limit": 100, "num_workers": 2},
    {"format_version": "v3", "base_tokenizer": "raw", "lower_case": False},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: " ".join(keywords) or "none")
def test_both_forms_are_those_of_the_reference(keywords: dict[str, Any], tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"s": ["a"]}), tmp_path)
    dataset.create_scalar_index("s", "INVERTED", **keywords)
    [path] = tmp_path.glob("_indices/*/metadata.lance")
    metadata = LanceFileReader(str(path)).metadata().schema.metadata
    ours = InvertedParameters.from_keywords(keywords)
    assert ours.to_json().encode() == metadata[b"params"]
    assert str(ours.format_version).encode() == metadata[b"format_version"]
    manifest = (tmp_path / "_versions").glob("*.manifest")
    details = ours.to_details()
    stored = b"%c%s\x12%c%s" % (len(TYPE_URL), TYPE_URL.encode(), len(details), details)
    assert any(stored in one.read_bytes() for one in manifest)


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: " ".join(keywords) or "none")
def test_both_forms_are_read_again(keywords: dict[str, Any]) -> None:
    made = InvertedParameters.from_keywords(keywords)
    assert InvertedParameters.from_json(made.to_json()).to_json() == made.to_json()
    read = InvertedParameters.from_details(made.to_details())
    assert read.to_details() == made.to_details()
    assert read.format_version == made.format_version


def test_json_documents_and_elements_of_lists() -> None:
    made = InvertedParameters.from_keywords({}, is_json=True)
    assert made.to_json().startswith('{"lance_tokenizer":"json",')
    elements = InvertedParameters(list_elements=True)
    details = index_pb2.InvertedIndexDetails.FromString(elements.to_details())
    assert details.document_granularity == details.LIST_ELEMENT
    assert InvertedParameters.from_details(elements.to_details()).list_elements


def test_what_old_versions_stored() -> None:
    assert InvertedParameters.from_details(b"") == InvertedParameters(format_version=1)
    old = InvertedParameters.from_json('{"base_tokenizer":"raw","stem":false,"unknown":1}')
    assert old == InvertedParameters(base_tokenizer="raw", stem=False)
    assert InvertedParameters.from_json('{"lance_tokenizer":null}') == InvertedParameters()
    code = index_pb2.InvertedIndexDetails(base_tokenizer="code", min_ngram_length=3)
    assert InvertedParameters.from_details(code.SerializeToString()).preserve_original


def test_flattened_json_of_newer_versions_is_refused() -> None:
    mode = "flattened_sub_docs"
    with pytest.raises(UnsupportedFeatureError, match=mode):
        InvertedParameters.from_json(f'{{"json_tokenizer_mode":"{mode}"}}')
    details = index_pb2.InvertedIndexDetails(json_tokenizer_mode=mode)
    with pytest.raises(UnsupportedFeatureError, match=mode):
        InvertedParameters.from_details(details.SerializeToString())


def test_the_format_version_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FTS_FORMAT_VERSION", "1")
    assert InvertedParameters.from_keywords({}).format_version == 1
    assert InvertedParameters.from_keywords({"format_version": 2}).format_version == 2
    monkeypatch.setenv("LANCE_FTS_FORMAT_VERSION", "x")
    with pytest.raises(InvalidInputError, match="LANCE_FTS_FORMAT_VERSION"):
        InvertedParameters.from_keywords({})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"analyzer": "foo"}, "analyzer"),
        ({"analyzer": "code", "base_tokenizer": "simple"}, "contradicts"),
        ({"analyzer": "text", "base_tokenizer": "code"}, "contradicts"),
        ({"base_tokenizer": "foo"}, "base_tokenizer"),
        ({"base_tokenizer": None}, "base_tokenizer"),
        ({"base_tokenizer": "jieba/other"}, "dictionary"),
        ({"base_tokenizer": "lindera/"}, "base_tokenizer"),
        ({"base_tokenizer": "lindera/../ipadic"}, "base_tokenizer"),
        ({"language": "english"}, "language"),
        ({"language": 1}, "language"),
        ({"stem": "no"}, "stem"),
        ({"stem": None}, "stem"),
        ({"max_token_length": -1}, "max_token_length"),
        ({"max_token_length": "5"}, "max_token_length"),
        ({"max_token_length": 2**32}, "max_token_length"),
        ({"custom_stop_words": "run"}, "custom_stop_words"),
        ({"custom_stop_words": [1]}, "custom_stop_words"),
        ({"split_identifiers": True}, "base_tokenizer='code'"),
        ({"base_tokenizer": "ngram", "min_ngram_length": 0}, "min_ngram_length"),
        ({"base_tokenizer": "ngram", "min_ngram_length": 4}, "max_ngram_length"),
        ({"block_size": 200}, "block_size"),
        ({"block_size": 256, "format_version": 2}, "format_version=3"),
        ({"base_tokenizer": "code", "format_version": 2}, "format_version=3"),
        ({"format_version": 4}, "format_version"),
        ({"format_version": True}, "format_version"),
    ],
)
def test_what_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        InvertedParameters.from_keywords(keywords)


def test_unknown_keywords() -> None:
    with pytest.raises(UnknownArgumentError, match="with_position"):
        InvertedParameters.from_keywords({"with_positions": True})
    with pytest.raises(UnknownArgumentError, match="lance_tokenizer"):
        InvertedParameters.from_keywords({"lance_tokenizer": "json"})


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"stem":1}', '{"max_token_length":"x"}', '{"custom_stop_words":[1]}']
)
def test_damaged_parameters(text: str) -> None:
    with pytest.raises(CorruptFileError):
        InvertedParameters.from_json(text)


@pytest.mark.parametrize("details", [b"\xff", b"\x0a\x09", b"\x12\x01x", b"\x12\x02[]"])
def test_damaged_details(details: bytes) -> None:
    with pytest.raises((CorruptFileError, InvalidInputError)):
        InvertedParameters.from_details(details)
