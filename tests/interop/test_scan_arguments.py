"""Sorted scans and scans with deleted rows give what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import assert_same

import pilum
from pilum.dataset import ColumnOrdering
from pilum.errors import InvalidInputError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(0)
    rows = 400
    numbers = random.integers(-5, 5, rows).astype(object)
    numbers[random.random(rows) < 0.1] = None
    floats = random.choice([1.5, -0.0, 0.0, np.nan, np.inf, -np.inf, -2.25], rows)
    table = pa.table(
        {
            "i": pa.array(numbers.tolist(), pa.int32()),
            "f": pa.array(floats, mask=random.random(rows) < 0.1),
            "t": pa.array(random.choice(["a", "B", "", "ä", "\U0001f600", "ab"], rows)),
            "b": pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.1),
            "s": [{"x": int(value)} for value in random.integers(0, 9, rows)],
            "id": range(rows),
        }
    )
    found = str(tmp_path_factory.mktemp("sorted") / "t")
    pilum.write_dataset(table, found, max_rows_per_file=150).delete("id % 7 = 3")
    return found


KEYS = st.tuples(st.sampled_from(["i", "f", "t", "b", "s.x"]), st.booleans(), st.booleans())


@settings(max_examples=25)
@given(
    keys=st.lists(KEYS, min_size=1, max_size=3, unique_by=lambda key: key[0]),
    limit=st.none() | st.integers(1, 500),
    offset=st.none() | st.integers(0, 60),
    filtered=st.booleans(),
)
def test_rows_come_in_the_same_order(
    uri: str,
    keys: list[tuple[str, bool, bool]],
    limit: int | None,
    offset: int | None,
    filtered: bool,
) -> None:
    keys = [*keys, ("id", True, False)]  # ties are in no order that could be compared
    from lance.dataset import ColumnOrdering as Theirs

    arguments: dict[str, Any] = {
        "limit": limit,
        "offset": offset,
        "filter": "id > 50 AND i < 4" if filtered else None,
    }
    ours = pilum.dataset(uri).to_table(order_by=[ColumnOrdering(*key) for key in keys], **arguments)
    theirs = lance.dataset(uri).to_table(order_by=[Theirs(*key) for key in keys], **arguments)
    assert_same(ours, theirs)
    orderings: Any = [Theirs(*key) for key in keys]
    assert_same(pilum.dataset(uri).to_table(order_by=orderings, **arguments), theirs)


def test_columns_of_a_hint(uri: str) -> None:
    """Names of columns that do not exist are errors of both; members of structs are not checked."""
    hint: Any
    for hint in (["i", "id"], ("i",), [], ["_rowid"], ["s.none"], True):
        for library in (pilum, lance):
            assert library.dataset(uri).scanner(late_materialization=hint).count_rows() > 0
    for hint in (["none"], ["none.id"], ["I"], "i", 5, [1]):
        with pytest.raises((RuntimeError, ValueError)):
            lance.dataset(uri).scanner(late_materialization=hint)
        with pytest.raises(InvalidInputError, match=r"no column|late_materialization: expected"):
            pilum.dataset(uri).scanner(late_materialization=hint)


def test_deleted_rows_are_the_same(uri: str) -> None:
    for arguments in (
        {},
        {"filter": "i > 0", "late_materialization": False},
        {"with_row_address": True},
    ):
        more: Any = arguments
        ours, theirs = (
            library.dataset(uri).to_table(include_deleted_rows=True, with_row_id=True, **more)
            for library in (pilum, lance)
        )
        assert_same(ours, theirs)
