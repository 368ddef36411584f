"""The parameters of a full-text index: how documents become tokens, and how postings are stored.

    metadata.lance   params     {"lance_tokenizer":"text","base_tokenizer":"simple", …}, in order
    manifest         details    the message InvertedIndexDetails, without custom stop words

Some are not stored: they matter only while an index is built.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from pilum.arguments import require_count, require_known
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2
from pilum.index.inverted.dictionaries import JIEBA, is_lindera

__all__ = ["LANGUAGES", "TYPE_URL", "InvertedParameters"]

TYPE_URL = "/lance.table.InvertedIndexDetails"

LANGUAGES = (
    "Arabic",
    "Danish",
    "Dutch",
    "English",
    "Finnish",
    "French",
    "German",
    "Greek",
    "Hungarian",
    "Italian",
    "Norwegian",
    "Portuguese",
    "Romanian",
    "Russian",
    "Spanish",
    "Swedish",
    "Tamil",
    "Turkish",
)

_BASES = ("simple", "whitespace", "raw", "ngram", "icu", "icu/split", "code", JIEBA)
_CODE = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_FLAGS = (
    "with_position",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
    "prefix_only",
    *_CODE,
)
_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "code": {
        "stem": False,
        "remove_stop_words": False,
        "split_on_numerics": True,
        "preserve_original": True,
    },
    "ngram": {"stem": False, "remove_stop_words": False},
}
_FORMAT_VERSIONS = {f"{mark}{number}": number for mark in ("", "v", "V") for number in (1, 2, 3)}
_FORMAT_VERSION = "LANCE_FTS_FORMAT_VERSION"
_BLOCK_SIZES = (128, 256)
_GRANULARITIES = ("row", "list_element")
_MAX_U32 = 2**32 - 1


@dataclass(frozen=True)
class InvertedParameters:
    """The parameters of a full-text index.

    Attributes:
        lance_tokenizer: `text`, or `json` for JSON documents.
        base_tokenizer: How a text is cut: `simple`, `whitespace`, `raw`, `ngram`, `icu`,
            `icu/split`, `code`, `jieba/default`, or `lindera/` and the name of a dictionary.
        language: Language of stems and stop words, one of `LANGUAGES`.
        with_position: Whether positions are stored, which phrase queries need.
        max_token_length: Tokens of this many bytes or more are dropped; None for no limit.
        lower_case: Whether tokens are converted to lower case.
        stem: Whether tokens are reduced to their stems.
        remove_stop_words: Whether stop words are dropped.
        custom_stop_words: Stop words instead of those of the language.
        ascii_folding: Whether characters are replaced by similar ones of ASCII.
        min_ngram_length: Fewest characters of an n-gram.
        max_ngram_length: Most characters of an n-gram.
        prefix_only: Whether n-grams begin only at the start of a text.
        block_size: Documents of a posting block, 128 or 256.
        split_identifiers: Whether `code` cuts identifiers into parts.
        split_on_numerics: Whether parts end where digits begin or end.
        preserve_original: Whether a cut identifier is a token, too.
        index_operators: Whether operators are tokens of `code`.
        format_version: Version of the format of postings: 1, 2 or 3.
        list_elements: Whether each element of a list is a document of its own.
        memory_limit_mib: Memory of a build in MiB; None for the default. Not stored.
        num_workers: Number of threads of a build; None for the default. Not stored.
    """

    lance_tokenizer: str = "text"
    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    block_size: int = 128
    split_identifiers: bool = False
    split_on_numerics: bool = False
    preserve_original: bool = False
    index_operators: bool = False
    format_version: int = 2
    list_elements: bool = False
    memory_limit_mib: int | None = None
    num_workers: int | None = None

    @classmethod
    def from_keywords(cls, given: Mapping[str, Any], *, is_json: bool = False) -> Self:
        """Build parameters from the keywords of `create_scalar_index`.

        Args:
            given: Keywords; those that are missing have defaults, which depend on `analyzer` and
                `base_tokenizer`.
            is_json: Whether the documents are JSON.

        Raises:
            UnknownArgumentError: If there is no such keyword.
            InvalidInputError: If a value is invalid, or values contradict each other.
        """
        require_known("full-text indices have", given, _KEYWORDS)
        base = _base_of(given)
        values = {name: _checked(name, value) for name, value in given.items()}
        version = values.pop("format_version", None)
        for name in ("analyzer", "base_tokenizer"):
            values.pop(name, None)
        granularity = values.pop("document_granularity", "row")
        if granularity not in _GRANULARITIES:
            raise InvalidInputError(
                f"document_granularity: expected one of {_GRANULARITIES}, found {granularity!r}"
            )
        values["list_elements"] = granularity == "list_element"
        if "memory_limit" in values:
            values["memory_limit_mib"] = values.pop("memory_limit")
        made = replace(
            cls(lance_tokenizer="json" if is_json else "text", base_tokenizer=base),
            **{**_PRESETS.get(base, {}), **values},
        )
        if version is None and (text := os.environ.get(_FORMAT_VERSION)):
            version = _format_version(_FORMAT_VERSION, text)
        made = replace(made, format_version=version or made._usual_version())
        if base == "code" and made.format_version != 3:
            raise InvalidInputError(f"base_tokenizer='code' needs format_version=3, not {version}")
        return made.checked()

    @classmethod
    def from_json(cls, text: str | bytes, format_version: int | None = None) -> Self:
        """Read the stored form, which lacks `list_elements`.

        Args:
            text: The value of `params`.
            format_version: The value of `format_version`, which is stored beside it; None for the
                one that goes with the parameters.

        Raises:
            CorruptFileError: If it is damaged.
            UnsupportedFeatureError: If it needs something that is not supported.
            InvalidInputError: If a value is not supported.
        """
        try:
            stored = json.loads(text)
        except ValueError as error:
            raise CorruptFileError(f"parameters of a full-text index: {error}") from error
        if not isinstance(stored, dict):
            raise CorruptFileError(f"parameters of a full-text index: {stored!r}")
        _require_json_mode(stored.get("json_tokenizer_mode"))
        values = {name: stored[name] for name in _STORED if name in stored}
        words = values.get("custom_stop_words")
        if isinstance(words, list):
            values["custom_stop_words"] = tuple(words)
        if values.get("lance_tokenizer", "") is None:
            values["lance_tokenizer"] = "text"
        values = {name: _checked(name, value, CorruptFileError) for name, value in values.items()}
        made = cls(**values)
        return replace(made, format_version=format_version or made._usual_version()).checked()

    def to_json(self) -> str:
        """Return the stored form, without blanks and in the reference's order."""
        return json.dumps(self.stored(), ensure_ascii=False, separators=(",", ":"))

    def stored(self) -> dict[str, Any]:
        """Return the stored values by name, in the reference's order."""
        return {name: getattr(self, name) for name in _STORED}

    @classmethod
    def from_details(cls, data: bytes) -> Self:
        """Read the details of a manifest, which lack custom stop words and the kind of documents.

        Raises:
            CorruptFileError: If they are damaged.
            UnsupportedFeatureError: If they need something that is not supported.
            InvalidInputError: If a value is not supported.
        """
        what = "details of a full-text index"
        details = parse_message(index_pb2.InvertedIndexDetails, data, what=what)
        try:
            language = json.loads(details.language or '"English"')
        except ValueError as error:
            raise CorruptFileError(f"{what}: {error}") from error
        _require_json_mode(details.json_tokenizer_mode or None)
        has = details.HasField
        element = details.document_granularity == details.LIST_ELEMENT
        version = details.posting_format_version if has("posting_format_version") else 1
        if not has("base_tokenizer") and not details.language:
            made = cls(format_version=version, list_elements=element)
        else:
            made = cls(
                base_tokenizer=details.base_tokenizer if has("base_tokenizer") else "simple",
                language=language,
                with_position=details.with_position,
                max_token_length=details.max_token_length if has("max_token_length") else None,
                lower_case=details.lower_case,
                stem=details.stem,
                remove_stop_words=details.remove_stop_words,
                ascii_folding=details.ascii_folding,
                min_ngram_length=details.min_ngram_length,
                max_ngram_length=details.max_ngram_length,
                prefix_only=details.prefix_only,
                format_version=version,
                list_elements=element,
            )
        if has("block_size"):
            made = replace(made, block_size=details.block_size)
        if made.base_tokenizer == "code":
            code = details.code_config
            made = replace(
                made,
                split_identifiers=code.split_identifiers,
                split_on_numerics=code.split_on_numerics or not code.HasField("split_on_numerics"),
                preserve_original=code.preserve_original or not code.HasField("preserve_original"),
                index_operators=code.index_operators,
            )
        return made.checked()

    def to_details(self) -> bytes:
        """Return the details for the manifest."""
        details = index_pb2.InvertedIndexDetails(
            base_tokenizer=self.base_tokenizer,
            language=json.dumps(self.language),
            with_position=self.with_position,
            max_token_length=self.max_token_length,
            lower_case=self.lower_case,
            stem=self.stem,
            remove_stop_words=self.remove_stop_words,
            ascii_folding=self.ascii_folding,
            min_ngram_length=self.min_ngram_length,
            max_ngram_length=self.max_ngram_length,
            prefix_only=self.prefix_only,
            block_size=self.block_size,
            posting_format_version=self.format_version,
        )
        if self.base_tokenizer == "code":
            details.code_config.split_identifiers = self.split_identifiers
            details.code_config.split_on_numerics = self.split_on_numerics
            details.code_config.preserve_original = self.preserve_original
            details.code_config.index_operators = self.index_operators
        if self.list_elements:
            details.document_granularity = details.LIST_ELEMENT
        return bytes(details.SerializeToString(deterministic=True))

    def checked(self) -> Self:
        """Check that the parameters fit together; return them.

        Raises:
            InvalidInputError: Says which of them do not.
        """
        if self.lance_tokenizer not in ("text", "json"):
            raise InvalidInputError(
                f"lance_tokenizer: expected 'text' or 'json', found {self.lance_tokenizer!r}"
            )
        _require_base(self.base_tokenizer)
        if self.language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise InvalidInputError(f"language: {self.language!r} is none of {known}")
        if self.base_tokenizer == "ngram" and not (
            0 < self.min_ngram_length <= self.max_ngram_length
        ):
            raise InvalidInputError(
                "expected 0 < min_ngram_length <= max_ngram_length, found "
                f"{self.min_ngram_length} and {self.max_ngram_length}"
            )
        if self.base_tokenizer != "code" and any(getattr(self, name) for name in _CODE):
            raise InvalidInputError(f"{', '.join(_CODE)} need base_tokenizer='code'")
        if self.block_size not in _BLOCK_SIZES:
            raise InvalidInputError(f"block_size: expected 128 or 256, found {self.block_size}")
        if self.block_size == 256 and self.format_version < 3:
            raise InvalidInputError(
                f"block_size=256 needs format_version=3, found {self.format_version}"
            )
        return self

    def _usual_version(self) -> int:
        return 3 if self.block_size == 256 or self.base_tokenizer == "code" else 2


_STORED = tuple(field.name for field in fields(InvertedParameters))[:18]
_KEYWORDS = frozenset(_STORED[1:]) | {
    "analyzer",
    "document_granularity",
    "format_version",
    "memory_limit",
    "num_workers",
}


def _base_of(given: Mapping[str, Any]) -> str:
    analyzer = given.get("analyzer")
    base = given.get("base_tokenizer", "code" if analyzer == "code" else "simple")
    if analyzer not in (None, "text", "code"):
        raise InvalidInputError(f"analyzer: expected 'text' or 'code', found {analyzer!r}")
    if not isinstance(base, str):
        raise InvalidInputError(f"base_tokenizer: expected a string, found {base!r}")
    if analyzer is not None and (analyzer == "code") != (base == "code"):
        raise InvalidInputError(f"analyzer={analyzer!r} contradicts base_tokenizer={base!r}")
    return base


def _require_base(base: str) -> None:
    if base.startswith("jieba/") and base != JIEBA:
        raise InvalidInputError(
            f"base_tokenizer={base!r} needs a dictionary that pilum does not have; "
            f"{JIEBA!r} cuts Chinese"
        )
    if base not in _BASES and not is_lindera(base):
        known = ", ".join((*_BASES, "lindera/NAME"))
        raise InvalidInputError(f"base_tokenizer: {base!r} is none of {known}")


def _require_json_mode(mode: object) -> None:
    if mode not in (None, "single_document"):
        raise UnsupportedFeatureError(
            f"json_tokenizer_mode {mode!r}: only documents that are not flattened are supported"
        )


def _checked(name: str, value: Any, failure: type[Exception] = InvalidInputError) -> Any:
    """Check the type of one value; return it in the form in which it is kept."""
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise failure(f"{name}: expected True or False, found {value!r}")
        return value
    if name in ("max_token_length", "memory_limit", "num_workers") and value is None:
        return None
    if name == "format_version":
        return None if value is None else _format_version(name, value)
    if name == "custom_stop_words":
        return None if value is None else _words(name, value, failure)
    if name in (
        "language",
        "lance_tokenizer",
        "base_tokenizer",
        "analyzer",
        "document_granularity",
    ):
        if not isinstance(value, str) and not (name == "analyzer" and value is None):
            raise failure(f"{name}: expected a string, found {value!r}")
        return value
    try:
        number = require_count(name, value)
    except InvalidInputError as error:
        raise failure(str(error)) from error
    if number > _MAX_U32:
        raise failure(f"{name}: {number} is too large")
    return number


def _words(name: str, value: Any, failure: type[Exception]) -> tuple[str, ...]:
    if isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(word, str) for word in value
    ):
        return tuple(value)
    raise failure(f"{name}: expected a list of strings, found {value!r}")


def _format_version(name: str, value: Any) -> int:
    version = None if isinstance(value, bool) else _FORMAT_VERSIONS.get(str(value))
    if version is None:
        raise InvalidInputError(f"{name}: expected 1, 2 or 3, found {value!r}")
    return version
