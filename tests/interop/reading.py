"""Every way of reading a table through the public API, checked against the table itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from hypothesis import strategies as st
from interop.comparison import assert_same

import pilum

__all__ = ["Request", "assert_reads_as", "requests", "side_by_side"]


class Request:
    """Fractions and numbers that say what to read, whatever the table is."""

    def __init__(self, seed: int, batch_size: int, num_taken: int) -> None:
        self.random = np.random.default_rng(seed)
        self.batch_size = batch_size
        self.num_taken = num_taken

    def __repr__(self) -> str:
        return f"Request({self.batch_size}, {self.num_taken})"


def requests() -> st.SearchStrategy[Request]:
    """What to read."""
    return st.builds(
        Request,
        st.integers(0, 2**32 - 1),
        st.sampled_from([1000, 1023, 4096, 65_536]),
        st.sampled_from([0, 1, 7, 100, 5000]),
    )


def side_by_side(read: Callable[[list[str]], pa.Table], schema: pa.Schema) -> pa.Table:
    """What the reference reads, one column at a time.

    It refuses to read fixed-size lists of structs together with anything else.
    """
    columns = [read([name])[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def assert_reads_as(dataset: pilum.LanceDataset, table: pa.Table, request: Request) -> None:
    """Reads in every way and compares."""
    assert dataset.count_rows() == table.num_rows
    assert_same(dataset.to_table(), table)
    _batches(dataset, table, request)
    _taken(dataset, table, request)
    _ranges(dataset, table, request)
    _members(dataset, table, request)
    _filtered(dataset, table)


def _batches(dataset: pilum.LanceDataset, table: pa.Table, request: Request) -> None:
    batches = list(dataset.to_batches(batch_size=request.batch_size))
    assert all(0 < batch.num_rows <= request.batch_size for batch in batches)
    assert_same(pa.Table.from_batches(batches, table.schema), table)


def _taken(dataset: pilum.LanceDataset, table: pa.Table, request: Request) -> None:
    if table.num_rows == 0:
        return
    rows = request.random.integers(0, table.num_rows, request.num_taken)
    assert_same(dataset.take(rows), table.take(pa.array(rows)))
    neighbours = np.arange(rows.min(initial=0), min(rows.max(initial=0) + 3, table.num_rows))[:2000]
    column = table.column_names[-1]
    assert_same(dataset.take(neighbours, [column]), table.select([column]).take(neighbours))


def _ranges(dataset: pilum.LanceDataset, table: pa.Table, request: Request) -> None:
    first, size = (int(number) for number in request.random.integers(0, table.num_rows + 2, 2))
    assert_same(dataset.to_table(offset=first, limit=size), table.slice(first, size))


def _members(dataset: pilum.LanceDataset, table: pa.Table, request: Request) -> None:
    paths = [path for field in table.schema for path in _paths(field, field.name)]
    wanted = list(request.random.permutation(paths)[:3])
    expected = {path: _member(table, path.split(".")) for path in wanted}
    found = dataset.to_table(columns=wanted)
    assert found.column_names == wanted
    for path, column in expected.items():
        name = pa.schema([found.schema.field(path)])
        assert found.schema.field(path).type == column.type
        assert_same(found.select([path]), pa.Table.from_arrays([column], schema=name))


def _paths(field: pa.Field, path: str) -> list[str]:
    if not pt.is_struct(field.type):
        return [path]
    below = [_paths(member, f"{path}.{member.name}") for member in field.type]
    return [path, *(inner for group in below for inner in group)]


def _member(table: pa.Table, path: list[str]) -> pa.ChunkedArray:
    column = table[path[0]]
    return pc.struct_field(column, path[1:]) if path[1:] else column


def _filtered(dataset: pilum.LanceDataset, table: pa.Table) -> None:
    for name in table.column_names:
        quoted = "`" + name + "`"
        for condition, mask in (
            (f"{quoted} IS NULL", table[name].is_null()),
            (f"{quoted} IS NOT NULL", table[name].is_valid()),
        ):
            assert_same(dataset.to_table(filter=condition), table.filter(mask))
            assert dataset.count_rows(condition) == (pc.sum(mask).as_py() or 0)
