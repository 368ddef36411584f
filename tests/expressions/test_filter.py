"""Filters that are Arrow expressions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions import bind

BATCH = pa.RecordBatch.from_pydict(
    {"a": [1, 2, None], "b": ["x", "y", "z"], "st": [{"x": 1}, {"x": 2}, None]}
)


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        (pc.field("a") > 1, ("a",), [False, True, False]),
        ((pc.field("b") == "x") | pc.field("a").is_null(), ("a", "b"), [True, False, True]),
        (pc.field("st", "x") == 1, ("st",), [True, False, False]),
        (pc.field("b").isin(["y"]), ("b",), [False, True, False]),
        (pc.scalar(True), (), [True, True, True]),
        (pc.field("_rowid") > 1, ("_rowid",), [False, False, True]),
    ],
)
def test_columns_and_rows(
    expression: pc.Expression, columns: tuple[str, ...], expected: list[bool]
) -> None:
    bound = bind(expression, BATCH.schema)
    assert bound.columns == columns
    whole = BATCH.append_column("_rowid", pa.array([0, 1, 2], pa.uint64()))
    assert bound.mask(whole).to_pylist() == expected
    turned = whole.select(list(reversed(whole.schema.names)))
    assert bound.mask(turned).to_pylist() == expected


def test_columns_by_position_read_everything() -> None:
    columns = bind(pc.field(0) > 1, BATCH.schema).columns
    assert columns[:5] == ("a", "b", "st", "_rowid", "_rowaddr")


def test_large_batches_keep_their_order() -> None:
    batch = pa.RecordBatch.from_pydict({"a": list(range(200_000))})
    mask = bind(pc.field("a") < 9, batch.schema).mask(batch)
    assert mask.to_pylist()[:9] == [True] * 9
    assert mask.true_count == 9


def test_refusals() -> None:
    with pytest.raises(ColumnNotFoundError, match="nope"):
        bind(pc.field("nope") > 1, BATCH.schema)
    with pytest.raises(FilterError, match="not boolean"):
        bind(pc.field("a") + 1, BATCH.schema)
    with pytest.raises(FilterError, match="does not bind"):
        bind(pc.field("st") > 1, BATCH.schema)
    with pytest.raises(FilterError, match="not int"):
        bind(5, BATCH.schema)
