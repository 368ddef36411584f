from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ManifestFiles(_message.Message):
    __slots__ = ("fragments", "version", "index_section", "timestamp", "reader_feature_flags", "writer_feature_flags", "transaction_file", "base_paths", "fragment_tree")
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INDEX_SECTION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    READER_FEATURE_FLAGS_FIELD_NUMBER: _ClassVar[int]
    WRITER_FEATURE_FLAGS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FILE_FIELD_NUMBER: _ClassVar[int]
    BASE_PATHS_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_TREE_FIELD_NUMBER: _ClassVar[int]
    fragments: _containers.RepeatedScalarFieldContainer[bytes]
    version: int
    index_section: int
    timestamp: _timestamp_pb2.Timestamp
    reader_feature_flags: int
    writer_feature_flags: int
    transaction_file: str
    base_paths: _containers.RepeatedScalarFieldContainer[bytes]
    fragment_tree: bytes
    def __init__(self, fragments: _Optional[_Iterable[bytes]] = ..., version: _Optional[int] = ..., index_section: _Optional[int] = ..., timestamp: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., reader_feature_flags: _Optional[int] = ..., writer_feature_flags: _Optional[int] = ..., transaction_file: _Optional[str] = ..., base_paths: _Optional[_Iterable[bytes]] = ..., fragment_tree: _Optional[bytes] = ...) -> None: ...
