"""Found by Spark by its name, and only for that: registers `format("pilum")`.

Spark imports every top-level module called `pyspark_…` before it looks for a Python source, in
the sessions of all users of an environment. So this one imports nothing of its own until a table
is read or written.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Stands in for `pilum.spark.source.PilumDataSource` until it is needed."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "pilum"

    def schema(self) -> StructType | str:
        """The columns of the table."""
        return self._source.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema`."""
        return self._source.reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Appends or overwrites."""
        return self._source.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Follows the table."""
        return self._source.streamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Appends micro-batches, or replaces the rows by each."""
        return self._source.streamWriter(schema, overwrite)

    @cached_property
    def _source(self) -> DataSource:
        from pilum.spark.source import PilumDataSource

        return PilumDataSource(self.options)
