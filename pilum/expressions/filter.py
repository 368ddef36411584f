"""Bound filters: the columns that they read, and a mask per batch.

Filters are SQL, evaluated by `pilum.expressions.evaluate`, or `pyarrow.compute.Expression`s, which
Arrow evaluates with its own semantics; `pilum.expressions.arrow_nodes` says which parts of them
indices and zone maps can answer. Arrow has no way to list the columns of an expression. It
can only report whether an expression binds to a schema, so a column is needed if the expression
does not bind without it. Expressions that name columns by position read all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions.evaluate import evaluate, read_column, to_array, to_mask
from pilum.expressions.nodes import And, Cast, Column, Constant, Expression, Opaque, references
from pilum.expressions.prune import Matching, Zones, may_match, zones_matching
from pilum.expressions.types import FALSE
from pilum.lazy import cached_property

__all__ = ["ArrowFilter", "BoundFilter", "BoundProjection", "SqlFilter", "bind_arrow"]

_BY_POSITION = "FieldPath("
_ROWS = "number of rows"


@dataclass(frozen=True)
class BoundFilter(ABC):
    """A filter bound to a schema. Can be pickled, to be sent to another process.

    Attributes:
        columns: The columns that it reads: names of top-level columns, or dotted paths to members
            of structs. Meta columns may be among them.
    """

    columns: tuple[str, ...]

    @cached_property
    def derived(self) -> dict[type, Any]:
        """A cache of what readers derive from the filter, by class; not pickled."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without what is derived from them."""
        return {name: value for name, value in self.__dict__.items() if name != "derived"}

    @property
    def implied(self) -> Expression:
        """A bound expression that is true wherever the filter is, for indices and zone maps."""
        return Opaque()

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch match.

        Args:
            batch: Contains at least `columns`.

        Returns:
            As many values as the batch has rows; null is already false.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """Return which zones may contain a matching row; all of them if the filter cannot decide.

        Args:
            zones: See `pilum.expressions.prune.may_match`.
            num_zones: The number of zones.
        """
        return np.ones(num_zones, dtype=np.bool_)

    def matching(self, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> Matching:
        """Return the zones as `may_match`, and those of which all rows match each term."""
        return Matching(self.may_match(zones, num_zones), (np.zeros(num_zones, dtype=np.bool_),))

    def without(self, are_sure: Sequence[bool]) -> BoundFilter:
        """Return a filter without the terms that are known to be true, but not all of them.

        Args:
            are_sure: For each term, as in `Matching`, whether it is.
        """
        del are_sure
        return self


@dataclass(frozen=True)
class SqlFilter(BoundFilter):
    """A filter that was given as SQL.

    Attributes:
        node: The bound expression.
        is_lasting: Whether its text means the same at any time, as it does not name the
            present moment.
    """

    node: Expression
    is_lasting: bool = True

    @property
    def implied(self) -> Expression:
        """See `BoundFilter.implied`."""
        return self.node

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        return to_mask(evaluate(self.node, batch), batch.num_rows)

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """See `BoundFilter.may_match`."""
        return may_match(self.node, zones, num_zones)

    def matching(self, zones: Mapping[tuple[str, ...], Zones], num_zones: int) -> Matching:
        """See `BoundFilter.matching`."""
        return zones_matching(self.node, zones, num_zones)

    def without(self, are_sure: Sequence[bool]) -> BoundFilter:
        """See `BoundFilter.without`; the filter remembers it."""
        if not (isinstance(self.node, And) and any(are_sure)):
            return self
        known: dict[tuple[bool, ...], SqlFilter] = self.derived.setdefault(SqlFilter, {})
        key = tuple(are_sure)
        if key not in known:
            terms = zip(self.node.operands, key, strict=True)
            left = tuple(term for term, is_sure in terms if not is_sure)
            node = left[0] if len(left) == 1 else And(left)
            known[key] = SqlFilter(references(node), node, self.is_lasting)
        return known[key]


@dataclass(frozen=True)
class BoundProjection:
    """One computed column, bound to a schema. Can be pickled.

    Attributes:
        columns: The columns that it reads, as in `BoundFilter`.
        field: Type of the values, with the metadata of a column if they are those of a column.
        node: The bound expression.
    """

    columns: tuple[str, ...]
    field: pa.Field
    node: Expression

    @property
    def is_null(self) -> bool:
        """Whether the expression is the constant null."""
        node = self.node.operand if isinstance(self.node, Cast) else self.node
        return isinstance(node, Constant) and not node.value.is_valid

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values for a batch that contains at least `columns`.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """
        if isinstance(self.node, Column) and pt.is_dictionary(self.field.type):
            return read_column(self.node, batch)
        return to_array(evaluate(self.node, batch), batch.num_rows)


@dataclass(frozen=True)
class ArrowFilter(BoundFilter):
    """A filter that Arrow evaluates.

    Attributes:
        expression: The expression that the user passed.
        node: What is known of it; see `implied`.
    """

    expression: pc.Expression
    node: Expression

    @property
    def implied(self) -> Expression:
        """See `BoundFilter.implied`."""
        return self.node

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        columns = [batch.column(name) for name in self.columns]
        # A table without columns has no number of rows.
        columns.append(pa.nulls(batch.num_rows))
        table = pa.Table.from_arrays(columns, names=[*self.columns, _ROWS])
        try:
            found = _project(self.expression, table)
        except pa.ArrowException as error:
            raise FilterError(f"cannot evaluate the filter {self.expression}: {error}") from error
        return pc.fill_null(found.column(0).combine_chunks(), FALSE)

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """See `BoundFilter.may_match`."""
        return may_match(self.node, zones, num_zones)


def bind_arrow(expression: pc.Expression, schema: pa.Schema) -> ArrowFilter:
    """Bind an Arrow expression.

    Raises:
        ColumnNotFoundError: If the expression names a column that the schema does not have.
        FilterError: If the expression does not bind to the schema, or is not boolean.
    """
    try:
        result = _project(expression, schema.empty_table()).schema.field(0).type
    except pa.ArrowException as error:
        if "No match for FieldRef" in str(error):
            names = ", ".join(schema.names)
            raise ColumnNotFoundError(f"{str(error).splitlines()[0]}; columns: {names}") from error
        raise FilterError(f"the filter {expression} does not bind: {error}") from error
    if result != pa.bool_():
        raise FilterError(f"the filter {expression} is of type {result}, not boolean")
    from pilum.expressions.arrow_nodes import implied_by  # few filters need it

    return ArrowFilter(_needed(expression, schema), expression, implied_by(expression, schema))


def _needed(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    text = str(expression)
    if _BY_POSITION in text:
        return tuple(schema.names)
    named = pa.schema([field for field in schema if field.name in text])
    if not _binds(expression, named):
        named = schema
    names = range(len(named))
    return tuple(named.field(i).name for i in names if not _binds(expression, named.remove(i)))


def _binds(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _project(expression, schema.empty_table())
    except pa.ArrowException:
        return False
    return True


def _project(expression: pc.Expression, table: pa.Table) -> pa.Table:
    import pyarrow.acero as acero  # slow to import, and few filters need it

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    options = acero.ProjectNodeOptions([expression], ["mask"])
    plan = acero.Declaration("project", options, inputs=[source])
    return plan.to_table(use_threads=False)
