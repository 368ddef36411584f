from __future__ import annotations

import pytest

from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.spark.statements.merges import zorder_columns


@pytest.mark.parametrize(
    "text", ["ZORDER BY (a, `B, c`)", "zorder  by A, `b, c`", "ZORDER BY(a,`b, c`)"]
)
def test_the_columns_of_zorder_by(text: str) -> None:
    assert zorder_columns(text, ["a", "b, c"]) == ["a", "b, c"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("WHERE a = 1", UnsupportedFeatureError),
        ("ZORDER BY ()", UnsupportedFeatureError),
        ("ZORDER BY (a + 1)", UnsupportedFeatureError),
        ("ZORDER BY (nope)", ColumnNotFoundError),
        ("ZORDER BY ('x)", InvalidInputError),
    ],
)
def test_what_is_no_list_of_columns_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        zorder_columns(text, ["a", "b"])
