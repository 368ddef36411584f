"""Parameters of full-text indices, and random documents for them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from pilum.index.inverted.parameters import LANGUAGES
from pilum.index.inverted.stop_words import stop_words

__all__ = ["CASES", "documents", "recorded_path"]

JSON = pa.json_(pa.utf8())
_LISTS = pa.list_(pa.string())

CASES: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "simple": (pa.string(), {}),
    "custom words": (pa.string(), {"custom_stop_words": ["run", "user"]}),
    "whitespace": (pa.string(), {"base_tokenizer": "whitespace", "stem": False}),
    "raw": (pa.string(), {"base_tokenizer": "raw", "max_token_length": None}),
    "short": (pa.string(), {"max_token_length": 4, "lower_case": False}),
    "ngram": (
        pa.large_string(),
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4},
    ),
    "prefix": (pa.string(), {"base_tokenizer": "ngram", "prefix_only": True}),
    "code": (pa.string(), {"base_tokenizer": "code"}),
    "operators": (
        pa.string(),
        {"analyzer": "code", "split_identifiers": True, "index_operators": True},
    ),
    "parts": (
        pa.string(),
        {
            "base_tokenizer": "code",
            "split_identifiers": True,
            "split_on_numerics": False,
            "preserve_original": False,
        },
    ),
    "icu": (pa.string(), {"base_tokenizer": "icu"}),
    "icu/split": (pa.string(), {"base_tokenizer": "icu/split", "stem": False}),
    "lists": (_LISTS, {}),
    "raw lists": (pa.large_list(pa.string()), {"base_tokenizer": "raw"}),
    "json": (JSON, {}),
    "json ngram": (JSON, {"base_tokenizer": "ngram", "remove_stop_words": True}),
    **{language: (pa.string(), {"language": language}) for language in LANGUAGES[:3]},
    **{
        language: (pa.string(), {"language": language, "ascii_folding": False})
        for language in LANGUAGES[3:]
    },
}

_NAMES = ("get", "User", "NAME", "http", "XML", "2", "_x", "json", "running", "the", "ßÜ½", "İ")
_MARKS = ("", "_", " ", "-", "::", ".", ">>>=", "'", "\u200b")
_FIXED = ("", "   ", "x" * 39, "y" * 40, "é" * 20, "é" * 19 + "a", "\t\n \x0b\x1f", None)
_NUMBERS = (0, -7, 2**63, 1.0, -0.0, 1e300, 1041566094200987.5, 1.9127697685817566e-12)


def documents(name: str, count: int, seed: int) -> pa.Array:
    """Return random documents for a case, some of them null."""
    kind, keywords = CASES[name]
    draw = _Draw(Random(seed), stop_words(keywords.get("language", "English")))
    if kind == JSON:
        texts = [json.dumps(draw.value(), ensure_ascii=False) for _ in range(count)]
        return pa.array([*texts, None, "{}", "[]", '""'], pa.string()).cast(JSON)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([draw.text() for _ in range(count)], kind)
    lists = [[draw.text() for _ in range(draw.random.randrange(4))] for _ in range(count)]
    return pa.array([*lists, None, [None], [""]], kind)


def recorded_path() -> Path:
    """Return the path of the tokens that the reference found for documents of seed 0."""
    return Path(__file__).with_name("recorded_tokens.json")


class _Draw:
    def __init__(self, random: Random, words: tuple[str, ...]) -> None:
        self.random = random
        self._words = words

    def text(self) -> str | None:
        choice, draws = self.random.choice, self.random.random()
        if draws < 0.3:
            return "".join(self._character() for _ in range(self.random.randrange(30)))
        if draws < 0.6:
            words = (choice(self._words) + choice(("", "", "s", "ing", "en")) for _ in range(8))
            return " ".join(words)
        if draws < 0.9:
            names = [choice((*_NAMES, choice(self._words))) for _ in range(6)]
            return "".join(name + choice(_MARKS) for name in names)
        return choice(_FIXED)

    def value(self, depth: int = 0) -> Any:
        draws = self.random.random()
        if depth > 3 or draws < 0.4:
            return self.text() or "x"
        if draws < 0.5:
            return self.random.choice((None, True, False))
        if draws < 0.6:
            return self.random.choice((*_NUMBERS, self.random.random()))
        if draws < 0.75:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        keys = [(self.text() or "k")[:5] for _ in range(self.random.randrange(4))]
        return {key: self.value(depth + 1) for key in keys}

    def _character(self) -> str:
        draws = self.random.random()
        bounds = ((0x20, 0x7F), (0xA0, 0x500), (0x500, 0xD800), (0xF900, 0x20000))
        return chr(self.random.randrange(*bounds[int(draws * 4)]))
