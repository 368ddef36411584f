"""The parameters of an index of near duplicates: how a text becomes a signature.

    manifest    details               the message MinHashLshIndexDetails
    both files  minhash_lsh_details   the same, in hexadecimal digits

The tokenizer is stored as that of full-text indices, and only tokenizers that need no dictionary
can be used: a query is analysed by what the details say, on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pilum.arguments import require_count, require_known
from pilum.cache import SHARED_DESCRIPTIONS
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFormatError
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2
from pilum.index.inverted.dictionaries import JIEBA, is_lindera
from pilum.index.inverted.parameters import InvertedParameters

__all__ = ["MinHashParameters"]

_MOST_HASHES = 4096
_MOST_BANDS = 256
_MOST_SHINGLE = 2**32 - 1
_SIGNATURE_VERSION = 0
"""The version of the whole way from a text to the keys of its bands."""

_TOKENIZER = InvertedParameters(stem=False, remove_stop_words=False)


@dataclass(frozen=True)
class MinHashParameters:
    """The parameters of an index of near duplicates.

    Attributes:
        num_hashes: Number of values of a signature, a multiple of `num_bands`.
        num_bands: Number of bands. Two texts are compared if they agree in all values of a band.
        shingle_size: Number of adjacent tokens that are hashed together.
        tokenizer: How a text is cut into tokens. What it says about postings has no effect.
    """

    num_hashes: int = 128
    num_bands: int = 16
    shingle_size: int = 3
    tokenizer: InvertedParameters = _TOKENIZER

    @classmethod
    def from_keywords(cls, given: Mapping[str, Any]) -> Self:
        """Build parameters from those of `IndexConfig`, or the keywords of `create_scalar_index`.

        Raises:
            UnknownArgumentError: If there is no such parameter.
            InvalidInputError: If a value is invalid, or values contradict each other.
        """
        names = ("num_hashes", "num_bands", "shingle_size")
        require_known("MINHASHLSH has", given, (*names, "tokenizer"))
        counts: dict[str, Any] = {
            name: require_count(name, given[name]) for name in names if name in given
        }
        tokenizer = given.get("tokenizer") or {}
        if not isinstance(tokenizer, Mapping):
            raise InvalidInputError(f"tokenizer: expected a dict, found {tokenizer!r:.80}")
        filters = {"stem": False, "remove_stop_words": False, **tokenizer}
        made = cls(tokenizer=InvertedParameters.from_keywords(filters))
        return replace(made, **counts).checked()

    @classmethod
    def from_details(cls, data: bytes) -> Self:
        """Read the details of a manifest, which the files of the segment repeat.

        Raises:
            CorruptFileError: If they are damaged.
            UnsupportedFormatError: If signatures were made in a way that is not known.
            UnsupportedFeatureError: If they need something that is not supported.
        """
        return SHARED_DESCRIPTIONS.parsed(cls._parsed, data)

    @classmethod
    def _parsed(cls, data: bytes) -> Self:
        what = "details of an index of near duplicates"
        details = parse_message(index_pb2.MinHashLshIndexDetails, data, what=what)
        if details.signature_version != _SIGNATURE_VERSION:
            raise UnsupportedFormatError(
                f"signatures of version {details.signature_version}; version {_SIGNATURE_VERSION} "
                "is known: create the index again"
            )
        if not details.HasField("tokenizer"):
            raise CorruptFileError("details of an index of near duplicates: no tokenizer")
        try:
            return cls(
                details.num_hashes,
                details.num_bands,
                details.shingle_size,
                InvertedParameters.from_details(details.tokenizer.SerializeToString()),
            ).checked()
        except InvalidInputError as error:
            raise CorruptFileError(f"details of an index of near duplicates: {error}") from error

    def to_details(self) -> bytes:
        """Return the details for the manifest."""
        details = index_pb2.MinHashLshIndexDetails(
            num_hashes=self.num_hashes,
            num_bands=self.num_bands,
            shingle_size=self.shingle_size,
            signature_version=_SIGNATURE_VERSION,
        )
        details.tokenizer.ParseFromString(self.tokenizer.to_details())
        return bytes(details.SerializeToString(deterministic=True))

    def described(self) -> dict[str, Any]:
        """Return the values by name, as the reference describes them."""
        return {
            **self.numbers(),
            "tokenizer": {**self.tokenizer.stored(), "lance_tokenizer": None},
        }

    def numbers(self) -> dict[str, int]:
        """Return the values that are numbers, by name."""
        return {
            "num_hashes": self.num_hashes,
            "num_bands": self.num_bands,
            "shingle_size": self.shingle_size,
            "signature_version": _SIGNATURE_VERSION,
        }

    def checked(self) -> Self:
        """Check that the parameters fit together; return them.

        Raises:
            InvalidInputError: Says which of them do not.
        """
        _require_range("num_hashes", self.num_hashes, _MOST_HASHES)
        _require_range("num_bands", self.num_bands, _MOST_BANDS)
        _require_range("shingle_size", self.shingle_size, _MOST_SHINGLE)
        if self.num_hashes % self.num_bands:
            raise InvalidInputError(
                f"num_hashes: expected a multiple of num_bands, {self.num_bands}, found "
                f"{self.num_hashes}"
            )
        base = self.tokenizer.base_tokenizer
        if base == JIEBA or is_lindera(base):
            raise InvalidInputError(
                f"tokenizer: {base!r} needs a dictionary, which an index of near duplicates does "
                "not store; use 'icu', which cuts Chinese and Japanese without one"
            )
        if self.tokenizer.custom_stop_words is not None:
            raise InvalidInputError(
                "tokenizer: an index of near duplicates does not store custom_stop_words"
            )
        return self


def _require_range(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise InvalidInputError(f"{name}: expected 1 to {most}, found {value}")
