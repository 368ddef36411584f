"""Expressions of Spark Connect as SQL, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from pilum.spark.narrowing.messages import text_of

pytest.importorskip("grpc")
expressions = pytest.importorskip("pyspark.sql.connect.proto.expressions_pb2")


def column(name: str) -> Any:
    found = expressions.Expression()
    found.unresolved_attribute.unparsed_identifier = name
    return found


def literal(**value: Any) -> Any:
    return expressions.Expression(literal=expressions.Expression.Literal(**value))


def call(name: str, *arguments: Any, **more: Any) -> Any:
    function = expressions.Expression.UnresolvedFunction(
        function_name=name, arguments=arguments, **more
    )
    return expressions.Expression(unresolved_function=function)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (call(">=", column("q"), literal(long=3)), "(`q` >= 3L)"),
        (call("==", column("a b.c"), literal(string="it's")), "(`a b`.`c` = 'it\\'s')"),
        (call("not", call("isNull", column("`x.y`"))), "(NOT (`x.y` IS NULL))"),
        (call("in", column("d"), literal(date=20_000)), "(`d` IN (DATE '2024-10-04'))"),
        (call("startsWith", column("n"), literal(string="a")), "startswith(`n`, 'a')"),
        (call("<", column("f"), literal(double=1.5)), "(`f` < 1.5D)"),
        (call("count", literal(integer=1)), "count(1)"),
        # What is not known, or would not be the same text.
        (call("==", column("s"), literal(string="a\\b")), None),
        (call("<", column("f"), literal(double=float("nan"))), None),
        (call("==", column("x"), literal(binary=b"1")), None),
        (call("sum", column("x"), is_distinct=True), None),
        (expressions.Expression(cast={"expr": column("x"), "type_str": "int"}), None),
    ],
)
def test_expressions_become_sql(message: Any, text: str | None) -> None:
    assert text_of(message) == text


def test_aliases_and_texts_are_kept() -> None:
    total = expressions.Expression(expression_string={"expression": "sum(x)"})
    named = expressions.Expression(alias={"expr": total, "name": ["t"]})
    assert text_of(total) == "sum(x)"
    assert text_of(named) == "(sum(x)) AS `t`"
