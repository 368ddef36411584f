"""Queries of full text: which documents match, and how their scores are combined.

    MatchQuery               any word, or all            sum over the words of the query
    PhraseQuery              words one after another     sum over its words
    BoostQuery               those of `positive`         positive - negative_boost * negative
    MultiMatchQuery          those of any column         greatest score of a column
    CombinedFieldsQuery      columns as if they were     BM25F: frequencies and lengths are added
                             one text                    before the score is computed
    BooleanQuery             MUST, SHOULD, MUST_NOT      sum over what matches

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, StrEnum

from pilum.arguments import require_count
from pilum.errors import InvalidInputError

__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "CombinedFieldsQuery",
    "DocumentGranularity",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
    "leaves",
]


_MAX_DEPTH = 100


class FullTextQueryType(Enum):
    """The kinds of queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    COMBINED_FIELDS = "combined_fields"
    BOOLEAN = "boolean"


class FullTextOperator(Enum):
    """Whether all words of a query must occur, or any of them."""

    AND = "AND"
    OR = "OR"


class Occur(Enum):
    """Whether a document should, must or must not match a clause of a boolean query."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


class DocumentGranularity(StrEnum):
    """The kinds of documents: rows, or elements of lists."""

    ROW = "row"
    LIST_ELEMENT = "list_element"


class FullTextQuery:
    """Base of all queries. `a & b` matches documents that match both, `a | b` those of any."""

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        raise NotImplementedError

    def columns_of(self) -> tuple[str, ...]:
        """Return the columns that are searched, each once."""
        raise NotImplementedError

    def __and__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])


@dataclass(frozen=True)
class MatchQuery(FullTextQuery):
    """Documents that contain words.

    Args:
        query: The words.
        column: The column to search.
        boost: The score is multiplied by it.
        fuzziness: How many characters of a word may be inserted, removed or replaced; None for
            as many as the reference uses, which is 0.
        max_expansions: Most words of the index that fuzzy words are replaced by, in all.
        operator: Whether any word must occur, or all.
        prefix_length: How many bytes at the start of a fuzzy word must be the same.
        document_granularity: What a document is; None for what the index has.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    query: str
    column: str
    _: KW_ONLY
    boost: float = 1.0
    fuzziness: int | None = 0
    max_expansions: int = 50
    operator: FullTextOperator = FullTextOperator.OR
    prefix_length: int = 0
    document_granularity: DocumentGranularity | None = None

    def __post_init__(self) -> None:
        _require_text("query", self.query)
        _require_text("column", self.column)
        _require_number("boost", self.boost)
        if self.fuzziness is not None:
            require_count("fuzziness", self.fuzziness)
        require_count("max_expansions", self.max_expansions)
        require_count("prefix_length", self.prefix_length)
        _require_operator(self.operator)

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.MATCH

    def columns_of(self) -> tuple[str, ...]:
        """Return the column that is searched."""
        return (self.column,)


@dataclass(frozen=True)
class PhraseQuery(FullTextQuery):
    """Documents that contain words one after another.

    Args:
        query: The words.
        column: The column to search; its index must have positions.
        slop: How many more words than in the query there may be between two adjacent words.
        document_granularity: What a document is; None for what the index has.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    query: str
    column: str
    _: KW_ONLY
    slop: int = 0
    document_granularity: DocumentGranularity | None = None

    def __post_init__(self) -> None:
        _require_text("query", self.query)
        _require_text("column", self.column)
        if require_count("slop", self.slop) >= 2**32:
            raise InvalidInputError(f"slop: {self.slop} is too large")

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.MATCH_PHRASE

    def columns_of(self) -> tuple[str, ...]:
        """Return the column that is searched."""
        return (self.column,)


@dataclass(frozen=True)
class BoostQuery(FullTextQuery):
    """Documents of a query, with lower scores for those that match another one.

    Args:
        positive: The documents.
        negative: Those with lower scores.
        negative_boost: Its scores are multiplied by it and subtracted.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    positive: FullTextQuery
    negative: FullTextQuery
    _: KW_ONLY
    negative_boost: float = 0.5

    def __post_init__(self) -> None:
        _require_query("positive", self.positive)
        _require_query("negative", self.negative)
        _require_shallow([self.positive, self.negative])
        _require_number("negative_boost", self.negative_boost)

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.BOOST

    def columns_of(self) -> tuple[str, ...]:
        """Return the columns that are searched."""
        return _distinct([self.positive, self.negative])


@dataclass(frozen=True)
class _ColumnsQuery(FullTextQuery):
    """Base of queries of words in several columns."""

    query: str
    columns: Sequence[str]
    _: KW_ONLY
    boosts: Sequence[float] | None = None
    operator: FullTextOperator = FullTextOperator.OR

    def __post_init__(self) -> None:
        _require_text("query", self.query)
        _require_columns(self.columns, self.boosts)
        _require_operator(self.operator)

    def columns_of(self) -> tuple[str, ...]:
        """Return the columns that are searched."""
        return tuple(dict.fromkeys(self.columns))


@dataclass(frozen=True)
class MultiMatchQuery(_ColumnsQuery):
    """Documents that contain words in any of several columns.

    Args:
        query: The words.
        columns: The columns to search.
        boosts: The scores of each column are multiplied by them; None for 1.
        operator: Whether any word must occur in a column, or all.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.MULTI_MATCH

    def matches(self) -> list[MatchQuery]:
        """Return the query of each column."""
        boosts = self.boosts or [1.0] * len(self.columns)
        return [
            MatchQuery(self.query, column, boost=boost, operator=self.operator)
            for column, boost in zip(self.columns, boosts, strict=True)
        ]


@dataclass(frozen=True)
class CombinedFieldsQuery(_ColumnsQuery):
    """Documents that contain words in columns that are searched as one text (BM25F).

    Args:
        query: The words.
        columns: The columns, whose indices must have the same parameters.
        boosts: The weight of each column, 1 or more; None for 1.
        operator: Whether any word must occur in some column, or all.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(boost < 1 for boost in self.boosts or ()):
            raise InvalidInputError(f"boosts: expected 1 or more, found {list(self.boosts or ())}")

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.COMBINED_FIELDS


@dataclass(frozen=True)
class BooleanQuery(FullTextQuery):
    """Documents that match clauses; the scores of all that match are added.

    Without a MUST, at least one SHOULD has to match.

    Args:
        queries: The clauses.

    Raises:
        InvalidInputError: If an argument is invalid, or there is no MUST and no SHOULD.
    """

    queries: Sequence[tuple[Occur, FullTextQuery]]

    def __post_init__(self) -> None:
        for occur, query in self.queries:
            if not isinstance(occur, Occur):
                raise InvalidInputError(f"queries: expected an Occur, found {occur!r}")
            _require_query("queries", query)
        _require_shallow([query for _, query in self.queries])
        if not self.of(Occur.MUST) and not self.of(Occur.SHOULD):
            raise InvalidInputError("a boolean query needs a clause with MUST or SHOULD")

    def query_type(self) -> FullTextQueryType:
        """Return the kind of query."""
        return FullTextQueryType.BOOLEAN

    def columns_of(self) -> tuple[str, ...]:
        """Return the columns that are searched."""
        return _distinct([query for _, query in self.queries])

    def of(self, occur: Occur) -> list[FullTextQuery]:
        """Return the clauses of one kind."""
        return [query for kind, query in self.queries if kind is occur]


def leaves(query: FullTextQuery) -> Iterator[MatchQuery | PhraseQuery | CombinedFieldsQuery]:
    """Yield the queries that a query combines, down to those of words."""
    if isinstance(query, BooleanQuery):
        for _, clause in query.queries:
            yield from leaves(clause)
    elif isinstance(query, BoostQuery):
        yield from leaves(query.positive)
        yield from leaves(query.negative)
    elif isinstance(query, MultiMatchQuery):
        yield from query.matches()
    else:
        assert isinstance(query, (MatchQuery, PhraseQuery, CombinedFieldsQuery))
        yield query


def _distinct(queries: Sequence[FullTextQuery]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for query in queries for column in query.columns_of()))


def _require_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInputError(f"{what}: expected a string, found {value!r}")


def _require_number(what: str, value: object) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)):  # type: ignore[arg-type]
        raise InvalidInputError(f"{what}: expected a finite number, found {value!r}")


def _require_operator(value: object) -> None:
    if not isinstance(value, FullTextOperator):
        raise InvalidInputError(f"operator: expected a FullTextOperator, found {value!r}")


def _require_query(what: str, value: object) -> None:
    if not isinstance(value, FullTextQuery):
        raise InvalidInputError(f"{what}: expected a full-text query, found {value!r}")


def _require_shallow(queries: Sequence[FullTextQuery]) -> None:
    """Refuse clauses in clauses that searches, which call themselves, could not follow."""
    for _ in range(_MAX_DEPTH):
        clauses = (clause for query in queries for clause in _clauses(query))
        queries = [*{id(clause): clause for clause in clauses}.values()]
        if not queries:
            return
    raise InvalidInputError(f"a query of more than {_MAX_DEPTH} nested queries")


def _clauses(query: FullTextQuery) -> Sequence[FullTextQuery]:
    if isinstance(query, BooleanQuery):
        return [clause for _, clause in query.queries]
    return [query.positive, query.negative] if isinstance(query, BoostQuery) else []


def _require_columns(columns: Sequence[str], boosts: Sequence[float] | None) -> None:
    if isinstance(columns, str) or not columns:
        raise InvalidInputError(f"columns: expected a list of names, found {columns!r}")
    for column in columns:
        _require_text("columns", column)
    if boosts is not None:
        for boost in boosts:
            _require_number("boosts", boost)
        if len(boosts) != len(columns):
            raise InvalidInputError(f"{len(boosts)} boosts for {len(columns)} columns")
