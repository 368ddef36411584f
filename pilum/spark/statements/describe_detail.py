"""DESCRIBE DETAIL table.

Result: one row with location, version, num_rows, num_fragments, size_bytes (of the data files),
data_storage_version, has_stable_row_ids and properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_SCHEMA = (
    "location string, version bigint, num_rows bigint, num_fragments bigint, size_bytes bigint, "
    "data_storage_version string, has_stable_row_ids boolean, properties map<string, string>"
)


class DescribeDetail(exp.Expression):
    """A DESCRIBE DETAIL statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def parse(words: Words) -> DescribeDetail | None:
    """Parse the statement; return None if it is another one."""
    is_detail = words.take("DESCRIBE", "DETAIL") or words.take("DESC", "DETAIL")
    return DescribeDetail(this=words.table()) if is_detail else None


def run(call: Call) -> DataFrame:
    """Describe the latest version of a table."""
    one = call.target(call.tree.this)
    table = call.dataset(one)
    fragments = table.get_fragments()
    sizes = (file.file_size_bytes or 0 for part in fragments for file in part.data_files())
    row = (
        one.uri,
        table.version,
        table.count_rows(),
        len(fragments),
        sum(sizes),
        table.data_storage_version,
        table.has_stable_row_ids,
        table.config(),
    )
    return call.rows([row], _SCHEMA)


RULE = Rule(DescribeDetail, run, parse=parse)
