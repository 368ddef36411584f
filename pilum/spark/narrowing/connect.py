"""Narrow the plans of Spark Connect, which are messages that the client builds.

    project ["q"] <- filter ("q" > 3) <- read pilum       what is used, by names
    the same message, with a narrow read                  what runs

Names are unresolved, so columns are found as in the texts of `pilum.spark.sql`: a column is read if
any word of the plan is its name. Conditions are used if all relations between them and the scan
keep rows and names as they are. A relation that is not listed here uses all columns.

Source: `spark/connect/relations.proto` of Spark 4.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from pilum.spark.narrowing.answering import answer
from pilum.spark.narrowing.deciding import Decision, expression, narrow_scan
from pilum.spark.narrowing.leaves import FORMATS, Grouping, Leaf, Reads, Use
from pilum.spark.narrowing.messages import text_of
from pilum.spark.statements.dialect import Spark4

__all__ = ["narrowed"]

# They keep rows and names.
_KEEPING = frozenset(
    {"drop", "hint", "repartition", "repartition_by_expression", "sort", "subquery_alias"}
)
# They use other columns by their names only.
_BY_NAME = frozenset(
    {
        *_KEEPING,
        "collect_metrics",
        "fill_na",
        "filter",
        "join",
        "limit",
        "offset",
        "replace",
        "tail",
        "with_columns",
        "with_columns_renamed",
    }
)
_BY_TASK = frozenset(
    {
        "input_file_name",
        "monotonically_increasing_id",
        "rand",
        "randn",
        "random",
        "randstr",
        "shuffle",
        "spark_partition_id",
        "uniform",
        "uuid",
    }
)
# A row of the result depends on several rows, or a row becomes several.
_OTHER_ROWS = re.compile(r"\bover\b|window|explode|\binline|stack|json_tuple", re.IGNORECASE)
_STARS = frozenset({"unresolved_star", "unresolved_regex"})


@dataclass(frozen=True)
class _Found:
    """A scan in a message, and the relations above it, the nearest one first."""

    relation: Any
    above: tuple[Any, ...]

    @property
    def key(self) -> int:
        """Return the number of the scan, which its copies in a plan share."""
        return int(self.relation.common.plan_id)


@dataclass
class _Words:
    """The words of a plan: what columns may be called, and functions that depend on tasks."""

    names: set[str] = field(default_factory=set)
    is_known: bool = True
    by_task: str = ""

    def add(self, message: Any) -> None:
        """Add all texts of a message, except those of scans."""
        if message.DESCRIPTOR.name == "Read":
            return
        if message.DESCRIPTOR.name == "Sample":
            self.by_task = "sample"
        if message.DESCRIPTOR.name == "UnresolvedFunction":
            self._check(message.function_name.lower())
        if message.DESCRIPTOR.name == "CommonInlineUserDefinedFunction":
            self.by_task = self.by_task or ("" if message.deterministic else message.function_name)
        for kind, value in message.ListFields():
            is_map = kind.message_type is not None and kind.message_type.GetOptions().map_entry
            values = [*value, *value.values()] if is_map else value
            for one in values if is_map or _is_list(values) else [values]:
                if isinstance(one, str):
                    self._add_text(one)
                elif hasattr(one, "DESCRIPTOR"):
                    self.add(one)

    def _add_text(self, text: str) -> None:
        self.names.add(text.lower())
        try:
            tokens = list(Spark4().tokenize(text))
        except SqlglotError:
            self.is_known = False
            return
        for number, token in enumerate(tokens):
            self.names.add(token.text.lower())
            if [one.token_type for one in tokens[number + 1 : number + 2]] == [TokenType.L_PAREN]:
                self._check(token.text.lower())

    def _check(self, function: str) -> None:
        if function in _BY_TASK:
            self.by_task = function


def narrowed(frame: DataFrame, cached: Collection[int] = ()) -> tuple[DataFrame, tuple[Reads, ...]]:
    """Return a frame with the same rows that reads less, and what it reads of each table.

    Args:
        frame: A frame of Spark Connect.
        cached: Numbers of plans whose results Spark caches; they are not changed.
    """
    given: Any = frame
    relation = given._plan.plan(given._session.client)
    leaves = [
        one
        for one in _leaves(relation)
        if not any(int(above.common.plan_id) in cached for above in (one.relation, *one.above))
    ]
    if not leaves:
        return _frame_of(frame, relation), ()
    words = _Words()
    words.add(relation)
    copies = Counter(one.key for one in leaves)
    all_reads = []
    for one in leaves:
        use = _use(one, words)
        if copies[one.key] > 1:
            columns = None if use.columns is None else frozenset(words.names)
            use = Use(columns, lambda _: None, reason=use.reason)
        all_reads.append(_replace(frame, one, use))
    return _frame_of(frame, relation), tuple(all_reads)


def _replace(frame: DataFrame, leaf: _Found, use: Use) -> Reads:
    """Replace a scan in its message, or the aggregate above it, if less can be read."""
    spark = frame.sparkSession
    source = leaf.relation.read.data_source
    schema = _schema(source.schema)
    names = [name.lower() for name in schema.names]
    if len(set(names)) < len(names):
        use = Use.whole("names of columns differ only in case")
    decision = Decision.of(Leaf(dict(source.options), schema), use)
    if use.grouping is not None:
        found = answer(spark, decision, use.grouping, use.name_of)
        if found is not None:
            above = next(one for one in leaf.above if _is_grouping(one))
            rows, reads = found
            expected = _frame_of(frame, above).schema
            if [one.dataType for one in expected] == [one.dataType for one in rows.schema]:
                _overwrite(above, rows.toDF(*expected.names))
                return reads
    if decision.narrows:
        _overwrite(leaf.relation, narrow_scan(spark, decision))
    return decision.reads


def _overwrite(relation: Any, frame: DataFrame) -> None:
    """Replace a relation by the plan of a frame; it keeps its number, which columns refer to."""
    given: Any = frame
    number = relation.common.plan_id
    relation.CopyFrom(given._plan.plan(given._session.client))
    relation.common.plan_id = number


def _frame_of(frame: DataFrame, relation: Any) -> DataFrame:
    """Return a plain frame of a message."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Given(LogicalPlan):
        """A plan whose message is given."""

        def plan(self, session: Any) -> Any:
            return relation

        @property
        def observations(self) -> Any:
            return given._plan.observations

    given: Any = frame
    return ConnectDataFrame(Given(None), given._session)


def _use(found: _Found, words: _Words) -> Use:
    """Return what the relations above a scan use of it."""
    if not words.is_known:
        return Use.whole("a text of the plan does not parse")
    if words.by_task:
        return Use.whole(f"{words.by_task} depends on how the table is split into tasks")
    chain = _Chain()
    for relation in found.above:
        if not chain.add(relation):
            break
    columns = frozenset(words.names) if chain.is_closed else None
    return Use(
        columns,
        chain.name_of,
        tuple(chain.conditions),
        chain.limit,
        chain.grouping,
    )


class _Chain:
    """The relations above a scan, as far as they use it by names."""

    def __init__(self) -> None:
        self.conditions: list[str | None] = []
        self.limit: int | None = None
        self.grouping: Grouping | None = None
        self.is_closed = False
        """Whether columns that are not named are not used."""
        self._aliases: set[str] = set()
        self._shadowed: set[str] = set()
        """Names that no longer mean columns of the table."""
        self._is_plain = True
        self._is_sorted = False

    def add(self, relation: Any) -> bool:
        """Add the next relation; return whether those above it matter."""
        kind = _kind(relation)
        message = getattr(relation, kind)
        if _is_grouping(relation):
            self._group(kind, message)
            self.is_closed = self.is_closed or not _has_star(message)
            return False
        if self._is_plain:
            self._is_plain = self._narrow(kind, message)
        if kind == "project":
            self.is_closed = self.is_closed or not _has_star(message)
        elif kind not in _BY_NAME and not self.is_closed:
            return False
        return self._is_plain or not self.is_closed

    def name_of(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return what a name in a condition means; `NameOf`."""
        names = (*parts,)
        if len(names) > 1 and names[0].lower() in self._aliases:
            names = names[1:]
        return None if names[0].lower() in self._shadowed else (names[0].lower(), *names[1:])

    def _narrow(self, kind: str, message: Any) -> bool:
        """Note conditions and limits; return whether those above still apply to the scan."""
        if kind == "filter":
            # The names of earlier conditions are resolved at the end, so nothing may shadow them.
            if self.limit is None:
                self.conditions.append(text_of(message.condition))
            return self.limit is None
        if kind == "limit":
            if self._is_sorted or message.limit < 1:
                return False
            self.limit = min(message.limit, self.limit or message.limit)
            return True
        if kind in {"project", "with_columns"} and _OTHER_ROWS.search(str(message)):
            return False
        if kind == "project":
            return self._project(message)
        if kind == "with_columns":
            return self._shadow(name for alias in message.aliases for name in alias.name)
        if kind == "subquery_alias":
            self._aliases.add(message.alias.lower())
        self._is_sorted = self._is_sorted or kind == "sort"
        return kind in _KEEPING

    def _project(self, message: Any) -> bool:
        shadowed = []
        for one in message.expressions:
            if one.WhichOneof("expr_type") in _STARS:
                continue
            text = text_of(one)
            node = None if text is None else expression(text)
            if isinstance(node, exp.Alias) or (
                isinstance(node, exp.Column) and len(node.parts) > 1
            ):
                shadowed.append(node.alias_or_name)
            elif one.WhichOneof("expr_type") == "alias" and len(one.alias.name) == 1:
                shadowed.append(one.alias.name[0])
            elif not isinstance(node, exp.Column | exp.Star):
                return False
        return self._shadow(shadowed)

    def _shadow(self, names: Any) -> bool:
        """Exclude names from the conditions above; return False if earlier ones use them."""
        new = {name.lower() for name in names}
        used = " ".join(text or "" for text in self.conditions).lower()
        if any(name in used for name in new):
            return False
        self._shadowed |= new
        return True

    def _group(self, kind: str, message: Any) -> None:
        is_plain = kind == "project" or message.group_type == message.GROUP_TYPE_GROUPBY
        if not (is_plain and self._is_plain and self.limit is None):
            return
        given = message.expressions if kind == "project" else message.aggregate_expressions
        keys = [text_of(one) for one in getattr(message, "grouping_expressions", ())]
        results = [text_of(one) for one in given]
        known = tuple(text for text in keys if text is not None)
        calls = tuple(text for text in results if text is not None)
        if len(known) == len(keys) and len(calls) == len(results):
            self.grouping = Grouping(known, (*known, *calls))


def _is_grouping(relation: Any) -> bool:
    """Return whether a relation aggregates its input: a group, or a `select` of aggregates."""
    if _kind(relation) != "project":
        return _kind(relation) == "aggregate"
    texts = [text_of(one) for one in relation.project.expressions]
    nodes = [None if text is None else expression(text) for text in texts]
    return any(
        node is not None and node.find(exp.AggFunc) and not node.find(exp.Window) for node in nodes
    )


def _has_star(message: Any) -> bool:
    """Return whether a list of expressions contains all columns of its input."""
    lists = ("expressions", "grouping_expressions", "aggregate_expressions")
    for one in (one for name in lists for one in getattr(message, name, ())):
        kind = one.WhichOneof("expr_type")
        if kind in _STARS:
            return True
        if kind == "expression_string":
            node = expression(one.expression_string.expression)
            if node is None or any(
                not isinstance(star.parent, exp.Count) for star in node.find_all(exp.Star)
            ):
                return True
        elif _contains_star(one):
            return True
    return False


def _contains_star(message: Any) -> bool:
    """Return whether an expression has a star anywhere but in `count(*)`."""
    if message.DESCRIPTOR.name in {"UnresolvedStar", "UnresolvedRegex"}:
        return True
    if message.DESCRIPTOR.name == "UnresolvedFunction" and message.function_name == "count":
        arguments = [text_of(one) for one in message.arguments]
        return arguments != ["*"] and any(map(_contains_star, message.arguments))
    return any(
        _contains_star(one)
        for kind, value in message.ListFields()
        if kind.message_type is not None and not kind.message_type.GetOptions().map_entry
        for one in (value if _is_list(value) else [value])
    )


def _leaves(relation: Any, above: tuple[Any, ...] = ()) -> Iterator[_Found]:
    """Yield the scans of tables of pilum in a message."""
    if _kind(relation) == "read":
        source = relation.read.data_source
        if source.format in FORMATS and source.schema and "version" in source.options:
            yield _Found(relation, above)
        return
    for one in _inputs(getattr(relation, _kind(relation))):
        yield from _leaves(one, (relation, *above))


def _inputs(message: Any) -> Iterator[Any]:
    for kind, value in message.ListFields():
        if kind.message_type is not None and kind.message_type.name == "Relation":
            yield from value if _is_list(value) else [value]


def _is_list(value: Any) -> bool:
    return not isinstance(value, str | bytes) and hasattr(value, "__len__")


def _kind(relation: Any) -> str:
    return str(relation.WhichOneof("rel_type"))


def _schema(text: str) -> StructType:
    return StructType.fromJson(json.loads(text))
