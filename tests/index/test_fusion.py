"""Reciprocal-rank fusion, against sums by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError
from pilum.query import reciprocal_rank_fusion


def result(*ids: int, **more: object) -> pa.Table:
    return pa.table({"_rowid": pa.array(ids, pa.uint64()), **more})


def test_ranks_are_summed() -> None:
    found = reciprocal_rank_fusion([result(1, 2, 3), result(3, 9)], constant=60)
    assert found["_rowid"].to_pylist() == [3, 1, 2, 9]
    expected = [1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert found["_relevance_score"].to_pylist() == pytest.approx(expected)
    assert reciprocal_rank_fusion([result(1, 2), result(2)], limit=1)["_rowid"].to_pylist() == [2]


def test_common_columns_are_returned() -> None:
    texts = result(4, 5, _score=[2.0, 1.0], name=["d", "e"])
    vectors = result(5, 6, _distance=[0.5, 0.7], name=["e", "f"])
    found = reciprocal_rank_fusion([texts, vectors])
    assert found.column_names == ["_rowid", "name", "_relevance_score"]
    assert found["name"].to_pylist() == ["e", "d", "f"]
    by_name = reciprocal_rank_fusion([texts, vectors], key="name")
    assert by_name["_rowid"].to_pylist() == [5, 4, 6]
    assert reciprocal_rank_fusion([result(), result()]).num_rows == 0


def test_bad_results_are_named() -> None:
    with pytest.raises(InvalidInputError, match="at least one table"):
        reciprocal_rank_fusion([])
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        reciprocal_rank_fusion([result(1)], key="x")
