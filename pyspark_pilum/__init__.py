"""Registration of `format("pilum")`: a module that Spark discovers by its name.

Spark imports every top-level module called `pyspark_…` before it looks up a Python source, in the
sessions of all users of an environment. So this module imports nothing from pilum until a table is
read or written.
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
    """A placeholder for `pilum.spark.source.PilumDataSource`, which is imported on first use."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pilum"

    def schema(self) -> StructType | str:
        """Return the columns of the table."""
        return self._source.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`."""
        return self._source.reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that appends or overwrites."""
        return self._source.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader that follows the table."""
        return self._source.streamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return a writer that appends micro-batches, or replaces all rows by each of them."""
        return self._source.streamWriter(schema, overwrite)

    @cached_property
    def _source(self) -> DataSource:
        from pilum.spark.source import PilumDataSource

        return PilumDataSource(self.options)
