"""The mapping between Spark types and Arrow types: one table for both directions.

    column of a table          Spark                  exchanged with Spark as
    -----------------          -----                  -----------------------
    bool, int8 … int64         boolean, byte … long   itself
    uint8, uint16, uint32      short, int, long       the next wider signed integer
    uint64                     decimal(20, 0)         decimal128(20, 0)
    float16, float32, float64  float, float, double   float32, float32, float64
    string, large_string       string                 string
    binary, large_binary,      binary                 binary
      fixed_size_binary
    date32, date64             date                   date32
    time64                     time(6)                time64[ns]
    time32[ms], time32[s]      time(3), time(0)       time64[ns]
    timestamp with zone        timestamp              timestamp[us, UTC]
    timestamp without          timestamp_ntz          timestamp[us]
    duration                   interval day to second duration[us]
    decimal128, decimal256     decimal(p ≤ 38, s)     decimal128(p, s)
    list, large_list,          array                  list
      fixed_size_list
    map (files since 2.2)      map                    map
    struct                     struct                 struct
    struct of two binaries,    variant                struct of two binaries, not null
      the second marked
    null                       void                   null

If several Arrow types share a Spark type, a new table gets the first one (`time(6)` is stored in
microseconds, as in Spark). Spark types that differ only in a constraint on their values, such as
`interval hour` or `time(2)`, have no Arrow type with the same constraint and are refused. An array
whose field has `arrow.fixed-size-list.size` in its metadata becomes a fixed-size list; reading sets
that metadata, so vectors stay vectors. Field metadata with keys that begin with `lance-encoding:`,
`lance-schema:` or `ARROW:extension:` is kept in both directions, so JSON stays JSON, and binary
with `lance-encoding:blob` becomes a blob column. Spark accepts exactly the types of the last column
and no similar ones. Source: docs/spark.md, "Types".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from pilum.distributed.conditions import ROW_ADDRESS, ROW_ID
from pilum.errors import UnsupportedTypeError

__all__ = [
    "FIXED_SIZE",
    "compared_schema",
    "exchange_schema",
    "exchange_type",
    "to_arrow",
    "to_spark",
]

FIXED_SIZE = "arrow.fixed-size-list.size"
_ROW_NUMBERS = (ROW_ID, ROW_ADDRESS)  # unsigned, but far from the limit of a long
_MAX_PRECISION = 38
_KEPT = ("lance-encoding:", "lance-schema:", "ARROW:extension:")
_BLOB = "lance-encoding:blob"
_VARIANT_MARK = {b"variant": b"true"}
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata=_VARIANT_MARK),
    ]
)


@dataclass(frozen=True)
class _Leaf:
    """One row of the table, for Spark types without parameters.

    Attributes:
        spark: The Spark type.
        stored: The Arrow type in a new table.
        crosses: The Arrow type that Spark sends and accepts.
        also: Recognises the other Arrow types that Spark sees as this one.
    """

    spark: st.DataType
    stored: pa.DataType
    crosses: pa.DataType
    also: Callable[[pa.DataType], bool] = lambda _: False


def _leaves() -> tuple[_Leaf, ...]:
    rows = [
        _Leaf(st.BooleanType(), pa.bool_(), pa.bool_()),
        _Leaf(st.ByteType(), pa.int8(), pa.int8()),
        _Leaf(st.ShortType(), pa.int16(), pa.int16(), pt.is_uint8),
        _Leaf(st.IntegerType(), pa.int32(), pa.int32(), pt.is_uint16),
        _Leaf(st.LongType(), pa.int64(), pa.int64(), pt.is_uint32),
        _Leaf(st.FloatType(), pa.float32(), pa.float32(), pt.is_float16),
        _Leaf(st.DoubleType(), pa.float64(), pa.float64()),
        _Leaf(st.StringType(), pa.string(), pa.string(), pt.is_large_string),
        _Leaf(st.BinaryType(), pa.binary(), pa.binary(), _is_other_binary),
        _Leaf(st.DateType(), pa.date32(), pa.date32(), pt.is_date64),
        _Leaf(st.TimestampType(), _utc(), _utc(), _is_zoned),
        _Leaf(st.TimestampNTZType(), pa.timestamp("us"), pa.timestamp("us"), pt.is_timestamp),
        _Leaf(st.DayTimeIntervalType(), pa.duration("us"), pa.duration("us"), pt.is_duration),
        _Leaf(st.NullType(), pa.null(), pa.null()),
    ]
    if hasattr(st, "TimeType"):  # since PySpark 4.1
        rows.append(_Leaf(st.TimeType(0), pa.time32("s"), pa.time64("ns")))
        rows.append(_Leaf(st.TimeType(3), pa.time32("ms"), pa.time64("ns")))
        rows.append(_Leaf(st.TimeType(6), pa.time64("us"), pa.time64("ns"), pt.is_time64))
    if hasattr(st, "VariantType"):
        rows.append(_Leaf(st.VariantType(), _VARIANT, _VARIANT, _is_variant))
    return tuple(rows)


def _utc() -> pa.DataType:
    return pa.timestamp("us", "UTC")


def _is_zoned(arrow: pa.DataType) -> bool:
    return bool(pt.is_timestamp(arrow) and arrow.tz is not None)


def _is_other_binary(arrow: pa.DataType) -> bool:
    return bool(pt.is_large_binary(arrow) or pt.is_fixed_size_binary(arrow))


def _is_variant(arrow: pa.DataType) -> bool:
    if not pt.is_struct(arrow) or [field.name for field in arrow] != ["value", "metadata"]:
        return False
    marks = arrow.field("metadata").metadata or {}
    return marks.items() >= _VARIANT_MARK.items()


_LEAVES = _leaves()
_BY_SPARK = {leaf.spark: leaf for leaf in _LEAVES}


def to_spark(schema: pa.Schema) -> st.StructType:
    """Return the Spark schema of a table; raise UnsupportedTypeError if a column has no type.

    Every field is nullable, because Spark refuses batches of sources with other fields.
    """
    return st.StructType(
        [
            st.StructField(field.name, st.LongType())
            if field.name in _ROW_NUMBERS
            else _spark_field(field, field.name)
            for field in schema
        ]
    )


def to_arrow(schema: st.StructType) -> pa.Schema:
    """Return the schema of a new table: all nullable, as in Spark's file sources.

    UnsupportedTypeError is raised if the format has no type for a Spark type.
    """
    return pa.schema([_stored_field(field, field.name) for field in schema.fields])


def exchange_schema(schema: st.StructType) -> pa.Schema:
    """Return the exact schema, with nullability, of batches that are passed to Spark."""
    return pa.schema(_nested_fields(schema, "", lambda leaf: leaf.crosses))


def compared_schema(schema: st.StructType) -> pa.Schema:
    """Return the types for comparing columns: equal exchange types may be stored differently."""
    return pa.schema(_nested_fields(schema, "", lambda leaf: leaf.stored))


def exchange_type(spark: st.DataType, where: str) -> pa.DataType:
    """Return the Arrow type in which values of a Spark type are passed in both directions.

    UnsupportedTypeError, which names the path `where`, is raised if there is none.
    """
    return _nested_type(spark, where, lambda leaf: leaf.crosses)


def _nested_type(
    spark: st.DataType, where: str, of_leaf: Callable[[_Leaf], pa.DataType]
) -> pa.DataType:
    """Return the Arrow type with Spark's names and nullability; `of_leaf` gives the leaf types."""
    if isinstance(spark, st.ArrayType):
        element = _nested_type(spark.elementType, f"{where}[]", of_leaf)
        return pa.list_(pa.field("element", element, spark.containsNull))
    if isinstance(spark, st.MapType):
        key = _nested_type(spark.keyType, f"{where}.key", of_leaf)
        value = _nested_type(spark.valueType, f"{where}.value", of_leaf)
        return pa.map_(
            pa.field("key", key, nullable=False), pa.field("value", value, spark.valueContainsNull)
        )
    if isinstance(spark, st.StructType):
        return pa.struct(_nested_fields(spark, f"{where}.", of_leaf))
    return _decimal(spark) or of_leaf(_leaf_of(spark, where))


def _nested_fields(
    spark: st.StructType, prefix: str, of_leaf: Callable[[_Leaf], pa.DataType]
) -> list[pa.Field]:
    return [
        pa.field(
            member.name,
            _nested_type(member.dataType, prefix + member.name, of_leaf),
            member.nullable,
        )
        for member in spark.fields
    ]


def _spark_field(field: pa.Field, where: str) -> st.StructField:
    metadata: dict[str, object] = {
        key.decode(): text.decode()
        for key, text in (field.metadata or {}).items()
        if key.decode().startswith(_KEPT) and not pt.is_struct(field.type)
    }
    if pt.is_fixed_size_list(field.type):
        metadata[FIXED_SIZE] = field.type.list_size
    return st.StructField(field.name, _spark_type(field.type, where), True, metadata)


def _spark_type(arrow: pa.DataType, where: str) -> st.DataType:
    for leaf in _LEAVES:
        if arrow == leaf.stored and not pt.is_struct(arrow):
            return leaf.spark
    for leaf in _LEAVES:
        if leaf.also(arrow):
            return leaf.spark
    if pt.is_uint64(arrow):
        return st.DecimalType(20, 0)
    if pt.is_decimal128(arrow) or pt.is_decimal256(arrow):
        return _spark_decimal(arrow, where)
    if pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow):
        return st.ArrayType(_spark_type(arrow.value_type, f"{where}[]"), containsNull=True)
    if pt.is_map(arrow):
        return _spark_map(arrow, where)
    if pt.is_struct(arrow):
        return st.StructType([_spark_field(child, f"{where}.{child.name}") for child in arrow])
    raise UnsupportedTypeError(
        f"column {where!r}: Spark has no type for Arrow's {arrow}; leave the column out with the "
        'option "columns"'
    )


def _spark_map(arrow: pa.DataType, where: str) -> st.DataType:
    key = _spark_type(arrow.key_type, f"{where}.key")
    if _has_map(key):
        raise UnsupportedTypeError(
            f"column {where!r}: keys of Spark's maps hold no maps, found {arrow}; leave the column "
            'out with the option "columns"'
        )
    return st.MapType(key, _spark_type(arrow.item_type, f"{where}.value"), valueContainsNull=True)


def _has_map(spark: st.DataType) -> bool:
    if isinstance(spark, st.ArrayType):
        return _has_map(spark.elementType)
    if isinstance(spark, st.StructType):
        return any(_has_map(member.dataType) for member in spark.fields)
    return isinstance(spark, st.MapType)


def _spark_decimal(arrow: pa.DataType, where: str) -> st.DataType:
    if arrow.precision > _MAX_PRECISION or not 0 <= arrow.scale <= arrow.precision:
        raise UnsupportedTypeError(
            f"column {where!r}: Spark's decimals have at most {_MAX_PRECISION} digits and a scale "
            f'between 0 and those, found {arrow}; leave the column out with the option "columns"'
        )
    return st.DecimalType(arrow.precision, arrow.scale)


def _stored_field(field: st.StructField, where: str) -> pa.Field:
    kept = {key: str(text) for key, text in field.metadata.items() if key.startswith(_KEPT)}
    if _BLOB in kept and isinstance(field.dataType, st.BinaryType):
        return pa.field(field.name, pa.large_binary(), metadata=kept)
    if isinstance(field.dataType, st.ArrayType) and FIXED_SIZE in field.metadata:
        element = _stored_type(field.dataType.elementType, f"{where}[]")
        size = int(field.metadata[FIXED_SIZE])
        return pa.field(field.name, pa.list_(element, size), metadata=kept or None)
    return pa.field(field.name, _stored_type(field.dataType, where), metadata=kept or None)


def _stored_type(spark: st.DataType, where: str) -> pa.DataType:
    if isinstance(spark, st.ArrayType):
        return pa.list_(_stored_type(spark.elementType, f"{where}[]"))
    if isinstance(spark, st.MapType):
        return pa.map_(
            _stored_type(spark.keyType, f"{where}.key"),
            _stored_type(spark.valueType, f"{where}.value"),
        )
    if isinstance(spark, st.StructType):
        return pa.struct(
            [_stored_field(member, f"{where}.{member.name}") for member in spark.fields]
        )
    return _decimal(spark) or _leaf_of(spark, where).stored


def _decimal(spark: st.DataType) -> pa.DataType | None:
    if isinstance(spark, st.DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    return None


def _leaf_of(spark: st.DataType, where: str) -> _Leaf:
    leaf = _BY_SPARK.get(spark)
    if leaf is None:
        raise UnsupportedTypeError(
            f"column {where!r}: no Lance type for Spark's {spark.simpleString()}; {_advice(spark)}"
        )
    return leaf


def _advice(spark: st.DataType) -> str:
    if isinstance(spark, (st.CharType, st.VarcharType, st.StringType)):
        return "declare it as string"
    if isinstance(spark, st.DayTimeIntervalType):
        return "cast it to interval day to second"
    if spark.typeName() == "time":
        return "cast it to time(0), time(3) or time(6)"
    return "cast or drop the column"
