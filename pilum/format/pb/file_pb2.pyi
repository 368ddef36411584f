from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Schema(_message.Message):
    __slots__ = ("fields", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[Field]
    metadata: _containers.ScalarMap[str, bytes]
    def __init__(self, fields: _Optional[_Iterable[_Union[Field, _Mapping]]] = ..., metadata: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class FileDescriptor(_message.Message):
    __slots__ = ("schema", "length")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    schema: Schema
    length: int
    def __init__(self, schema: _Optional[_Union[Schema, _Mapping]] = ..., length: _Optional[int] = ...) -> None: ...

class Dictionary(_message.Message):
    __slots__ = ("offset", "length")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    offset: int
    length: int
    def __init__(self, offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class Field(_message.Message):
    __slots__ = ("type", "name", "id", "parent_id", "logical_type", "nullable", "encoding", "dictionary", "extension_name", "metadata", "unenforced_primary_key", "unenforced_primary_key_position", "unenforced_clustering_key", "unenforced_clustering_key_position")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PARENT: _ClassVar[Field.Type]
        REPEATED: _ClassVar[Field.Type]
        LEAF: _ClassVar[Field.Type]
    PARENT: Field.Type
    REPEATED: Field.Type
    LEAF: Field.Type
    class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[Field.Encoding]
        PLAIN: _ClassVar[Field.Encoding]
        VAR_BINARY: _ClassVar[Field.Encoding]
        DICTIONARY: _ClassVar[Field.Encoding]
        RLE: _ClassVar[Field.Encoding]
    NONE: Field.Encoding
    PLAIN: Field.Encoding
    VAR_BINARY: Field.Encoding
    DICTIONARY: Field.Encoding
    RLE: Field.Encoding
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    UNENFORCED_PRIMARY_KEY_FIELD_NUMBER: _ClassVar[int]
    UNENFORCED_PRIMARY_KEY_POSITION_FIELD_NUMBER: _ClassVar[int]
    UNENFORCED_CLUSTERING_KEY_FIELD_NUMBER: _ClassVar[int]
    UNENFORCED_CLUSTERING_KEY_POSITION_FIELD_NUMBER: _ClassVar[int]
    type: Field.Type
    name: str
    id: int
    parent_id: int
    logical_type: str
    nullable: bool
    encoding: Field.Encoding
    dictionary: Dictionary
    extension_name: str
    metadata: _containers.ScalarMap[str, bytes]
    unenforced_primary_key: bool
    unenforced_primary_key_position: int
    unenforced_clustering_key: bool
    unenforced_clustering_key_position: int
    def __init__(self, type: _Optional[_Union[Field.Type, str]] = ..., name: _Optional[str] = ..., id: _Optional[int] = ..., parent_id: _Optional[int] = ..., logical_type: _Optional[str] = ..., nullable: bool = ..., encoding: _Optional[_Union[Field.Encoding, str]] = ..., dictionary: _Optional[_Union[Dictionary, _Mapping]] = ..., extension_name: _Optional[str] = ..., metadata: _Optional[_Mapping[str, bytes]] = ..., unenforced_primary_key: bool = ..., unenforced_primary_key_position: _Optional[int] = ..., unenforced_clustering_key: bool = ..., unenforced_clustering_key_position: _Optional[int] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeferredEncoding(_message.Message):
    __slots__ = ("buffer_location", "buffer_length")
    BUFFER_LOCATION_FIELD_NUMBER: _ClassVar[int]
    BUFFER_LENGTH_FIELD_NUMBER: _ClassVar[int]
    buffer_location: int
    buffer_length: int
    def __init__(self, buffer_location: _Optional[int] = ..., buffer_length: _Optional[int] = ...) -> None: ...

class DirectEncoding(_message.Message):
    __slots__ = ("encoding",)
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    encoding: bytes
    def __init__(self, encoding: _Optional[bytes] = ...) -> None: ...

class Encoding(_message.Message):
    __slots__ = ("indirect", "direct", "none")
    INDIRECT_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    NONE_FIELD_NUMBER: _ClassVar[int]
    indirect: DeferredEncoding
    direct: DirectEncoding
    none: Empty
    def __init__(self, indirect: _Optional[_Union[DeferredEncoding, _Mapping]] = ..., direct: _Optional[_Union[DirectEncoding, _Mapping]] = ..., none: _Optional[_Union[Empty, _Mapping]] = ...) -> None: ...

class ColumnMetadata(_message.Message):
    __slots__ = ("encoding", "pages", "buffer_offsets", "buffer_sizes")
    class Page(_message.Message):
        __slots__ = ("buffer_offsets", "buffer_sizes", "length", "encoding", "priority")
        BUFFER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
        BUFFER_SIZES_FIELD_NUMBER: _ClassVar[int]
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        ENCODING_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_FIELD_NUMBER: _ClassVar[int]
        buffer_offsets: _containers.RepeatedScalarFieldContainer[int]
        buffer_sizes: _containers.RepeatedScalarFieldContainer[int]
        length: int
        encoding: Encoding
        priority: int
        def __init__(self, buffer_offsets: _Optional[_Iterable[int]] = ..., buffer_sizes: _Optional[_Iterable[int]] = ..., length: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, _Mapping]] = ..., priority: _Optional[int] = ...) -> None: ...
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZES_FIELD_NUMBER: _ClassVar[int]
    encoding: Encoding
    pages: _containers.RepeatedCompositeFieldContainer[ColumnMetadata.Page]
    buffer_offsets: _containers.RepeatedScalarFieldContainer[int]
    buffer_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, encoding: _Optional[_Union[Encoding, _Mapping]] = ..., pages: _Optional[_Iterable[_Union[ColumnMetadata.Page, _Mapping]]] = ..., buffer_offsets: _Optional[_Iterable[int]] = ..., buffer_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class Any(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
