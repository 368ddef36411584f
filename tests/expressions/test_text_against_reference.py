"""Patterns select the same texts here and in the reference, whatever they are made of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")

_CHARACTERS = ["a", "b", "A", "%", "_", "\\", "'", '"', "é", "É", "\n", "."]
_TEXTS = [
    "",
    *_CHARACTERS,
    *(first + second for first in _CHARACTERS for second in _CHARACTERS),
    "aab",
    "a\\%b",
    "\\a%",
    "%\\a",
    "\\\\",
    "\\\\a",
    "x\ny",
    "it's",
    "ß",
    "🎉a",
]

Datasets = tuple[Any, Any]


@pytest.fixture(scope="module", params=["legacy", "2.1"])
def datasets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    """Texts in files of a few rows, with nulls."""
    path = tmp_path_factory.mktemp("texts") / "t"
    # Before 2.0 an empty text and null are the same.
    texts = [text for text in _TEXTS if text] if request.param == "legacy" else [*_TEXTS, None]
    large = pa.array(texts, "large_string")
    table = pa.table({"id": range(len(texts)), "s": texts, "large": large})
    lance.write_dataset(
        table,
        path,
        max_rows_per_file=60,
        max_rows_per_group=20,
        data_storage_version=request.param,
    )
    return pilum.dataset(path), lance.dataset(str(path))


_PATTERNS = st.lists(st.sampled_from([*_CHARACTERS, "%", "_", "\\"]), max_size=6).map("".join)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _same(datasets: Datasets, condition: str) -> None:
    ours, reference = (
        dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist() for dataset in datasets
    )
    assert ours == reference, condition


@pytest.mark.reference
@pytest.mark.parametrize("operator", ["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
def test_patterns_match_the_same_texts(datasets: Datasets, operator: str) -> None:
    @given(pattern=_PATTERNS, column=st.sampled_from(["s", "large"]))
    @settings(max_examples=40)
    def check(pattern: str, column: str) -> None:
        _same(datasets, f"{column} {operator} {_quoted(pattern)}")

    check()


@pytest.mark.reference
@pytest.mark.parametrize(
    "pattern", [r"\\a%", r"%\\a", r"a\b%", r"%\_%", "a\\", "%\\", "\\", r"\%\_\\", r"%\%", r"_\_"]
)
def test_backslashes_escape_what_follows_and_stand_alone_at_the_end(
    datasets: Datasets, pattern: str
) -> None:
    for operator in ("LIKE", "NOT LIKE", "ILIKE"):
        _same(datasets, f"s {operator} {_quoted(pattern)}")
        _same(datasets, rf"s {operator} {_quoted(pattern)} ESCAPE '\'")


@pytest.mark.reference
@pytest.mark.parametrize(
    "condition",
    [
        "{}",
        "NOT {}",
        "({}) IS NULL",
        "({}) IS NOT NULL",
        "NOT (({}) IS NULL)",
        "{} AND id > 9",
        "{} OR id > 90",
    ],
)
@pytest.mark.parametrize("pattern", ["^a", "a(b)?", "", ".", "[.%]$", "^A", "a|b", "a.b"])
def test_regular_expressions_match_the_same_texts(
    datasets: Datasets, condition: str, pattern: str
) -> None:
    _same(datasets, condition.format(f"regexp_match(s, {_quoted(pattern)})"))
    _same(datasets, condition.format(f"regexp_match(s, {_quoted(pattern)}, 'i')"))
    # The reference takes a doubled backslash of `regexp_like` for one of LIKE, so there is none.
    _same(datasets, condition.format(f"regexp_like(s, {_quoted(pattern)})"))


@pytest.mark.reference
def test_functions_of_text_give_the_same(datasets: Datasets) -> None:
    texts = st.text(st.sampled_from(_CHARACTERS), max_size=3).map(_quoted)
    forms = [
        "starts_with(s, {})",
        "ends_with(s, {})",
        "contains(s, {})",
        "s = {}",
        "s < {}",
        "s >= {}",
        "s IN ({}, 'a')",
        "s NOT IN ({}, 'a')",
        "replace(s, {}, 'x') = 'x'",
        "replace(s, 'a', {}) = s",
        "(s || {}) = 'aa'",
        "concat(s, {}) = 'a'",
        "concat(s, {}, large) = 'aba'",
        "lower(s) = {}",
        "upper(s) = {}",
        "reverse(s) = {}",
        "btrim(s, {}) = 'b'",
        "ltrim(s, {}) = 'b'",
        "coalesce(s, {}) = 'a'",
        "nullif(s, {}) IS NULL",
        "(s IS DISTINCT FROM {})",
    ]

    @given(form=st.sampled_from(forms), text=texts)
    @settings(max_examples=75)
    def check(form: str, text: str) -> None:
        _same(datasets, form.format(text))

    check()
