"""Filters: SQL or `pyarrow.compute` expressions, bound to a schema and evaluated per batch.

The implementation is imported with the first filter, because many processes never use one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    import pyarrow.compute as pc

    from pilum.expressions.binding import Scope
    from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = [
    "BoundFilter",
    "BoundProjection",
    "bind",
    "bind_assignment",
    "bind_projection",
    "bind_ranges",
    "scope_of",
]


def __getattr__(name: str) -> Any:
    if name in {"BoundFilter", "BoundProjection"}:
        from pilum.expressions import filter

        return getattr(filter, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def bind(filter: str | pc.Expression, schema: pa.Schema) -> BoundFilter:
    """Bind a filter to a schema.

    Args:
        filter: SQL such as "a > 1 AND s LIKE 'x%'", or an expression of pyarrow.compute.
        schema: The schema of the table. The filter may also name the columns of
            `pilum.format.meta_columns`.

    Raises:
        ColumnNotFoundError: If the filter names a column that the schema does not have.
        FilterError: If the filter does not parse, its types do not fit, or it is not boolean.
    """
    return scope_of(schema).bind(filter)


def scope_of(schema: pa.Schema) -> Scope:
    """Return the scope of filters of a table, which remembers those that it bound; see `bind`."""
    from pilum.expressions import binding

    return binding.Scope(schema)


def bind_projection(text: str, schema: pa.Schema) -> BoundProjection:
    """Bind one SQL expression, such as "a * 2", whose values become a column.

    Raises:
        ColumnNotFoundError: If the expression names a column that the schema does not have.
        FilterError: If the expression does not parse or its types do not fit.
    """
    from pilum.expressions import binding

    return binding.bind_projection(text, schema)


def bind_assignment(text: str, schema: pa.Schema, target: pa.DataType) -> BoundProjection:
    """Bind one SQL expression whose values are stored in a column of type `target`.

    The values are cast where SQL would cast them: a float loses its fraction, text is parsed.

    Raises:
        ColumnNotFoundError: If the expression names a column that the schema does not have.
        FilterError: If the expression does not parse, its types do not fit, or it is a constant
            that `target` cannot hold.
    """
    from pilum.expressions import binding

    return binding.bind_assignment(text, schema, target)


def bind_ranges(ranges: Mapping[str, range], schema: pa.Schema) -> BoundFilter:
    """Return a filter that keeps rows whose integers lie in ranges, without parsing SQL.

    Args:
        ranges: Ranges by column name; each column has an integer type.
        schema: See `bind`.

    Raises:
        ColumnNotFoundError: If the schema does not have such a column.
    """
    from pilum.expressions import binding

    return binding.bind_ranges(ranges, schema)
