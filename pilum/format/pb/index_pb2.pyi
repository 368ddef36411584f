from pilum.format.pb import file_pb2 as _file_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BTreeIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BitmapIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LabelListIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NGramIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ZoneMapIndexDetails(_message.Message):
    __slots__ = ("rows_per_zone", "use_seeds", "has_null_bitmap")
    ROWS_PER_ZONE_FIELD_NUMBER: _ClassVar[int]
    USE_SEEDS_FIELD_NUMBER: _ClassVar[int]
    HAS_NULL_BITMAP_FIELD_NUMBER: _ClassVar[int]
    rows_per_zone: int
    use_seeds: bool
    has_null_bitmap: bool
    def __init__(self, rows_per_zone: _Optional[int] = ..., use_seeds: bool = ..., has_null_bitmap: bool = ...) -> None: ...

class InvertedIndexDetails(_message.Message):
    __slots__ = ("base_tokenizer", "language", "with_position", "max_token_length", "lower_case", "stem", "remove_stop_words", "ascii_folding", "min_ngram_length", "max_ngram_length", "prefix_only", "block_size", "code_config", "document_granularity", "posting_format_version", "json_tokenizer_mode")
    class DocumentGranularity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ROW: _ClassVar[InvertedIndexDetails.DocumentGranularity]
        LIST_ELEMENT: _ClassVar[InvertedIndexDetails.DocumentGranularity]
    ROW: InvertedIndexDetails.DocumentGranularity
    LIST_ELEMENT: InvertedIndexDetails.DocumentGranularity
    class CodeConfig(_message.Message):
        __slots__ = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
        SPLIT_IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
        SPLIT_ON_NUMERICS_FIELD_NUMBER: _ClassVar[int]
        PRESERVE_ORIGINAL_FIELD_NUMBER: _ClassVar[int]
        INDEX_OPERATORS_FIELD_NUMBER: _ClassVar[int]
        split_identifiers: bool
        split_on_numerics: bool
        preserve_original: bool
        index_operators: bool
        def __init__(self, split_identifiers: bool = ..., split_on_numerics: bool = ..., preserve_original: bool = ..., index_operators: bool = ...) -> None: ...
    BASE_TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    WITH_POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKEN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LOWER_CASE_FIELD_NUMBER: _ClassVar[int]
    STEM_FIELD_NUMBER: _ClassVar[int]
    REMOVE_STOP_WORDS_FIELD_NUMBER: _ClassVar[int]
    ASCII_FOLDING_FIELD_NUMBER: _ClassVar[int]
    MIN_NGRAM_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_NGRAM_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PREFIX_ONLY_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    CODE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_GRANULARITY_FIELD_NUMBER: _ClassVar[int]
    POSTING_FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    JSON_TOKENIZER_MODE_FIELD_NUMBER: _ClassVar[int]
    base_tokenizer: str
    language: str
    with_position: bool
    max_token_length: int
    lower_case: bool
    stem: bool
    remove_stop_words: bool
    ascii_folding: bool
    min_ngram_length: int
    max_ngram_length: int
    prefix_only: bool
    block_size: int
    code_config: InvertedIndexDetails.CodeConfig
    document_granularity: InvertedIndexDetails.DocumentGranularity
    posting_format_version: int
    json_tokenizer_mode: str
    def __init__(self, base_tokenizer: _Optional[str] = ..., language: _Optional[str] = ..., with_position: bool = ..., max_token_length: _Optional[int] = ..., lower_case: bool = ..., stem: bool = ..., remove_stop_words: bool = ..., ascii_folding: bool = ..., min_ngram_length: _Optional[int] = ..., max_ngram_length: _Optional[int] = ..., prefix_only: bool = ..., block_size: _Optional[int] = ..., code_config: _Optional[_Union[InvertedIndexDetails.CodeConfig, _Mapping]] = ..., document_granularity: _Optional[_Union[InvertedIndexDetails.DocumentGranularity, str]] = ..., posting_format_version: _Optional[int] = ..., json_tokenizer_mode: _Optional[str] = ...) -> None: ...

class BloomFilterIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JsonIndexDetails(_message.Message):
    __slots__ = ("path", "target_details")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TARGET_DETAILS_FIELD_NUMBER: _ClassVar[int]
    path: str
    target_details: _file_pb2.Any
    def __init__(self, path: _Optional[str] = ..., target_details: _Optional[_Union[_file_pb2.Any, _Mapping]] = ...) -> None: ...

class RTreeIndexDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MinHashLshIndexDetails(_message.Message):
    __slots__ = ("num_hashes", "num_bands", "shingle_size", "tokenizer", "signature_version")
    NUM_HASHES_FIELD_NUMBER: _ClassVar[int]
    NUM_BANDS_FIELD_NUMBER: _ClassVar[int]
    SHINGLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_VERSION_FIELD_NUMBER: _ClassVar[int]
    num_hashes: int
    num_bands: int
    shingle_size: int
    tokenizer: InvertedIndexDetails
    signature_version: int
    def __init__(self, num_hashes: _Optional[int] = ..., num_bands: _Optional[int] = ..., shingle_size: _Optional[int] = ..., tokenizer: _Optional[_Union[InvertedIndexDetails, _Mapping]] = ..., signature_version: _Optional[int] = ...) -> None: ...
