"""Which data fits a table, and in which form it is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from pilum.table.write.align import align, new_schema

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
TABLE = new_schema(
    pa.schema(
        [
            ("a", pa.int32()),
            ("s", pa.string()),
            ("p", POINT),
            ("l", pa.list_(POINT)),
            ("v", pa.list_(pa.float32(), 2)),
            ("t", pa.timestamp("us", "UTC")),
        ]
    )
)
REQUIRED = new_schema(
    pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            pa.field("p", pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int8())])),
            pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False))),
        ]
    )
)


def aligned(data: dict[str, pa.Array], **options: Any) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pydict(data, **options)
    alignment = align(batch.schema, TABLE)
    result = alignment.batch(batch)
    result.validate(full=True)
    assert result.schema.equals(alignment.schema.arrow)
    assert result.to_pylist() == batch.to_pylist()
    return result


def test_columns_come_in_any_order() -> None:
    data = {"s": pa.array(["x", None]), "a": pa.array([1, 2], pa.int32())}
    assert aligned(data).schema.names == ["s", "a"]
    assert [field.id for field in align(pa.schema([("s", pa.string())]), TABLE).schema.walk()] == [
        1
    ]


def test_members_may_be_missing_at_any_depth() -> None:
    member = pa.struct([("y", pa.string())])
    data = {
        "l": pa.array([[{"y": "a"}, None], None, []], pa.list_(member)),
        "p": pa.array([{"y": "b"}, None, {"y": None}], member),
    }
    result = aligned(data)
    ids = [field.id for field in align(result.schema, TABLE).schema.walk()]
    assert ids == [5, 6, 8, 2, 4]


def test_members_come_in_any_order() -> None:
    swapped = pa.struct([("y", pa.string()), ("x", pa.int64())])
    aligned({"p": pa.array([{"y": "b", "x": 1}, None], swapped)})


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", None, "a longer text than fits a view"], pa.string_view()),
        pa.array(["x", None, "y"]),
    ],
)
def test_views_become_plain(column: pa.Array) -> None:
    assert aligned({"s": column})["s"].type == pa.string()


def test_views_become_plain_at_any_depth() -> None:
    view = pa.struct([("x", pa.int64()), ("y", pa.string_view())])
    values = [[{"x": 1, "y": "a"}], None, [None, {"x": None, "y": None}]]
    aligned({"l": pa.array(values, pa.list_(view))})


def test_what_is_not_stored_may_differ() -> None:
    element = pa.list_(pa.field("element", POINT, nullable=False))
    floats = pa.list_(pa.field("x", pa.float32(), nullable=False), 2)
    data = {
        "l": pa.array([[{"x": 1, "y": "a"}], []], element),
        "v": pa.array([[1, 2], [3, 4]], floats),
        "a": pa.array([1, 2], pa.int32()),
    }
    schema = pa.schema(
        [
            pa.field("l", element),
            pa.field("v", floats),
            pa.field("a", pa.int32(), nullable=False, metadata={"note": "mine"}),
        ],
        metadata={"note": "mine"},
    )
    aligned(data, schema=schema)


def test_slices_keep_their_rows() -> None:
    swapped = pa.struct([("y", pa.string()), ("x", pa.int64())])
    values = [{"y": str(index), "x": index} if index % 3 else None for index in range(20)]
    batch = pa.RecordBatch.from_pydict({"p": pa.array(values, swapped)}).slice(5, 7)
    assert align(batch.schema, TABLE).batch(batch).to_pylist() == batch.to_pylist()


def test_nothing_is_copied_where_types_are_the_same() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2], pa.int32())})
    result = align(batch.schema, TABLE).batch(batch)
    assert result["a"].buffers()[1].address == batch["a"].buffers()[1].address


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (("z", pa.int32()), "no column 'z'"),
        (("A", pa.int32()), "no column 'A'"),
        (("p", pa.struct([("z", pa.int8())])), "no column 'p.z'"),
        (("a", pa.int64()), "'a' of the table has the type int32, the data has int64"),
        (("s", pa.binary()), "has the type string, the data has binary"),
        (("s", pa.dictionary(pa.int8(), pa.int8())), "has the type string, the data has dict"),
        (("l", pa.list_(pa.int8())), "has the type list.struct, the data has list"),
        (("v", pa.list_(pa.float32(), 3)), "fixed_size_list:float:2, the data has fixed_size_list"),
        (("t", pa.timestamp("ns", "UTC")), "timestamp:us:UTC, the data has timestamp:ns:UTC"),
        (("p", pa.struct([("x", pa.int8())])), "'p.x' of the table has the type int64"),
    ],
)
def test_what_does_not_fit_is_named(field: tuple[str, pa.DataType], message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        align(pa.schema([field]), TABLE)


def test_data_without_columns_or_with_repeated_ones() -> None:
    with pytest.raises(SchemaMismatchError, match="no columns"):
        align(pa.schema([]), TABLE)
    with pytest.raises(InvalidInputError, match="twice"):
        align(pa.schema([("a", pa.int32()), ("a", pa.int32())]), TABLE)


def test_required_columns_must_come() -> None:
    with pytest.raises(SchemaMismatchError, match="'k' is missing"):
        align(pa.schema([("l", pa.list_(pa.int8()))]), REQUIRED)
    with pytest.raises(SchemaMismatchError, match=r"'p\.x' is missing"):
        align(pa.schema([("k", pa.int32()), ("p", pa.struct([("y", pa.int8())]))]), REQUIRED)


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"k": None}, "k"),
        ({"k": 1, "p": {"x": None, "y": 1}}, r"p\.x"),
        ({"k": 1, "l": [1, None]}, r"l\.item"),
        ({"k": 1, "p": None, "l": None}, None),
        ({"k": 1, "p": {"x": 1, "y": None}, "l": []}, None),
    ],
)
def test_nulls_are_looked_for_where_they_are_forbidden(
    row: dict[str, Any], path: str | None
) -> None:
    loose = pa.schema(
        [
            ("k", pa.int32()),
            ("p", pa.struct([("x", pa.int64()), ("y", pa.int8())])),
            ("l", pa.list_(pa.int8())),
        ]
    )
    batch = pa.RecordBatch.from_pylist([{"k": 5, "p": None}, row], schema=loose)
    alignment = align(loose, REQUIRED)
    if path is None:
        assert alignment.batch(batch).to_pylist() == batch.to_pylist()
    else:
        with pytest.raises(SchemaMismatchError, match=f"'{path}' must not be null, but 1 values"):
            alignment.batch(batch)


def test_a_batch_of_other_columns_than_announced() -> None:
    batch = pa.RecordBatch.from_pydict({"s": ["x"]})
    with pytest.raises(SchemaMismatchError, match="expected a batch with the columns"):
        align(pa.schema([("a", pa.int32())]), TABLE).batch(batch)


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_rowoffset", "a.b"])
def test_names_that_a_table_cannot_have(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        new_schema(pa.schema([(name, pa.int8())]))


def test_new_tables_need_columns_that_the_format_can_name() -> None:
    with pytest.raises(InvalidInputError, match="at least one column"):
        new_schema(pa.schema([]))
    with pytest.raises(UnsupportedTypeError):
        new_schema(pa.schema([("d", pa.month_day_nano_interval())]))
