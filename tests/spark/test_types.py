from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema
from spark.helpers import RELEASE

from pilum.errors import UnsupportedTypeError
from pilum.spark.types import FIXED_SIZE, compared_schema, exchange_schema, to_arrow, to_spark

SPARK_TYPES: list[st.DataType] = [
    st.BooleanType(),
    st.ByteType(),
    st.ShortType(),
    st.IntegerType(),
    st.LongType(),
    st.FloatType(),
    st.DoubleType(),
    st.DecimalType(38, 7),
    st.StringType(),
    st.BinaryType(),
    st.DateType(),
    st.TimestampType(),
    st.TimestampNTZType(),
    st.DayTimeIntervalType(),
    st.TimeType(0),
    st.TimeType(3),
    st.TimeType(),
    st.VariantType(),
    st.NullType(),
    st.ArrayType(st.ArrayType(st.FloatType())),
    st.MapType(st.StringType(), st.LongType()),
    st.MapType(st.StructType([st.StructField("k", st.DateType())]), st.ArrayType(st.TimeType(0))),
    st.ArrayType(st.MapType(st.LongType(), st.MapType(st.ByteType(), st.StringType()))),
    st.StructType([st.StructField("x", st.LongType()), st.StructField("y", st.StringType())]),
]

SEEN_AS = [
    (pa.uint8(), "smallint"),
    (pa.uint16(), "int"),
    (pa.uint32(), "bigint"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.large_string(), "string"),
    (pa.large_binary(), "binary"),
    (pa.binary(16), "binary"),
    (pa.date64(), "date"),
    (pa.time32("s"), "time(0)"),
    (pa.time32("ms"), "time(3)"),
    (pa.time64("ns"), "time(6)"),
    (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
    (pa.timestamp("ms"), "timestamp_ntz"),
    (pa.duration("ns"), "interval day to second"),
    (pa.decimal256(30, 2), "decimal(30,2)"),
    (pa.large_list(pa.uint8()), "array<smallint>"),
    (pa.list_(pa.float16(), 4), "array<float>"),
    (pa.struct([("a", pa.large_string())]), "struct<a:string>"),
    (pa.map_(pa.large_string(), pa.list_(pa.float16(), 2)), "map<string,array<float>>"),
    (pa.map_(pa.uint8(), pa.map_(pa.int8(), pa.time32("s"))), "map<smallint,map<tinyint,time(0)>>"),
]


@pytest.mark.parametrize("spark_type", SPARK_TYPES, ids=lambda kind: kind.simpleString())
def test_a_type_of_spark_comes_back_from_the_table_that_stores_it(spark_type: st.DataType) -> None:
    schema = st.StructType([st.StructField("c", spark_type)])
    assert to_spark(to_arrow(schema)) == schema


@pytest.mark.parametrize("spark_type", SPARK_TYPES, ids=lambda kind: kind.simpleString())
@pytest.mark.parametrize("nullable", [True, False])
def test_what_crosses_is_what_spark_demands(spark_type: st.DataType, nullable: bool) -> None:
    nullable = nullable or isinstance(spark_type, st.NullType)
    nested = st.StructType([st.StructField("m", st.ArrayType(spark_type, nullable), nullable)])
    schema = st.StructType([st.StructField("c", spark_type, nullable), st.StructField("n", nested)])
    in_utc: dict[str, Any] = {"timezone": "UTC"} if RELEASE >= (4, 2) else {}  # else the default
    assert exchange_schema(schema).equals(to_arrow_schema(schema, **in_utc))


@pytest.mark.parametrize(("arrow", "spark_name"), SEEN_AS, ids=lambda value: str(value))
def test_every_other_arrow_type_is_seen_as_its_nearest_relative(
    arrow: pa.DataType, spark_name: str
) -> None:
    (field,) = to_spark(pa.schema([("c", arrow)])).fields
    assert field.dataType.simpleString() == spark_name


def test_a_vector_stays_a_vector_on_its_way_through_spark() -> None:
    schema = pa.schema(
        [("v", pa.list_(pa.float32(), 3)), ("s", pa.struct([("v", pa.list_(pa.int8(), 2))]))]
    )
    assert to_arrow(to_spark(schema)) == schema
    assert to_spark(schema)["v"].metadata == {FIXED_SIZE: 3}


def test_types_that_cross_alike_are_compared_by_what_is_stored() -> None:
    one, other = (st.StructType([st.StructField("t", st.TimeType(p))]) for p in (0, 6))
    assert exchange_schema(one) == exchange_schema(other)
    assert compared_schema(one).types + compared_schema(other).types == [
        pa.time32("s"),
        pa.time64("us"),
    ]


def test_columns_are_nullable_whatever_spark_knows_of_them() -> None:
    schema = st.StructType([st.StructField("c", st.ArrayType(st.LongType(), False), False)])
    (field,) = to_arrow(schema)
    assert field.nullable
    assert field.type.value_field.nullable


@pytest.mark.parametrize(
    ("spark_type", "advice"),
    [
        (st.MapType(st.StringType(), st.DayTimeIntervalType(1, 2)), "day to second"),
        (st.CharType(3), "string"),
        (st.VarcharType(3), "string"),
        (st.StringType("UTF8_LCASE"), "string"),
        (st.YearMonthIntervalType(), "cast"),
        (st.DayTimeIntervalType(1, 1), "day to second"),
        (st.TimeType(2), r"time\(3\)"),
    ],
    ids=lambda value: str(value),
)
def test_what_cannot_be_stored_is_refused_by_name_and_place(
    spark_type: st.DataType, advice: str
) -> None:
    schema = st.StructType([st.StructField("outer", st.ArrayType(spark_type))])
    with pytest.raises(UnsupportedTypeError, match=rf"'outer\[\](\.value)?'.*{advice}"):
        to_arrow(schema)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.map_(pa.list_(pa.map_(pa.int8(), pa.int8())), pa.int8()),
    ],
    ids=str,
)
def test_what_spark_cannot_see_is_refused(arrow: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match="'c'"):
        to_spark(pa.schema([("c", arrow)]))
