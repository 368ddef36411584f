"""Documents to tokens, and sets of tokens.

    Analyzer       documents ──▶ tokens as text             queries, rows that no index covers
    TokenBuilder   documents ──▶ tokens as numbers          building an index
    TokenSet       tokens    ──▶ numbers, similar tokens    a partition of an index

Stored sets of tokens, `part_{p}_tokens.lance`:

    fst      one row    _token_fst_bytes large_binary | _token_next_id u32 | _token_total_length u64
    arrow    n rows     _token utf8 | _token_id u32, in the order of the tokens' bytes

Token ids are dense and follow the first appearance of each token.
Source: docs/format/text-analysis.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import StringBlock, block_of, validity_mask
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.index.inverted.cut_json import JsonValues, json_tokens, with_prefixes
from pilum.index.inverted.dictionaries import Segmenter, pieces, segmenter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.stop_words import stop_words

__all__ = [
    "FST_COLUMNS",
    "TOKEN_COLUMNS",
    "Analyzer",
    "DocumentTokens",
    "NumberedTokens",
    "TokenBuilder",
    "TokenSet",
    "text_arguments",
]

FST_COLUMNS = pa.schema(
    [
        pa.field("_token_fst_bytes", pa.large_binary(), nullable=False),
        pa.field("_token_next_id", pa.uint32(), nullable=False),
        pa.field("_token_total_length", pa.uint64(), nullable=False),
    ]
)
TOKEN_COLUMNS = pa.schema(
    [
        pa.field("_token", pa.utf8(), nullable=False),
        pa.field("_token_id", pa.uint32(), nullable=False),
    ]
)

_STRING_TYPES = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)

_Validity: TypeAlias = "tuple[NDArray[np.uint8], int] | None"
_Offsets: TypeAlias = "NDArray[np.int32] | NDArray[np.int64]"
_Texts: TypeAlias = "tuple[_Offsets, NDArray[np.uint8], _Validity]"
_Lists: TypeAlias = "tuple[_Offsets, _Validity]"


@dataclass(frozen=True)
class DocumentTokens:
    """The tokens of documents as text.

    Attributes:
        tokens: The tokens of all documents, one after the other.
        positions: The position of each token in its document.
        ends: int64; the number of tokens at the end of each document.
    """

    tokens: pa.LargeStringArray
    positions: NDArray[np.uint32]
    ends: NDArray[np.int64]


@dataclass(frozen=True)
class NumberedTokens:
    """The tokens of documents as numbers.

    Attributes:
        token_ids: The token ids of all documents, one document after the other.
        positions: The position of each token in its document.
        ends: int64; the number of tokens at the end of each document.
    """

    token_ids: NDArray[np.uint32]
    positions: NDArray[np.uint32]
    ends: NDArray[np.int64]


class Analyzer:
    """Text analysis with the parameters of an index. Safe to use from several threads."""

    def __init__(self, parameters: InvertedParameters) -> None:
        """Prepare an analysis.

        Raises:
            MissingDependencyError: If the base tokenizer needs a package that is not installed.
        """
        self._parameters = parameters
        self._segmenter = segmenter(parameters.base_tokenizer)
        self._kernels: dict[str, kernels.TextAnalyzer] = {}

    def tokens(self, documents: pa.Array) -> DocumentTokens:
        """Analyse documents.

        Args:
            documents: Strings, lists of strings (one document per list), JSON texts, or their
                binary form.

        Raises:
            InvalidInputError: If a JSON text is invalid.
            UnsupportedTypeError: If the array has another type.
        """
        return self._tokens(self._parameters.lance_tokenizer, documents)

    def query(self, text: str) -> DocumentTokens:
        """Analyse the text of a query, as one document.

        For JSON documents, a query is `path,type,value` with `;` between several of them.

        Raises:
            InvalidInputError: If it has another form.
        """
        return self._tokens(self._query_form, pa.array([text], pa.large_utf8()))

    def words(self, text: str) -> list[tuple[str, int]]:
        """Return the tokens of a query and their positions; faster than `query`.

        Raises:
            InvalidInputError: If a query of JSON documents has another form.
        """
        if self._segmenter is not None:
            found = self.query(text)
            return list(zip(found.tokens.to_pylist(), found.positions.tolist(), strict=True))
        try:
            return self._kernel(self._query_form).words(text)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error

    def split(self, text: str) -> tuple[DocumentTokens, list[int]]:
        """Cut the text of a query, as one document, without applying any filter.

        This is what fuzzy queries compare with the tokens of an index.

        Returns:
            The tokens, and how many bytes at the start of each are path and type of a JSON value.
        """
        form, documents = self._query_form, pa.array([text], pa.large_utf8())
        if form == "text":
            found = self._tokens(form, documents, filtered=False)
            return found, [0] * len(found.tokens)
        if self._segmenter is not None:
            prefixes, tokens, positions, ends = self._cut_json(form, documents, filtered=False)
        else:
            kernel = self._kernel(form, filtered=False)
            prefixes, tokens, _, ends = _json_values(kernel, documents)
            positions = np.arange(len(tokens), dtype=np.uint32)
        found = DocumentTokens(with_prefixes(prefixes, tokens), positions, ends)
        return found, pc.binary_length(prefixes).to_pylist()

    def builder(self) -> TokenBuilder:
        """Return an empty set of tokens, to be filled with those of documents."""
        form = self._parameters.lance_tokenizer
        cuts_json = form == "json" and self._segmenter is not None
        return TokenBuilder(self._kernel(form), self._segmenter, self.tokens if cuts_json else None)

    def min_hasher(self, num_hashes: int, num_bands: int, shingle_size: int) -> kernels.MinHasher:
        """Return a kernel that makes signatures of the tokens of texts."""
        kernel = self._kernel(self._parameters.lance_tokenizer)
        return kernels.MinHasher(kernel, num_hashes, num_bands, shingle_size)

    def _tokens(self, form: str, documents: pa.Array, *, filtered: bool = True) -> DocumentTokens:
        if self._segmenter is not None and form != "text":
            prefixes, tokens, positions, ends = self._cut_json(form, documents, filtered=filtered)
            return DocumentTokens(with_prefixes(prefixes, tokens), positions, ends)
        kernel = self._kernel(form, filtered=filtered)
        strings, positions, ends = _analyzed(kernel.tokens, documents, self._segmenter)
        return DocumentTokens(_texts(*strings), positions, ends)

    def _cut_json(
        self, form: str, documents: pa.Array, *, filtered: bool
    ) -> tuple[pa.LargeStringArray, pa.LargeStringArray, NDArray[np.uint32], NDArray[np.int64]]:
        assert self._segmenter is not None
        values = _json_values(self._kernel(form, filtered=filtered), documents)
        return json_tokens(values, self._segmenter, self._kernel("text", filtered=filtered))

    @property
    def _query_form(self) -> str:
        form = self._parameters.lance_tokenizer
        return "json query" if form == "json" else form

    def _kernel(self, form: str, *, filtered: bool = True) -> kernels.TextAnalyzer:
        key = f"{form} {filtered}"
        if key not in self._kernels:
            self._kernels[key] = _kernel_of(self._parameters, form, filtered=filtered)
        return self._kernels[key]


def _kernel_of(
    parameters: InvertedParameters, form: str, *, filtered: bool
) -> kernels.TextAnalyzer:
    removed: Sequence[str] = ()
    if filtered and parameters.remove_stop_words:
        removed = parameters.custom_stop_words or ()
        if parameters.custom_stop_words is None:
            everywhere = parameters.base_tokenizer.startswith("icu")
            removed = stop_words("all" if everywhere else parameters.language)
    parts = (parameters.split_on_numerics, parameters.preserve_original)
    base = parameters.base_tokenizer
    return kernels.TextAnalyzer(
        base if segmenter(base) is None else "raw",
        form,
        max_bytes=parameters.max_token_length if filtered else None,
        lower_case=filtered and parameters.lower_case,
        stemmer_of=parameters.language.lower() if filtered and parameters.stem else None,
        stop_words=list(removed),
        ascii_folding=filtered and parameters.ascii_folding,
        ngrams=(parameters.min_ngram_length, parameters.max_ngram_length),
        prefix_only=parameters.prefix_only,
        operators=parameters.index_operators,
        parts=parts if parameters.split_identifiers else None,
    )


class TokenBuilder:
    """A growing set of tokens, numbered in the order of their first appearance."""

    def __init__(
        self,
        kernel: kernels.TextAnalyzer,
        segmenter: Segmenter | None = None,
        tokens: Callable[[pa.Array], DocumentTokens] | None = None,
    ) -> None:
        """Begin an empty set.

        Args:
            kernel: The analysis.
            segmenter: Cuts texts before it.
            tokens: Analyses documents instead of both.
        """
        self._dictionary = kernels.TokenDictionary(kernel)
        self._segmenter = segmenter
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._dictionary)

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        return self._dictionary.size_bytes

    def analyze(self, documents: pa.Array) -> NumberedTokens:
        """Analyse documents, and add their tokens.

        Args:
            documents: As for `Analyzer.tokens`.

        Raises:
            InvalidInputError: If a JSON text is invalid.
            UnsupportedTypeError: If the array has another type.
        """
        if self._tokens is not None:
            found = self._tokens(documents)
            return NumberedTokens(self.add(found.tokens), found.positions, found.ends)
        [ids], positions, ends = _analyzed(self._dictionary.analyze, documents, self._segmenter)
        return NumberedTokens(ids, positions, ends)

    def add(self, tokens: pa.Array) -> NDArray[np.uint32]:
        """Return the ids of tokens; new ones are added."""
        block = _strings(tokens)
        return self._dictionary.add(block.offsets, block.data)

    def finish(self) -> TokenSet:
        """Return the set of all tokens so far."""
        return TokenSet(kernels.TokenSet.of(*self._dictionary.sorted()))

    def in_byte_order(self) -> tuple[TokenSet, NDArray[np.uint32]]:
        """Return the set numbered in the order of the tokens' bytes, and the id of each so far."""
        offsets, data, ids = self._dictionary.sorted()
        return TokenSet(kernels.TokenSet.of(offsets, data, _numbers_of(ids))), ids


class TokenSet:
    """The tokens of a partition and their ids. Safe to use from several threads."""

    def __init__(self, kernel: kernels.TokenSet) -> None:
        self._kernel = kernel

    @classmethod
    def from_table(cls, table: pa.Table) -> TokenSet:
        """Read a stored set, of either form.

        Raises:
            CorruptFileError: If it is damaged.
        """
        if "_token" not in table.column_names:
            if table.num_rows != 1:
                raise CorruptFileError(f"token set: expected 1 row, found {table.num_rows}")
            [stored] = _column(table, "_token_fst_bytes").to_pylist()
            if not isinstance(stored, bytes):
                raise CorruptFileError("token set: no bytes")
            return cls(kernels.TokenSet.read(np.frombuffer(stored, dtype=np.uint8)))
        tokens, ids = _column(table, "_token"), _column(table, "_token_id")
        if tokens.null_count or ids.null_count or ids.type != pa.uint32():
            raise CorruptFileError("token set: tokens or ids are null or of a wrong type")
        block = _strings(tokens)
        return cls(kernels.TokenSet.of(block.offsets, block.data, ids.to_numpy()))

    @classmethod
    def of_sorted(cls, tokens: pa.Array) -> TokenSet:
        """Return a set of tokens that are in the order of their bytes, which is their number."""
        block = _strings(tokens)
        return cls(kernels.TokenSet.of(block.offsets, block.data, _numbers_of(tokens)))

    def to_table(self) -> pa.Table:
        """Return the stored form `fst`, with the columns `FST_COLUMNS`."""
        listed, _ = self.listed()
        total = int(pc.sum(pc.binary_length(listed)).as_py() or 0)
        stored = self._kernel.bytes().tobytes()
        return pa.table([[stored], [len(self)], [total]], schema=FST_COLUMNS)

    def __len__(self) -> int:
        return len(self._kernel)

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        return self._kernel.size_bytes

    def find(self, tokens: pa.Array) -> NDArray[np.int64]:
        """Return the ids of tokens; -1 for those that the set does not contain.

        Raises:
            CorruptFileError: If the set is damaged.
        """
        block = _strings(tokens)
        return self._kernel.find(block.offsets, block.data)

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the ids of a few tokens, as `find`."""
        return self._kernel.numbers(words)

    def similar(
        self, words: Sequence[tuple[str, int, int]], max_expansions: int
    ) -> tuple[pa.LargeStringArray, NDArray[np.uint32], list[int]]:
        """Return the tokens that are similar to words, in the order of their bytes for each word.

        Args:
            words: For each the word, the most characters that may differ (inserted, removed or
                replaced), and how many bytes at the start must be the same.
            max_expansions: Most tokens in all; the first words are served first.

        Returns:
            Tokens, their ids, and how many there are at the end of each word.

        Raises:
            CorruptFileError: If the set is damaged.
        """
        found, ends = self._kernel.similar(list(words), max_expansions)
        tokens, ids = _listed(found)
        return tokens, ids, ends

    def listed(self) -> tuple[pa.LargeStringArray, NDArray[np.uint32]]:
        """Return all tokens, in the order of their bytes, and their ids.

        Raises:
            CorruptFileError: If the set is damaged.
        """
        return _listed(self._kernel.list())


def _numbers_of(tokens: Sized) -> NDArray[np.uint32]:
    return np.arange(len(tokens), dtype=np.uint32)


def _listed(
    found: tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint32]],
) -> tuple[pa.LargeStringArray, NDArray[np.uint32]]:
    offsets, data, ids = found
    tokens = _texts(offsets, data)
    try:
        tokens.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptFileError(f"token set: {error}") from error
    return tokens, ids


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise CorruptFileError(f"token set: no column {name!r} among {table.column_names}")
    return table.column(name).combine_chunks()


def _json_values(kernel: kernels.TextAnalyzer, documents: pa.Array) -> JsonValues:
    """Return the values of JSON documents; see `json_tokens`."""
    try:
        prefixes, values, is_verbatim, ends = kernel.cut(*text_arguments(documents))
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    return _texts(*prefixes), _texts(*values), is_verbatim, ends


def _texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.LargeStringArray:
    buffers = (pa.py_buffer(offsets), pa.py_buffer(data))
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers)


def _analyzed(
    run: Callable[[_Texts, _Lists | None], tuple[Any, ...]],
    documents: pa.Array,
    segmenter: Segmenter | None,
) -> tuple[tuple[Any, ...], NDArray[np.uint32], NDArray[np.int64]]:
    """Run a kernel; return the tokens, their positions, and their number at each document's end."""
    cut = None if segmenter is None else pieces(segmenter, documents)
    texts, lists = text_arguments(documents if cut is None else cut.words)
    try:
        *tokens, positions, ends = run(texts, lists)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    if cut is not None:
        # Each piece was a document of at most one token.
        positions = cut.positions[np.diff(ends, prepend=0) > 0]
        ends = np.concatenate([np.zeros(1, np.int64), ends])[cut.ends]
    return tuple(tokens), positions, ends


def text_arguments(documents: pa.Array) -> tuple[_Texts, _Lists | None]:
    """Return texts and lists as the kernels take them."""
    if isinstance(documents, pa.ExtensionArray):
        return text_arguments(documents.storage)
    kind = documents.type
    if pt.is_list(kind) or pt.is_large_list(kind):
        texts, inner = text_arguments(documents.values)
        if inner is not None:
            raise _unsupported(kind)
        return texts, (documents.offsets.to_numpy(), _validity(documents))
    block = _strings(documents)
    if block.is_text:
        return (block.offsets, block.data, _validity(documents)), None
    mask = validity_mask(documents)
    bits = None if mask is None else np.packbits(mask, bitorder="little")
    offsets, data = kernels.decode_json(block.offsets, block.data, bits)
    return (offsets, data, None if bits is None else (bits, 0)), None


def _strings(array: pa.Array) -> StringBlock:
    kind = array.type
    if not any(test(kind) for test in _STRING_TYPES):
        raise _unsupported(kind)
    block = block_of(array)
    assert isinstance(block, StringBlock)
    return block


def _validity(array: pa.Array) -> _Validity:
    if array.null_count == 0:
        return None
    return np.frombuffer(array.buffers()[0], np.uint8), array.offset


def _unsupported(kind: pa.DataType) -> UnsupportedTypeError:
    return UnsupportedTypeError(f"full text of {kind}: expected strings, lists of strings, or JSON")
