"""Narrow the plans of Spark classic, by the objects of its JVM.

    optimised plan    Project [q#2] <- Filter (q#2 > 3) <- RelationV2 [id#1, q#2]      what is used
    analysed plan     the same copied, with RelationV2 replaced by a narrow scan       what runs

The optimiser shows what each scan is used for: it moves conditions down to the scan, and puts a
projection above it if columns are not used. Columns have numbers in both plans. The copy of the
analysed plan gives the columns of the narrow scan the numbers of those that they replace, so the
rest of the plan is unchanged. Source: sources of Spark 4, `Optimizer` and `TreeNode`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pilum.spark.narrowing.answering import answer
from pilum.spark.narrowing.deciding import Decision, expression, narrow_scan, tokens_of
from pilum.spark.narrowing.leaves import FORMATS, Grouping, Leaf, NameOf, Reads, Use

__all__ = ["narrowed"]

_RELATION = "DataSourceV2Relation"
_SCANNED = "DataSourceV2ScanRelation"
_COMMON = "_common_expr_"
_PYTHON_TABLE = "PythonTable"
_GROUPS = frozenset({"Aggregate", "Deduplicate", "Distinct"})
_LIMITS = frozenset({"LocalLimit", "GlobalLimit"})
# The order of rows is unspecified for these; the others depend on how rows are split into tasks.
_ORDERED = frozenset({"Aggregate", "Window"})
_BY_TASK = re.compile(r"rand|uuid|shuffle|uniform|monotonically_increasing_id|partition_id")
_BY_TASK_NODES = frozenset({"Sample"})


@dataclass(frozen=True)
class _Found:
    """A scan in a plan: its node, and the nodes above it, the nearest one first."""

    node: Any
    above: tuple[Any, ...]

    @property
    def relation(self) -> Any:
        """Return the relation of the scan, which has its options."""
        return self.node.relation() if _kind(self.node) == _SCANNED else self.node

    @property
    def key(self) -> int:
        """Return the number of the first column, which only copies of the scan share."""
        return _number(self.node.output().apply(0))


def narrowed(frame: DataFrame) -> tuple[DataFrame, tuple[Reads, ...]]:
    """Return a frame with the same rows that reads less, and what it reads of each table."""
    execution = frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    leaves = list(_leaves(analyzed))
    if not leaves:
        return _plain(frame, frame._jdf), ()
    used = list(_leaves(execution.optimizedPlan()))
    numbers, copies = (Counter(one.key for one in found) for found in (leaves, used))
    reason = _reason(analyzed)
    plan, all_reads = _Copy(frame), list[Reads]()
    for leaf in leaves:
        if copies[leaf.key] == 0:
            continue  # Spark reads a cached result, or nothing
        uses = [_use(one, reason) for one in used if one.key == leaf.key]
        is_single = numbers[leaf.key] == copies[leaf.key] == 1
        all_reads.append(plan.replace(leaf, uses[0] if is_single else _common(uses), used))
    return plan.of(analyzed), tuple(all_reads)


class _Copy:
    """A copy of an analysed plan, in which some nodes are replaced."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._jvm: Any = frame.sparkSession._jvm
        self._replaced: dict[int, Any] = {}
        """New plans by the numbers of the scans that they replace."""
        self._answered: dict[int, tuple[Any, Any]] = {}
        """Aggregates and the plans of their results, by the numbers of scans."""

    def replace(self, leaf: _Found, use: Use, used: list[_Found]) -> Reads:
        """Replace a scan, or the aggregate above it, if less can be read."""
        options = dict(leaf.relation.options().asCaseSensitiveMap())
        schema = st._parse_datatype_json_string(leaf.relation.schema().json())
        assert isinstance(schema, st.StructType)
        names = [name.lower() for name in schema.names]
        if len(set(names)) < len(names):
            use = Use.whole("names of columns differ only in case")
        decision = Decision.of(Leaf(options, schema), use)
        spark = self._frame.sparkSession
        if use.grouping is not None:
            aggregate = next((one for one in leaf.above if _kind(one) in _GROUPS), None)
            results = _grouping_node(next(one for one in used if one.key == leaf.key)).output()
            found = answer(spark, decision, use.grouping, use.name_of)
            if found is not None and aggregate is not None and _has(aggregate, results, found[0]):
                rows, reads = found
                self._answered[leaf.key] = aggregate, self._as(aggregate, rows, results)
                return reads
        if decision.narrows:
            narrow = narrow_scan(spark, decision)
            self._replaced[leaf.key] = self._as(leaf.node, narrow, leaf.node.output())
        return decision.reads

    def of(self, analyzed: Any) -> DataFrame:
        """Return a frame of the copy."""
        if not self._replaced and not self._answered:
            return _plain(self._frame, self._frame._jdf)
        plan = self._copied(analyzed)
        dataset = self._jvm.org.apache.spark.sql.classic.Dataset
        return _plain(self._frame, dataset.ofRows(self._frame.sparkSession._jsparkSession, plan))

    def _copied(self, node: Any) -> Any:
        for aggregate, results in self._answered.values():
            if node.equals(aggregate):
                return results
        if _is_leaf(node):
            return self._replaced.get(_Found(node, ()).key, node)
        children = list(_each(node.children()))
        copies = [self._copied(one) for one in children]
        if all(new is old for new, old in zip(copies, children, strict=True)):
            return node
        return node.withNewChildren(self._seq(copies))

    def _as(self, node: Any, frame: DataFrame, given: Any) -> Any:
        """Return the plan of a frame, with the numbers and names of the columns of a node.

        The columns of the frame are those of `given`, in order; other columns of the node are null.
        """
        plan = frame._jdf.queryExecution().analyzed()
        expressions: Any = self._jvm.org.apache.spark.sql.catalyst.expressions
        columns = list(_each(plan.output()))
        by_number = {_number(one): new for one, new in zip(_each(given), columns, strict=True)}
        none = self._jvm.scala.Option.empty()
        named = []
        for one in _each(node.output()):
            number, value = one.exprId(), by_number.get(_number(one))
            if value is None:
                value = expressions.Literal.create(None, one.dataType())
            empty = self._seq([])
            named.append(expressions.Alias(value, one.name(), number, empty, none, empty))
        logical: Any = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        return logical.Project(self._seq(named), plan)

    def _seq(self, values: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(values))


def _plain(frame: DataFrame, jdf: Any) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(jdf, frame.sparkSession)


def _use(found: _Found, reason: str) -> Use:
    """Return what the nodes above a scan use of it."""
    if reason:
        return Use.whole(reason)
    names: dict[tuple[str, ...], str] = {}
    columns, conditions = set[str](), list[str | None]()
    limit: int | None = None
    is_closed, grouping = False, None
    common = dict[str, str]()
    for node in found.above:
        kind = _kind(node)
        if kind in _LIMITS:
            number = expression(node.limitExpr().sql())
            if number is None or not number.name.isdigit() or int(number.name) < 1:
                break
            limit = min(int(number.name), limit or int(number.name))
        elif kind == "Filter" and limit is None and not is_closed:
            columns |= _references(node, found.node, names)
            conditions.append(node.condition().sql())
        elif kind == "Project" and not is_closed:
            columns |= _references(node, found.node, names)
            common = _common_expressions(node)
            is_closed = True
        elif kind == "Aggregate" and limit is None:
            columns |= _references(node, found.node, names)
            grouping, is_closed = _grouping(node, common), True
            break
        else:
            break
    used = frozenset(columns) if is_closed else None
    return Use(used, _name_of(names), tuple(conditions), limit, grouping)


def _common(uses: Sequence[Use]) -> Use:
    """Return the columns that are used of a scan that is in a plan more than once."""
    columns: frozenset[str] | None = frozenset()
    for use in uses:
        columns = None if columns is None or use.columns is None else columns | use.columns
    return Use(columns, lambda _: None, reason=uses[0].reason)


def _references(node: Any, leaf: Any, names: dict[tuple[str, ...], str]) -> set[str]:
    """Return the columns of a leaf that a node uses, and note how texts name them."""
    own, found = leaf.outputSet(), set[str]()
    for one in _each(node.references().toSeq()):
        if not own.contains(one):
            continue
        name = one.name().lower()
        parsed = expression(one.sql())
        found.add(name)
        if parsed is not None:
            parts = tuple(part.name for part in getattr(parsed, "parts", ()))
            # Names that mean two columns are not resolved.
            names[parts] = name if names.get(parts, name) == name else ""
    return found


def _name_of(names: dict[tuple[str, ...], str]) -> NameOf:
    def path(parts: tuple[str, ...]) -> tuple[str, ...] | None:
        lengths = [n for n in range(1, len(parts) + 1) if parts[:n] in names]
        if len(lengths) != 1 or not names[parts[: lengths[0]]]:
            return None
        return (names[parts[: lengths[0]]], *parts[lengths[0] :])

    return path


def _common_expressions(node: Any) -> dict[str, str]:
    """Return what the optimiser computes once in a projection, by the name that it gives it."""
    aliases = (one for one in _each(node.projectList()) if _kind(one) == "Alias")
    named = {one.name(): one.child().sql() for one in aliases}
    return {name: text for name, text in named.items() if name.startswith(_COMMON)}


def _grouping(node: Any, common: Mapping[str, str]) -> Grouping:
    return Grouping(
        tuple(one.sql() for one in _each(node.groupingExpressions())),
        tuple(_inlined(one.sql(), common) for one in _each(node.aggregateExpressions())),
    )


def _inlined(text: str, common: Mapping[str, str]) -> str:
    """Return a text with expressions in place of their names."""
    places = [one for one in tokens_of(text) if one.token_type.name == "VAR" and one.text in common]
    for one in reversed(places):
        text = f"{text[: one.start]}({common[one.text]}){text[one.end + 1 :]}"
    return text


def _grouping_node(found: _Found) -> Any:
    return next(one for one in found.above if _kind(one) == "Aggregate")


def _has(node: Any, columns: Any, rows: DataFrame) -> bool:
    """Return whether a node has just the columns of a list, in the types of a frame."""
    own = {_number(one) for one in _each(node.output())}
    types = [st._parse_datatype_json_string(one.dataType().json()) for one in _each(columns)]
    # The optimiser omits results that only conditions above use, after it moved these down.
    is_complete = own == {_number(one) for one in _each(columns)}
    return is_complete and types == [field.dataType for field in rows.schema.fields]


def _reason(analyzed: Any) -> str:
    """Return why rows may depend on how a table is split into tasks; empty if they do not."""
    for node in _nodes(analyzed):
        kind = _kind(node)
        if kind in _BY_TASK_NODES:
            return f"{kind} depends on how the table is split into tasks"
        if node.expressions().isEmpty() or all(
            one.deterministic() for one in _each(node.expressions())
        ):
            continue
        found = _BY_TASK.search(node.simpleString(1000))
        if kind not in _ORDERED or found is not None:
            what = found[0] if found else "an expression"
            return f"{what} of {kind} depends on how the table is split into tasks"
    return ""


def _leaves(node: Any, above: tuple[Any, ...] = ()) -> Iterator[_Found]:
    """Yield the scans of tables of pilum below a node."""
    if _is_leaf(node):
        yield _Found(node, above)
        return
    for child in _each(node.children()):
        yield from _leaves(child, (node, *above))


def _is_leaf(node: Any) -> bool:
    kind = _kind(node)
    if kind not in {_RELATION, _SCANNED}:
        return False
    relation = node.relation() if kind == _SCANNED else node
    table = relation.table()
    if _kind(table) != _PYTHON_TABLE or table.name() not in FORMATS:
        return False
    return relation.options().containsKey("version") and not node.output().isEmpty()


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _each(node.children()):
        yield from _nodes(child)


def _each(seq: Any) -> Iterator[Any]:
    """Yield the items of a sequence of Scala."""
    for number in range(seq.size()):
        yield seq.apply(number)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _number(column: Any) -> int:
    return int(column.exprId().id())
