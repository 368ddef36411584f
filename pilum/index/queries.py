"""Queries: the conditions on one column that indices can answer.

    a = 5, a IN (1, 5)        IsIn              l: array_has_any(l, ['x'])    HasAny
    a >= 1 AND a < 5          Between           array_has_all(l, ['x'])       HasAll
    a IS NULL                 IsNull            contains(s, 'abc')            HasTexts
    s LIKE 'ab%'              StartsWith            contains_tokens(s, 'a b')   HasWords
                                                    json_get_int(j, 'x') = 5    AtPath
    st_intersects(p, …)       InBox

Values have the type of the column, or of the items of a list column. They are never null. Floats
have a total order (`pilum.expressions.compare`): a query for one zero names both.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

__all__ = [
    "AtPath",
    "Between",
    "HasAll",
    "HasAny",
    "HasTexts",
    "HasWords",
    "InBox",
    "IsIn",
    "IsNull",
    "Query",
    "StartsWith",
]


@dataclass(frozen=True, slots=True)
class Query:
    """Base of all queries."""


@dataclass(frozen=True, slots=True)
class IsIn(Query):
    """The value equals one of `values`; a NaN equals a NaN of the same bits."""

    values: pa.Array


@dataclass(frozen=True, slots=True)
class Between(Query):
    """The value lies in a range; an end that is None is open.

    Attributes:
        low: Lower end.
        high: Upper end.
        includes_low: Whether the lower end belongs to the range.
        includes_high: Whether the upper end belongs to the range.
    """

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    includes_low: bool = True
    includes_high: bool = True


@dataclass(frozen=True, slots=True)
class IsNull(Query):
    """The value is null."""


@dataclass(frozen=True, slots=True)
class StartsWith(Query):
    """The text or binary value starts with `prefix`, which is not empty."""

    prefix: str | bytes


@dataclass(frozen=True, slots=True)
class HasTexts(Query):
    """The text contains all of `texts`, in upper and lower case as given."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasWords(Query):
    """The text contains all of `words`: runs of letters and digits, in upper and lower case."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HasAny(Query):
    """The list contains at least one of `values`."""

    values: pa.Array


@dataclass(frozen=True, slots=True)
class HasAll(Query):
    """The list contains all of `values`."""

    values: pa.Array


@dataclass(frozen=True, slots=True)
class InBox(Query):
    """The bounding box of the geometry has a point in common with a box, whose sides belong to it.

    Attributes:
        ends: The least x and y, then the greatest x and y.
    """

    ends: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class AtPath(Query):
    """The value at a path of a JSON document matches `query`; null if there is none.

    Attributes:
        steps: Names of members and numbers of items, from the document downwards.
        type: Type of the values: boolean, int64, double or string.
        query: The condition on the value.
    """

    steps: tuple[int | str, ...]
    type: pa.DataType
    query: Query
