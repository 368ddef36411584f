"""Bind the texts of filters and expressions to the columns of a schema.

    SQL ──▶ parsed (`quick.py`, `parse.py`) ──▶ typed (`binder.py`) ──▶ BoundFilter, BoundProjection

What is parsed and bound is remembered, as the same filters are asked again and again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.cache import Cache
from pilum.errors import FilterError
from pilum.expressions.binder import Binder
from pilum.expressions.coerce import Typed
from pilum.expressions.filter import BoundFilter, BoundProjection, SqlFilter, bind_arrow
from pilum.expressions.nodes import And, Column, Compare, Constant, Expression, references
from pilum.expressions.quick import quick_parse
from pilum.expressions.types import scalar_of
from pilum.format.meta_columns import META_COLUMNS

__all__ = ["Scope", "bind_assignment", "bind_projection", "bind_ranges"]

_META_FIELDS = [pa.field(name, pa.uint64()) for name in META_COLUMNS]
_BOUND_BYTES = 1 << 20
_BOUND_FACTOR = 64
"""Bytes of memory of a parsed or bound filter per character."""

_PARSED = Cache(_BOUND_BYTES)
"""Parsed SQL by kind and text, for all tables: a new version of a table binds it again."""

_MOMENTS = ("now", "current_", "today")
"""What SQL contains if it names the present moment, which is bound again each time."""

_MEANT = {
    "filter": "a filter is SQL or a pyarrow expression",
    "expression": "an expression is SQL",
}


class Scope:
    """The columns that filters of a table may name. It remembers the latest filters.

    Args:
        schema: The schema of the table.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = _with_meta(schema)
        self._binder = Binder(self._schema)
        self._bound = Cache(_BOUND_BYTES)

    def bind(self, filter: str | pc.Expression) -> BoundFilter:
        """Bind a filter; see `pilum.expressions`."""
        # A text is looked up before it is searched for the present moment, which takes longer.
        key = filter if isinstance(filter, str) else _key(filter)
        found: BoundFilter | None = None if key is None else self._bound.get(key)
        if found is None:
            key = _key(filter) if key is filter else key
            found = self._newly_bound(filter, key is not None)
            if key is not None:
                self._bound.put(key, found, _BOUND_FACTOR * len(key))
        return found

    def _newly_bound(self, filter: str | pc.Expression, is_lasting: bool) -> BoundFilter:
        if isinstance(filter, pc.Expression):
            return bind_arrow(filter, self._schema)
        node, arrow = _bind_sql(filter, self._binder)
        if not pt.is_boolean(arrow):
            raise FilterError(f"the filter {filter!r} is of type {arrow}, not boolean")
        return SqlFilter(references(node), node, is_lasting)


def _key(filter: str | pc.Expression) -> str | bytes | None:
    """Return the key by which the bound filter is kept; None if it has to be bound each time."""
    if isinstance(filter, pc.Expression):
        try:
            return pickle.dumps(filter)
        except pa.ArrowNotImplementedError:  # it names columns by position
            return None
    if not isinstance(filter, str):
        return None
    text = filter.lower()  # a regular expression takes a hundred times as long
    for moment in _MOMENTS:
        if moment in text:
            return None
    return filter


def bind_projection(text: str, schema: pa.Schema) -> BoundProjection:
    """Bind one SQL expression whose values become a column; see `pilum.expressions`."""
    binder = Binder(_with_meta(schema))
    node, arrow = _bind_sql(text, binder, "expression")
    field = pa.field("", arrow)
    if isinstance(node, Column):
        field = binder.field(node)
    return BoundProjection(references(node), field, node)


def bind_assignment(text: str, schema: pa.Schema, target: pa.DataType) -> BoundProjection:
    """Bind one SQL expression whose values are stored; see `pilum.expressions`."""
    binder = Binder(_with_meta(schema))
    node, arrow = _bind_sql(text, binder, "expression")
    if not (isinstance(node, Column) and binder.field(node).type == target):
        node = binder.assigned(Typed(node, arrow), target)
    return BoundProjection(references(node), pa.field("", target), node)


def bind_ranges(ranges: Mapping[str, range], schema: pa.Schema) -> BoundFilter:
    """Return a filter that keeps rows whose integers lie in ranges; see `pilum.expressions`."""
    binder = Binder(_with_meta(schema))
    limits: list[Expression] = []
    for name, wanted in ranges.items():
        column = Column((name,), quoted=True)
        kind = binder.field(column).type
        limits.append(Compare(">=", column, Constant(scalar_of(wanted.start, kind))))
        limits.append(Compare("<", column, Constant(scalar_of(wanted.stop, kind))))
    node = And(tuple(limits))
    return SqlFilter(references(node), node)


def _with_meta(schema: pa.Schema) -> pa.Schema:
    names = set(schema.names)
    missing = [field for field in _META_FIELDS if field.name not in names]
    return pa.schema([*schema, *missing])


def _parsed(text: str, what: str) -> Expression:
    tree: Expression | None = _PARSED.get((what, text))
    if tree is None:
        from pilum.expressions.parse import parse

        tree = parse(text, what)
        _PARSED.put((what, text), tree, _BOUND_FACTOR * len(text))
    return tree


def _bind_sql(text: str, binder: Binder, what: str = "filter") -> Typed:
    if not isinstance(text, str):
        raise FilterError(f"{_MEANT[what]}, not {type(text).__name__}")
    tree = quick_parse(text) or _parsed(text, what)
    return binder.condition(tree) if what == "filter" else binder.bind(tree)
