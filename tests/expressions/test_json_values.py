"""Values of JSON documents in filters: those of the reference, or an error."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.errors import FilterError

VALUES = [
    "5", "-7", "9007199254740993", "1.5", "2.5", "-0.5", "1e20", "3.0", "true", "false", "null",
    '"7"', '"1.5"', '"1e3"', '"abc"', '" 7"', '"TRUE"', '"false"', '""', "[1]", '{"a": 1}',
    "18446744073709551615", '"-"', '"123456789012345678"',
]  # fmt: skip
GETTERS = ["json_get_int", "json_get_float", "json_get_bool", "json_get_string"]


def test_values_are_those_of_the_reference(tmp_path: Path) -> None:
    """A value that one of the two libraries refuses is refused by both, but floats as text."""
    texts = ['{"x": %s}' % value for value in VALUES]  # noqa: UP031 - braces
    path = tmp_path / "t"
    table = pa.table({"j": pa.array(texts, pa.json_()), "row": range(len(texts))})
    lance.write_dataset(table, path, data_storage_version="2.2")
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    for getter in GETTERS:
        columns = {"x": f"{getter}(j, 'x')"}
        for row, text in enumerate(texts):
            try:
                expected = theirs.to_table(columns=columns, filter=f"row = {row}")["x"]
            except Exception:
                with pytest.raises(FilterError, match=getter):
                    ours.to_table(columns=columns, filter=f"row = {row}")
                continue
            is_float = text[6:-1] in {"1.5", "2.5", "-0.5", "1e20", "3.0", "18446744073709551615"}
            if getter == "json_get_string" and is_float:
                with pytest.raises(FilterError, match="a number with a fraction"):
                    ours.to_table(columns=columns, filter=f"row = {row}")
                continue
            found = ours.to_table(columns=columns, filter=f"row = {row}")["x"]
            assert found.to_pylist() == expected.to_pylist(), (getter, text)
            assert found.type == expected.type


@pytest.mark.parametrize(
    ("filter", "rows"),
    [
        ("json_get_int(j, 'x') = 5", [0]),
        ("json_get_int(j, 'x') is null", [2, 3, 4, 5]),
        ("json_get_int(j, 'x') > 5", [1]),
        ("not (json_get_int(j, 'x') = 5)", [1]),
        ("json_get_string(j, 's') = 'a'", [0]),
        ("json_get_string(j, '0') = 'first'", [5]),
        ("json_get_string(j, 1) = 'second'", [5]),
        ("json_get_bool(j, 'b')", [1]),
        ("coalesce(json_get_int(j, 'x'), 9) = 9", [2, 3, 4, 5]),
        # 's' of the first two rows is no integer, but these rows do not need it.
        ("coalesce(json_get_int(j, 'x'), json_get_int(j, 's'), 5) = 5", [0, 2, 3, 4, 5]),
        ("coalesce(json_get_string(j, 0), json_get_string(j, 's')) is null", [2, 3, 4]),
    ],
)
def test_filters(tmp_path: Path, filter: str, rows: list[int]) -> None:
    documents = [
        '{"x": 5, "s": "a"}', '{"x": 7, "s": "b", "b": true}', '{"x": null}', "{}", None,
        '["first", "second"]',
    ]  # fmt: skip
    table = pa.table({"j": pa.array(documents, pa.json_())})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    found = dataset.to_table(columns=["_rowid"], filter=filter)
    assert found["_rowid"].to_pylist() == rows
    reference = lance.dataset(tmp_path / "t").to_table(columns=[], filter=filter, with_row_id=True)
    assert reference["_rowid"].to_pylist() == rows


def test_refused(tmp_path: Path) -> None:
    table = pa.table({"j": pa.array(["{}"], pa.json_()), "s": ["{}"]})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    for filter, message in [
        ("json_get_int(s, 'x') = 1", "takes JSON"),
        ("json_get_int(j, s) = 1", "a name or number as a constant"),
    ]:
        with pytest.raises(FilterError, match=message):
            dataset.to_table(filter=filter)


def test_items_that_no_array_has(tmp_path: Path) -> None:
    documents = pa.array(['{"2": 5}', "[1, 2, 3]"], pa.json_())
    dataset = pilum.write_dataset(pa.table({"j": documents}), tmp_path / "t")
    for item in ("-1", "99999999999", "'²'", "'-1'", f"'{'9' * 25}'", f"'{'9' * 5000}'"):
        assert dataset.count_rows(f"json_get_int(j, {item}) IS NULL") == 2
    assert dataset.count_rows("json_get_int(j, '2') > 2") == 2
    with pytest.raises(FilterError, match="cannot be parsed at"):
        dataset.count_rows(r"""json_exists(j, '$."\x"')""")
