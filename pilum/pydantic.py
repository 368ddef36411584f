"""Schemas of pydantic models, and types of vectors for their fields.

    int  int64        str    string    date        date32
    float  double     bytes  binary    datetime    timestamp[us], in the zone of json_schema_extra
    bool  bool        a model  struct  an Enum     dictionary of texts, or the type of its values
    list[T]  list     Vector(n)  fixed_size_list   MultiVector(n)  list of fixed_size_list

A field may be null if its annotation contains None.
"""

from __future__ import annotations

import inspect
import types
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin

import pyarrow as pa

from pilum.errors import InvalidInputError, MissingDependencyError, UnsupportedTypeError

try:
    import pydantic
    from pydantic_core import core_schema
except ModuleNotFoundError as error:
    raise MissingDependencyError("models need pydantic 2: pip install pydantic") from error

__all__ = [
    "FixedSizeListMixin",
    "MultiVector",
    "Vector",
    "get_extras",
    "is_nullable",
    "pydantic_to_schema",
    "rows_of",
]

_PLAIN: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bytes: pa.binary(),
    date: pa.date32(),
}


class FixedSizeListMixin(ABC):
    """A type of vectors."""

    @staticmethod
    @abstractmethod
    def dim() -> int:
        """Return the number of elements of a vector."""

    @staticmethod
    @abstractmethod
    def value_arrow_type() -> pa.DataType:
        """Return the type of an element."""

    @staticmethod
    @abstractmethod
    def nullable() -> bool:
        """Return whether fields of the type may be null."""

    @staticmethod
    def is_multi_vector() -> bool:
        """Return whether a value has several vectors."""
        return False


def Vector(  # noqa: N802
    dim: int,
    value_type: pa.DataType = pa.float32(),  # noqa: B008
    nullable: bool = True,
) -> type[FixedSizeListMixin]:
    """Return the type of a field with one vector.

    Args:
        dim: Number of elements.
        value_type: Type of an element.
        nullable: Whether the field may be null.
    """
    return _vector_type("Vector", dim, value_type, nullable, _one_vector(dim), is_multi=False)


def MultiVector(  # noqa: N802
    dim: int,
    value_type: pa.DataType = pa.float32(),  # noqa: B008
    nullable: bool = True,
) -> type[FixedSizeListMixin]:
    """Return the type of a field with any number of vectors; see `Vector`."""
    vectors = core_schema.list_schema(_one_vector(dim))
    return _vector_type("MultiVector", dim, value_type, nullable, vectors, is_multi=True)


def _one_vector(dim: int) -> core_schema.CoreSchema:
    return core_schema.list_schema(core_schema.float_schema(), min_length=dim, max_length=dim)


def _vector_type(
    name: str,
    dim: int,
    value_type: pa.DataType,
    nullable: bool,
    values: core_schema.CoreSchema,
    *,
    is_multi: bool,
) -> type[FixedSizeListMixin]:
    def validation(cls: type, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls, values)

    members = {
        "dim": staticmethod(lambda: dim),
        "value_arrow_type": staticmethod(lambda: value_type),
        "nullable": staticmethod(lambda: nullable),
        "is_multi_vector": staticmethod(lambda: is_multi),
        "__get_pydantic_core_schema__": classmethod(validation),
        "__module__": __name__,
    }
    return types.new_class(
        f"{name}({dim})", (list, FixedSizeListMixin), exec_body=lambda body: body.update(members)
    )


def get_extras(field: Any, key: str) -> Any:
    """Return a value of the `json_schema_extra` of a field; None if it has none."""
    extra = field.json_schema_extra
    return extra.get(key) if isinstance(extra, Mapping) else None


def is_nullable(field: Any) -> bool:
    """Return whether a field of a model may be null."""
    kind = field.annotation
    if inspect.isclass(kind) and issubclass(kind, FixedSizeListMixin):
        return kind.nullable()
    return _is_union(kind) and type(None) in get_args(kind)


def pydantic_to_schema(model: type[pydantic.BaseModel]) -> pa.Schema:
    """Return the Arrow schema of the rows that the instances of a model are.

    Raises:
        UnsupportedTypeError: If the annotation of a field has no Arrow type.
    """
    return pa.schema(_fields(model))


def rows_of(model: type[pydantic.BaseModel], items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return instances of a model as rows with the columns of `pydantic_to_schema`.

    Raises:
        InvalidInputError: If one is not an instance of the model.
    """
    if wrong := [item for item in items if not isinstance(item, model)]:
        raise InvalidInputError(f"expected instances of {model.__name__}, found {wrong[0]!r:.80}")
    return [_plain(item.model_dump()) for item in items]


def _plain(value: Any) -> Any:
    """Return a value with the values of its enumerations."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _fields(model: type[pydantic.BaseModel]) -> list[pa.Field]:
    fields = []
    for name, field in model.model_fields.items():
        try:
            kind = _arrow_type(field.annotation, field)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"field {name!r}: {error}") from error
        fields.append(pa.field(name, kind, is_nullable(field)))
    return fields


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _without_none(kind: Any) -> Any:
    """Return T for `T | None`, and other types as they are."""
    if not _is_union(kind):
        return kind
    others = [one for one in get_args(kind) if one is not type(None)]
    return others[0] if len(others) == 1 else kind


def _arrow_type(kind: Any, field: Any) -> pa.DataType:
    kind = _without_none(kind)
    if get_origin(kind) in (list, tuple):
        return _list_type(kind, field)
    if not inspect.isclass(kind):
        raise UnsupportedTypeError(f"no Arrow type for {kind}")
    if issubclass(kind, pydantic.BaseModel):
        return pa.struct(_fields(kind))
    if issubclass(kind, FixedSizeListMixin):
        vector = pa.list_(kind.value_arrow_type(), kind.dim())
        return pa.list_(vector) if kind.is_multi_vector() else vector
    if issubclass(kind, Enum):
        return _enum_type(kind, field)
    if kind is datetime:
        return pa.timestamp("us", tz=get_extras(field, "tz"))
    if kind not in _PLAIN:
        raise UnsupportedTypeError(f"no Arrow type for {kind}; name the items of a list: list[int]")
    return _PLAIN[kind]


def _list_type(kind: Any, field: Any) -> pa.DataType:
    item = get_args(kind)[0]
    return pa.list_(pa.field("item", _arrow_type(item, field), nullable=True))


def _enum_type(kind: type[Enum], field: Any) -> pa.DataType:
    types_of_values = {type(member.value) for member in kind}
    if types_of_values == {str}:
        return pa.dictionary(pa.int32(), pa.utf8())
    return _arrow_type(types_of_values.pop(), field) if len(types_of_values) == 1 else pa.utf8()
