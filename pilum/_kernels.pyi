from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Layer: TypeAlias = tuple[int, Bytes | None, int, NDArray[np.int32] | None]
Columns: TypeAlias = tuple[list[NDArray[np.generic]], int, list[Layer]]
Offsets: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
Levels: TypeAlias = NDArray[np.uint16]
_SelectStep: TypeAlias = str | tuple[str] | list[tuple[int, int]]
Step: TypeAlias = tuple[tuple[Bytes, int] | None, int, tuple[NDArray[np.int64], int, int] | None]

class Plan:
    @staticmethod
    def flat(bits: int) -> Plan: ...
    @staticmethod
    def inline_bitpacking(bits: int) -> Plan: ...
    @staticmethod
    def rle(bits: int) -> Plan: ...
    @staticmethod
    def byte_stream_split(bits: int) -> Plan: ...
    @staticmethod
    def variable(offset_bits: int) -> Plan: ...
    @staticmethod
    def fsst(table: bytes, offset_bits: int) -> Plan: ...
    @staticmethod
    def fixed_size_list(validity: list[int], bits: int) -> Plan: ...
    @staticmethod
    def general(compression: str, inner: Plan) -> Plan: ...

class Block:
    @staticmethod
    def flat(bits: int) -> Block: ...
    @staticmethod
    def inline_bitpacking(bits: int) -> Block: ...
    @staticmethod
    def out_of_line_bitpacking(bits: int, packed: int) -> Block: ...
    @staticmethod
    def rle(bits: int) -> Block: ...
    @staticmethod
    def general(compression: str, inner: Block) -> Block: ...

class Coding:
    PLAIN: ClassVar[Coding]
    INLINE_BITPACKING: ClassVar[Coding]
    RLE: ClassVar[Coding]
    BYTE_STREAM_SPLIT: ClassVar[Coding]
    LZ4_VALUES: ClassVar[Coding]

class PageValues:
    @staticmethod
    def fixed(data: Bytes, num_values: int, bits: int) -> PageValues: ...
    @staticmethod
    def bits(data: Bytes, num_values: int, first: int) -> PageValues: ...
    @staticmethod
    def strings(data: Bytes, num_values: int, offsets: Offsets) -> PageValues: ...
    @staticmethod
    def lists(
        data: Bytes, num_values: int, bits: int, masks: Sequence[tuple[Bytes, int, int]]
    ) -> PageValues: ...

class MiniBlockWriter:
    def __new__(
        cls,
        coding: Coding,
        *,
        rep: Block | None = None,
        def_: Block | None = None,
        max_rep: int = 0,
        max_visible: int = 0,
        large: bool = False,
        max_values: int = 4096,
        target_bytes: int | None = None,
        compression: tuple[str, int] | None = None,
    ) -> Self: ...
    def encode(
        self, values: PageValues, rep: Levels, def_: Levels
    ) -> tuple[Bytes, Bytes, Bytes]: ...
    def encode_each(
        self,
        data: Bytes,
        bits: int,
        num_values: int,
        num_columns: int,
        def_: Levels,
        alignment: int,
        padding: int,
    ) -> tuple[Bytes, NDArray[np.int64]]: ...

class MiniBlock:
    def __new__(
        cls,
        values: Plan,
        layers: bytes,
        num_buffers: int,
        *,
        rep: Block | None = None,
        def_: Block | None = None,
        large: bool = False,
        num_indexed: int | None = None,
    ) -> Self: ...

class FullZipWriter:
    def __new__(
        cls,
        *,
        bits_rep: int,
        bits_def: int,
        max_rep: int,
        max_visible: int,
        num_entries: int,
    ) -> Self: ...
    def encode_fixed(
        self, parts: Sequence[tuple[Bytes, int]], rep: Levels, def_: Levels
    ) -> tuple[Bytes, NDArray[np.uint64]]: ...
    def encode_strings(
        self, offsets: Offsets, data: Bytes, rep: Levels, def_: Levels
    ) -> tuple[Bytes, NDArray[np.uint64]]: ...

class FullZip:
    def __new__(cls, values: Plan, layers: bytes, bits_rep: int, bits_def: int) -> Self: ...
    def decode(self, body: Bytes, ranges: NDArray[np.int64]) -> Columns: ...

class ChunkTable:
    def __new__(
        cls,
        page: MiniBlock,
        words: Bytes,
        index: Bytes | None,
        num_items: int,
        num_rows: int,
        body_bytes: int,
    ) -> Self: ...
    @property
    def size_bytes(self) -> int: ...
    def chunks(self) -> list[tuple[int, int, int, int, int, bool]]: ...

class RowIndex:
    def __new__(cls, numbers: Bytes, num_rows: int) -> Self: ...
    @property
    def size_bytes(self) -> int: ...

_ChunkedRows: TypeAlias = tuple[
    MiniBlock,
    Sequence[tuple[int, int]],
    int,
    int,
    ChunkTable | None,
    NDArray[np.int64] | None,
    tuple[Bytes, int] | None,
    Bytes | None,
    int | None,
]
_ZippedRows: TypeAlias = tuple[FullZip, tuple[int, int], RowIndex | None, NDArray[np.int64]]

class PageReads:
    def __new__(cls, pages: Sequence[_ChunkedRows | _ZippedRows]) -> Self: ...
    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    @property
    def ends(self) -> list[int]: ...
    def decode(
        self,
        fetched: Sequence[tuple[Bytes, NDArray[np.int64]]],
        groups: Sequence[Sequence[int]] | None = None,
    ) -> list[Columns]: ...
    def mask(
        self, fetched: Sequence[tuple[Bytes, NDArray[np.int64]]], condition: Condition
    ) -> list[Bytes]: ...

class Condition:
    @staticmethod
    def every(values: bool, null: bool) -> Condition: ...
    @staticmethod
    def numbers_within(
        order: str, bits: int, low: bytes | None, high: bytes | None
    ) -> Condition: ...
    @staticmethod
    def numbers_among(order: str, bits: int, values: Bytes) -> Condition: ...
    @staticmethod
    def texts_within(low: bytes | None, high: bytes | None) -> Condition: ...
    @staticmethod
    def texts_among(texts: Sequence[bytes]) -> Condition: ...
    @staticmethod
    def texts_like(prefix: bytes, parts: Sequence[bytes], suffix: bytes) -> Condition: ...
    @staticmethod
    def texts_matching(
        parts: Sequence[tuple[str, int | None]], ignores_case: bool
    ) -> Condition: ...
    def __and__(self, other: Condition) -> Condition: ...
    def __or__(self, other: Condition) -> Condition: ...
    def __invert__(self) -> Condition: ...
    @property
    def null(self) -> bool: ...
    @property
    def every_value(self) -> bool | None: ...
    def of_fixed(self, data: Bytes, count: int) -> Bytes: ...
    def of_texts(self, offsets: Offsets, data: Bytes) -> Bytes: ...
    def of_indices(self, found: Bytes, count: int) -> Condition: ...

class PickedSlots:
    def __new__(cls, buffers: Sequence[tuple[int, int, NDArray[np.int64]]]) -> Self: ...
    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def decode(self, data: Bytes, starts: NDArray[np.int64]) -> list[Bytes]: ...

def decompress(name: str, data: Bytes) -> Bytes: ...
def decode_block(plan: Block, data: Bytes, count: int) -> Bytes: ...
def bytes_within(
    offsets: NDArray[np.int64], sizes: NDArray[np.int64], file_size: int
) -> int | None: ...
def lay_out_ranges(
    offsets: NDArray[np.int64], sizes: NDArray[np.int64], file_size: int, gap: int
) -> int | tuple[list[tuple[int, int, int]], NDArray[np.int64], int]: ...
def look_up_strings(
    indices: Bytes, width: int, validity: Bytes | None, offsets: Offsets, data: Bytes
) -> list[NDArray[np.generic]]: ...
def look_up_views(
    indices: Bytes, width: int, validity: Bytes | None, offsets: Offsets, data: Bytes
) -> Bytes: ...
def look_up_words(indices: Bytes, width: int, data: Bytes, size: int) -> Bytes: ...
def views_of_strings(offsets: Offsets, data: Bytes) -> Bytes: ...
def unravel(layers: bytes, rep: Levels, def_: Levels, count: int) -> list[Layer]: ...
def zero_nulls(data: Bytes, width: int, validity: tuple[Bytes, int]) -> Bytes: ...
def ravel(steps: Sequence[Step], num_rows: int) -> tuple[Levels, Levels, int]: ...
def shown_offsets(
    offsets: Offsets, alive: Bytes | None
) -> tuple[NDArray[np.int64], bool, Bytes | None]: ...
def most_entries(def_: Levels, max_visible: int, values: int) -> int: ...
def split_rows(
    members: Sequence[Plan], offsets: Offsets, data: Bytes
) -> list[list[NDArray[np.generic]]]: ...
def join_rows(
    members: Sequence[tuple[Bytes, int] | tuple[Offsets, Bytes]],
    num_rows: int,
    validity: Bytes | None,
) -> tuple[NDArray[np.int64], Bytes]: ...
def encode_levels(levels: Levels, plan: Block) -> Bytes: ...
def pack_block(data: Bytes, bits: int) -> tuple[int, Bytes]: ...
def compress(name: str, data: Bytes, level: int) -> Bytes: ...
def compress_fsst(offsets: Offsets, data: Bytes) -> tuple[Bytes, NDArray[np.int64], Bytes]: ...
def compress_zstd(offsets: Offsets, data: Bytes, level: int) -> tuple[NDArray[np.int64], Bytes]: ...
def distinct_strings(
    offsets: Offsets, data: Bytes, validity: tuple[Bytes, int] | None, most: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None: ...
def distinct_words(
    data: Bytes, width: int, most: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None: ...
def sample_words(
    data: Bytes, width: int, validity: tuple[Bytes, int] | None, stretches: int, size: int
) -> tuple[int, int, int]: ...
def sample_words_each(
    data: Bytes,
    width: int,
    validity: tuple[Bytes, int] | None,
    num_words: int,
    stretches: int,
    size: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def sample_strings(
    offsets: Offsets, data: Bytes, validity: tuple[Bytes, int] | None, stretches: int, size: int
) -> tuple[int, int, int]: ...
def fixed_costs(data: Bytes, bits: int) -> tuple[int, int]: ...
def fixed_costs_each(
    data: Bytes, bits: int, column_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def count_runs(data: Bytes, bits: int) -> int: ...
def plain_offsets(
    rows: NDArray[np.int64], bounds: NDArray[np.int64], places: NDArray[np.int64], width: int
) -> NDArray[np.int64] | None: ...
def gather_rows(data: Bytes, starts: NDArray[np.int64], width: int) -> Bytes: ...
def gather_bytes(data: Bytes, ranges: NDArray[np.int64]) -> Bytes: ...
def gather_bits(data: Bytes, ranges: NDArray[np.int64]) -> Bytes: ...
def text_ends(
    offsets: Offsets, data: Bytes, validity: Bytes | None, ranges: NDArray[np.int64]
) -> NDArray[np.int64]: ...
def adjusted_entries(
    stored: Bytes, adjustment: int, bounds: NDArray[np.int64], offset_bits: int
) -> tuple[Offsets, NDArray[np.int64], Bytes | None, int]: ...
def unpack_linear(
    data: Bytes, first: int, width: int, bits: int, signed: bool, count: int
) -> Bytes: ...
def decompress_fsst(
    table: bytes, offsets: NDArray[np.int64], codes: Bytes
) -> list[NDArray[np.generic]]: ...
def encode_json(
    offsets: Offsets, data: Bytes, validity: Bytes | None
) -> tuple[NDArray[np.int64], Bytes]: ...
def decode_json(
    offsets: Offsets, data: Bytes, validity: Bytes | None
) -> tuple[NDArray[np.int64], Bytes]: ...
def json_values(
    offsets: Offsets, data: Bytes, validity: Bytes | None, path: Sequence[int | str]
) -> tuple[Bytes, NDArray[np.uint64], NDArray[np.int64], Bytes]: ...
def json_select(
    offsets: Offsets, data: Bytes, validity: Bytes | None, path: Sequence[_SelectStep]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], Bytes]: ...
def json_array_lengths(
    offsets: Offsets, data: Bytes, validity: Bytes | None, path: Sequence[_SelectStep]
) -> NDArray[np.int64]: ...
def json_array_contains(
    offsets: Offsets, data: Bytes, validity: Bytes | None, path: Sequence[_SelectStep], text: str
) -> NDArray[np.bool_]: ...
def hash_fixed(data: Bytes, width: int) -> NDArray[np.uint64]: ...
def hash_strings(offsets: Offsets, data: Bytes) -> NDArray[np.uint64]: ...
def bloom_filters(hashes: NDArray[np.uint64], bounds: NDArray[np.int64], size: int) -> Bytes: ...
def bloom_matches(
    filters: Bytes, bounds: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> NDArray[np.bool_]: ...

class RowBitmap:
    def __new__(cls, data: Bytes) -> Self: ...
    @property
    def size_bytes(self) -> int: ...

class RowMarks:
    @staticmethod
    def made(
        rows: NDArray[np.uint64], value: bool, most_fragments: int, most_bytes: int
    ) -> RowMarks | None: ...
    @staticmethod
    def of_bits(
        parts: Sequence[tuple[int, Bytes, int, int]], most_fragments: int, most_bytes: int
    ) -> RowMarks | None: ...
    @property
    def size_bytes(self) -> int: ...
    def of(self, rows: NDArray[np.uint64]) -> NDArray[np.bool_]: ...
    def of_each(self, parts: Sequence[NDArray[np.uint64]]) -> list[NDArray[np.bool_] | None]: ...

def intersect_rows(sets: Sequence[RowBitmap]) -> NDArray[np.uint64]: ...
def unpack_row_sets(
    data: Bytes, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]: ...
def stable_order(keys: NDArray[np.uint64]) -> NDArray[np.int64]: ...
def kept_values(data: Bytes, width: int, bitmap: Bytes, first: int) -> Bytes: ...
def kept_bits(data: Bytes, start: int, count: int, bitmap: Bytes, first: int) -> Bytes: ...
def places_of_bits(bits: Bytes, start: int, count: int, first: int) -> NDArray[np.int64]: ...
def places_of_strings(
    offsets: Offsets, data: Bytes, wanted_offsets: Offsets, wanted: Bytes, after: bool
) -> NDArray[np.int64]: ...
def pack_row_maps(
    rows: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[Bytes, NDArray[np.int64]]: ...
def unpack_row_maps(
    data: Bytes, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]: ...
def unite_row_maps(data: Bytes, bounds: NDArray[np.int64]) -> Bytes: ...
def unite_grouped_row_maps(
    data: Bytes,
    bounds: NDArray[np.int64],
    order: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> tuple[Bytes, NDArray[np.int64]]: ...
def sort_pairs(
    keys: NDArray[np.uint64], values: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]: ...
def equal_pairs(
    wanted: NDArray[Any], keys: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def equal_rows(
    wanted: NDArray[Any], pages: list[tuple[NDArray[Any], NDArray[np.uint64], int, int]]
) -> NDArray[np.uint64]: ...
def zone_bounds(
    data: Bytes,
    width: int,
    signed: bool | None,
    validity: tuple[Bytes, int] | None,
    bounds: NDArray[np.int64],
) -> tuple[Bytes, Bytes, NDArray[np.uint32], NDArray[np.uint32]]: ...

class RecordDescription:
    def __new__(cls, number: int, members: NDArray[np.int64], banned: list[str]) -> Self: ...
    def tabulate(
        self, message: bytes
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int64],
        list[NDArray[np.uint64]],
        NDArray[np.uint8],
        NDArray[np.int64],
    ]: ...

class NumberRows:
    def __new__(cls) -> Self: ...
    @property
    def size_bytes(self) -> int: ...
    def add(self, keys: NDArray[np.uint64], rows: NDArray[np.uint64]) -> None: ...
    def add_nulls(self, rows: NDArray[np.uint64]) -> None: ...
    def sort(self) -> None: ...
    def take_nulls(self) -> tuple[Bytes, NDArray[np.int64]] | None: ...
    def take(self, wanted_bytes: int) -> tuple[NDArray[np.uint64], Bytes, NDArray[np.int64]]: ...

class StringRows:
    def __new__(cls) -> Self: ...
    @property
    def size_bytes(self) -> int: ...
    def add(self, offsets: Offsets, data: Bytes, rows: NDArray[np.uint64]) -> None: ...
    def add_nulls(self, rows: NDArray[np.uint64]) -> None: ...
    def sort(self) -> None: ...
    def take_nulls(self) -> tuple[Bytes, NDArray[np.int64]] | None: ...
    def take(
        self, wanted_bytes: int
    ) -> tuple[NDArray[np.int64], Bytes, Bytes, NDArray[np.int64]]: ...

def pack_row_sets(
    rows: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[Bytes, NDArray[np.int64]]: ...

Texts: TypeAlias = tuple[Offsets, Bytes, tuple[Bytes, int] | None]
Lists: TypeAlias = tuple[Offsets, tuple[Bytes, int] | None]
Listed: TypeAlias = tuple[NDArray[np.int64], Bytes, NDArray[np.uint32]]

class TextAnalyzer:
    def __new__(
        cls,
        base: str,
        form: str,
        *,
        max_bytes: int | None,
        lower_case: bool,
        stemmer_of: str | None,
        stop_words: Sequence[str],
        ascii_folding: bool,
        ngrams: tuple[int, int],
        prefix_only: bool,
        operators: bool,
        parts: tuple[bool, bool] | None,
    ) -> Self: ...
    def words(self, text: str) -> list[tuple[str, int]]: ...
    def cut(
        self, texts: Texts, lists: Lists | None
    ) -> tuple[
        tuple[NDArray[np.int64], Bytes],
        tuple[NDArray[np.int64], Bytes],
        NDArray[np.bool_],
        NDArray[np.int64],
    ]: ...
    def tokens(
        self, texts: Texts, lists: Lists | None
    ) -> tuple[NDArray[np.int64], Bytes, NDArray[np.uint32], NDArray[np.int64]]: ...

class TokenDictionary:
    def __new__(cls, analyzer: TextAnalyzer) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def analyze(
        self, texts: Texts, lists: Lists | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]: ...
    def add(self, offsets: Offsets, data: Bytes) -> NDArray[np.uint32]: ...
    def sorted(self) -> Listed: ...

class TokenSet:
    @staticmethod
    def read(data: Bytes) -> TokenSet: ...
    @staticmethod
    def of(offsets: Offsets, data: Bytes, numbers: NDArray[np.uint32]) -> TokenSet: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def bytes(self) -> Bytes: ...
    def find(self, offsets: Offsets, data: Bytes) -> NDArray[np.int64]: ...
    def numbers(self, words: Sequence[str]) -> list[int]: ...
    def similar(
        self, words: Sequence[tuple[str, int, int]], most: int
    ) -> tuple[Listed, list[int]]: ...
    def list(self) -> Listed: ...

class MinHasher:
    def __new__(
        cls, analyzer: TextAnalyzer, num_hashes: int, num_bands: int, shingle_size: int
    ) -> Self: ...
    def sign(
        self, texts: Texts
    ) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint64]]: ...
    def sign_one(self, text: str) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]: ...

def band_keys(
    signatures: NDArray[np.uint16], num_hashes: int, num_bands: int
) -> NDArray[np.uint64]: ...
def equal_values(signatures: NDArray[np.uint16], of: NDArray[np.uint16]) -> NDArray[np.uint32]: ...
def trigrams_of(text: str) -> NDArray[np.uint32]: ...

class TrigramPostings:
    def __new__(cls) -> Self: ...
    def add(self, offsets: Offsets, data: Bytes, rows: NDArray[np.uint64]) -> None: ...
    def add_nulls(self, rows: NDArray[np.uint64]) -> None: ...
    def take(self, wanted_bytes: int) -> tuple[NDArray[np.uint32], Bytes, NDArray[np.int64]]: ...

BinaryLists: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64], Bytes]
StreamArrays: TypeAlias = tuple[
    bool, NDArray[np.int64], Bytes, NDArray[np.int32], NDArray[np.uint32]
]
PieceArrays: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], Bytes]
PositionArrays: TypeAlias = StreamArrays | PieceArrays

class PostingLayout:
    def __new__(cls, block_size: int, fixed_tail: bool) -> Self: ...

class GrowingLists:
    def __new__(cls, with_positions: bool) -> Self: ...
    def add(
        self,
        tokens: NDArray[np.uint32],
        positions: NDArray[np.uint32] | None,
        ends: NDArray[np.int64],
    ) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def counts(self, tokens: NDArray[np.uint32]) -> NDArray[np.int64]: ...
    def entries(self, tokens: NDArray[np.uint32]) -> Entries: ...

class Entries:
    @staticmethod
    def read(
        postings: BinaryLists,
        lengths: NDArray[np.uint32],
        layout: PostingLayout,
        num_documents: int,
        positions: PositionArrays | None = None,
    ) -> Entries: ...
    @staticmethod
    def join(
        sources: Sequence[tuple[NDArray[np.uint32], Entries, NDArray[np.uint32]]],
        num_tokens: int,
        with_positions: bool,
    ) -> Entries: ...
    @property
    def ends(self) -> NDArray[np.int64]: ...
    @property
    def documents(self) -> NDArray[np.uint32]: ...
    @property
    def frequencies(self) -> NDArray[np.uint32]: ...
    @property
    def positions(self) -> NDArray[np.uint32]: ...
    def write(
        self,
        lengths: NDArray[np.uint32],
        norms: NDArray[np.float32],
        layout: PostingLayout,
        positions: str,
    ) -> dict[str, Any]: ...

class Norms:
    def __new__(
        cls, lengths: NDArray[np.uint32], num_documents: int, num_tokens: int, rounds: bool
    ) -> Self: ...
    @property
    def size_bytes(self) -> int: ...

class Posting:
    def __new__(
        cls,
        layout: PostingLayout,
        count: int,
        row: int,
        postings: BinaryLists,
        norms: Norms,
        positions: PositionArrays | None = None,
    ) -> Self: ...
    @property
    def count(self) -> int: ...
    @property
    def has_positions(self) -> bool: ...
    @property
    def size_bytes(self) -> int: ...

class Clause:
    @staticmethod
    def token(list: Posting, idf: float) -> Clause: ...
    @staticmethod
    def any(of: Sequence[Clause]) -> Clause: ...
    @staticmethod
    def all(of: Sequence[Clause]) -> Clause: ...
    @staticmethod
    def phrase(
        words: Sequence[tuple[int, Sequence[tuple[Posting, float]]]], slop: int
    ) -> Clause: ...
    @staticmethod
    def boolean(
        must: Sequence[Clause], should: Sequence[Clause], must_not: Sequence[Clause]
    ) -> Clause: ...
    def scaled(self, factor: float) -> Clause: ...
    def less(self, negative: Clause, factor: float) -> Clause: ...
    def search(
        self,
        norms: Norms,
        k: int | None = None,
        allowed: DocumentSet | None = None,
        floor: float = ...,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32]]: ...
    def decoded(
        self,
        norms: Norms,
        k: int | None = None,
        allowed: DocumentSet | None = None,
        floor: float = ...,
    ) -> tuple[int, int]: ...

class DocumentSet:
    def __new__(
        cls,
        references: NDArray[np.uint64],
        order: NDArray[np.uint32] | None,
        listed: NDArray[np.uint64],
        is_complement: bool,
    ) -> Self: ...
    @property
    def count(self) -> int: ...

def bm25_idf(num_documents: int, documents_with_it: int) -> float: ...
def bm25_norms(
    lengths: NDArray[np.uint32], num_documents: int, num_tokens: int, rounds: bool
) -> NDArray[np.float32]: ...

Answer: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]]
Vectors: TypeAlias = (
    NDArray[np.float16]
    | NDArray[np.float32]
    | NDArray[np.float64]
    | NDArray[np.uint8]
    | NDArray[np.int8]
)
References: TypeAlias = NDArray[np.uint64] | int
Allowed: TypeAlias = NDArray[np.bool_] | None
Numbers: TypeAlias = NDArray[np.uint32] | None

class HnswGraph:
    def __new__(
        cls,
        vector_ids: NDArray[np.uint32],
        offsets: NDArray[np.int32],
        neighbors: NDArray[np.uint32],
        num_nodes: int,
        entry_point: int,
        drops_unknown: bool,
    ) -> Self: ...
    @property
    def num_nodes(self) -> int: ...
    @property
    def num_levels(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

class HnswVectors:
    @staticmethod
    def floats(rows: NDArray[np.float32], is_dot: bool) -> HnswVectors: ...
    @staticmethod
    def bits(rows: Bytes) -> HnswVectors: ...
    @staticmethod
    def scalar_codes(codes: Bytes, start: float, end: float, is_dot: bool) -> HnswVectors: ...
    @staticmethod
    def product_codes(
        codes: Bytes, codewords: NDArray[np.float32], is_dot: bool
    ) -> HnswVectors: ...

class HnswBuilder:
    def __new__(cls, num_nodes: int, m: int, ef_construction: int, max_level: int) -> Self: ...
    def insert(self, vectors: HnswVectors, count: int, num_threads: int) -> int: ...
    def finish(
        self, vectors: HnswVectors
    ) -> tuple[
        NDArray[np.uint32],
        NDArray[np.int32],
        NDArray[np.uint32],
        NDArray[np.float32],
        NDArray[np.int64],
        int,
    ]: ...

def nearest_hnsw(
    parts: Sequence[
        tuple[
            HnswGraph,
            HnswVectors,
            NDArray[np.uint64],
            NDArray[np.bool_] | None,
            NDArray[np.uint32] | None,
            NDArray[np.float32] | None,
        ]
    ],
    queries: NDArray[np.float32] | Bytes,
    k: int,
    ef: int,
    *,
    lower: float | None = None,
    upper: float | None = None,
    earlier: tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]]: ...
def distances(vectors: Vectors, queries: Vectors, metric: str) -> NDArray[np.float32]: ...
def nearest_flat(
    parts: Sequence[tuple[Vectors, References, Allowed, Numbers]],
    queries: Vectors,
    metric: str,
    k: int,
    *,
    lower: float | None = None,
    upper: float | None = None,
    earlier: Answer | None = None,
    sieves: Sequence[VectorSieve | None] | None = None,
    num_threads: int = 1,
) -> Answer: ...

class VectorSieve:
    def __new__(cls, vectors: Vectors, metric: str) -> Self: ...
    @property
    def size_bytes(self) -> int: ...

def encode_scalar_codes(vectors: NDArray[np.float32], start: float, end: float) -> Bytes: ...
def nearest_scalar_codes(
    parts: Sequence[tuple[Bytes, References, Allowed, Numbers]],
    queries: NDArray[np.float32],
    start: float,
    end: float,
    metric: str,
    k: int,
    *,
    lower: float | None = None,
    upper: float | None = None,
    earlier: Answer | None = None,
    sieves: Sequence[VectorSieve | None] | None = None,
    num_threads: int = 1,
) -> Answer: ...

class ProductCodebook:
    def __new__(cls, codewords: NDArray[np.float32]) -> Self: ...
    def encode(self, vectors: NDArray[np.float32]) -> Bytes: ...
    def nearest(
        self,
        parts: Sequence[
            tuple[tuple[Bytes, NDArray[np.float32] | None], References, Allowed, Numbers]
        ],
        queries: NDArray[np.float32],
        metric: str,
        k: int,
        *,
        transposed: bool = True,
        lower: float | None = None,
        upper: float | None = None,
        earlier: Answer | None = None,
        num_threads: int = 1,
    ) -> Answer: ...

def cluster_sums(
    vectors: Vectors, clusters: NDArray[np.uint32], num_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
def nearest_centroids(
    vectors: NDArray[np.float32],
    centroids: NDArray[np.float32],
    offsets: NDArray[np.float32],
    factor: float,
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]: ...

RabitqPart: TypeAlias = tuple[
    tuple[Bytes, NDArray[np.float32], NDArray[np.float32]],
    tuple[Bytes, NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None,
    NDArray[np.uint64],
    NDArray[np.bool_] | None,
    NDArray[np.uint32] | None,
    NDArray[np.float32],
]
Nearest: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]]

class RabitqCodes:
    def __new__(cls, dimension: int, bits: int, is_dot: bool) -> Self: ...
    def encode(
        self,
        rotated: NDArray[np.float32],
        centroids: NDArray[np.float32],
        partitions: NDArray[np.uint32],
    ) -> tuple[
        tuple[Bytes, tuple[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]],
        tuple[Bytes, tuple[NDArray[np.float32], NDArray[np.float32]]],
    ]: ...
    def decode(self, signs: Bytes, further: Bytes | None = None) -> NDArray[np.float32]: ...
    def nearest(
        self,
        parts: Sequence[RabitqPart],
        queries: NDArray[np.float32],
        k: int,
        *,
        by_signs: bool = False,
        by_residuals: bool = False,
        packed: bool = True,
        lower: float | None = None,
        upper: float | None = None,
        earlier: Nearest | None = None,
    ) -> Nearest: ...

def rotate_vectors(vectors: NDArray[np.float32], signs: Bytes) -> NDArray[np.float32]: ...
def pack_sign_codes(rows: Bytes) -> Bytes: ...
def unpack_sign_codes(packed: Bytes) -> Bytes: ...
