"""SQL over several tables through DuckDB, which reads the columns that a query needs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.sql import run_query

__all__ = ["query"]


def query(sql: str, tables: Mapping[str, LanceDataset]) -> pa.Table:
    """Run a query and return its result; see `pilum.dataset.sql.run_query`.

    Args:
        sql: One SELECT in the dialect of DuckDB.
        tables: Tables by their names in the query.
    """
    return run_query(sql, tables).read_all()
