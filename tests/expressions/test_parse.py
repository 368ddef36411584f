"""The dialect of filters: what is understood, and what is refused by name."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilum.errors import FilterError
from pilum.expressions.nodes import And, Column, Compare, InList, IsNull, Like, Literal, Not, Or
from pilum.expressions.parse import parse

A, ONE = Column(("a",)), Literal(1)


def test_and_binds_tighter_than_or_and_chains_are_flat() -> None:
    found = parse("a = 1 OR a = 1 AND a = 1 AND a = 1")
    equal = Compare("=", A, ONE)
    assert found == Or((equal, And((equal, equal, equal))))


def test_both_quotes_make_text_and_backquotes_make_names() -> None:
    assert parse('a = "it\'s"') == Compare("=", A, Literal("it's"))
    assert parse("a = 'it''s'") == Compare("=", A, Literal("it's"))
    assert parse(r"a = 'back\slash'") == Compare("=", A, Literal(r"back\slash"))
    assert parse("`a b`.`c.d` = 1") == Compare("=", Column(("a b", "c.d"), quoted=True), ONE)


def test_long_paths_and_brackets_name_members() -> None:
    assert parse("a.b.c.d.e.f") == Column(("a", "b", "c", "d", "e", "f"))
    assert parse("a['b']['c']") == Column(("a", "b", "c"))


@pytest.mark.parametrize("name", ["in", "is", "like", "between", "select", "Select", "and", "null"])
def test_members_may_have_the_names_of_keywords(name: str) -> None:
    member = Column(("s", name))
    assert parse(f"s.{name} = 1") == Compare("=", member, ONE)
    assert parse(f"s.{name} is null") == IsNull(member)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5),
        ("1.5", 1.5),
        ("-1e3", -1000.0),
        ("X'6162'", b"ab"),
        ("true", True),
        ("NULL", None),
        ("18446744073709551615", 2**64 - 1),
        (
            "-1234567890123456789012345678.9012345678",
            Decimal("-1234567890123456789012345678.9012345678"),
        ),
    ],
)
def test_literals(text: str, value: object) -> None:
    assert parse(text) == Literal(value)  # type: ignore[arg-type]


def test_negations_wrap_what_they_negate() -> None:
    assert parse("a NOT IN (1)") == Not(InList(A, (ONE,)))
    assert parse("a NOT LIKE 'x'") == Not(Like(A, Literal("x"), ignore_case=False))
    assert parse("NOT a ILIKE 'x'") == Not(Like(A, Literal("x"), ignore_case=True))


def test_thousands_of_alternatives_are_no_depth() -> None:
    found = parse(" OR ".join(f"a = {number}" for number in range(3000)))
    assert isinstance(found, Or)
    assert len(found.operands) == 3000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("a =", "cannot parse"),
        ("(a = 1", "cannot parse"),
        ("a = 1; DROP TABLE t", "cannot parse"),
        ("a = 'open", "cannot parse"),
        ("a IN (SELECT 1)", "IN with QUERY"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("CASE WHEN a THEN b END", "CASE"),
        ("a = ANY(1)", "ANY"),
        ("a BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC"),
        ("TRY_CAST(a AS int) = 1", "TRYCAST"),
        ("a = INTERVAL '1 day'", "INTERVAL"),
        ("a = ?", "PLACEHOLDER"),
        ("a.* = 1", "not a column"),
        ("a IN ()", "at least one value"),
        ("a LIKE 'x' ESCAPE '!'", "backslash"),
        ("CAST(a AS geography) = 1", "cannot cast to"),
        ("CAST(a AS decimal(50, 2)) = 1", "cannot cast to"),
        ("CAST(a AS decimal(b'01', 3)) = 1", "cannot cast to"),
        ("CAST(a AS timestamp(exists 0)) = a", "cannot cast to"),
        ("CAST(a AS int[]) = a", r"cannot cast to ARRAY\(INT\)"),
        ("a = 1e", "not a number"),
        ("X'6' = a", "hex"),
        ("NOT " * 3000 + "a", "nested too deeply"),
    ],
)
def test_other_sql_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    "text", ["a = b IS NULL", "a = b > c", "a < b IN (1)", "a IS NULL IS NULL"]
)
def test_chains_that_engines_read_differently_need_parentheses(text: str) -> None:
    with pytest.raises(FilterError, match="parentheses"):
        parse(text)
    parse("(a = b) IS NULL OR a BETWEEN 1 AND 2 AND NOT b = c")


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = 1." + "9" * 5000, "a = " * 5000])
def test_errors_of_long_filters_are_short(text: str) -> None:
    with pytest.raises(FilterError) as found:
        parse(text)
    assert len(str(found.value)) < 1000
