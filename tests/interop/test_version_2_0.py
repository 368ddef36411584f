"""Files of version 2.0 in both directions: every type that they hold, every bit (S0.4)."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.reading import Request, assert_reads_as, requests
from interop.strategies import tables

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_SHARED_FOLDER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_NUMBERS = count()
_ROWS_PER_FILE = st.sampled_from([1_000_000, 1_000_000, 4096, 30_000])


def storable(table: pa.Table) -> pa.Table:
    """The table without null structs, which version 2.0 has no place for."""
    stored = as_stored(table)
    arrays = [_without_null_structs(pa.concat_arrays(c.chunks)) for c in _chunked(stored)]
    return pa.Table.from_arrays(arrays, schema=stored.schema)


def _chunked(table: pa.Table) -> list[pa.ChunkedArray]:
    return [c if c.num_chunks else pa.chunked_array([pa.nulls(0, c.type)]) for c in table.columns]


def _without_null_structs(array: pa.Array) -> pa.Array:
    kind = array.type
    if pt.is_struct(kind):
        members = [_without_null_structs(array.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pt.is_list(kind) or pt.is_large_list(kind):
        make = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
        mask = array.is_null() if array.null_count else None
        return make.from_arrays(
            array.offsets, _without_null_structs(array.values), type=kind, mask=mask
        )
    return array


@settings(max_examples=100, suppress_health_check=_SHARED_FOLDER)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE)
def test_what_we_wrote_it_reads(tmp_path: Path, table: pa.Table, rows_per_file: int) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    pilum.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    found = lance.dataset(path)
    assert found.data_storage_version == "2.0"
    assert_same(found.to_table(), table)
    if table.num_rows:
        rows = [table.num_rows - 1, 0, table.num_rows // 2, 0]
        assert_same(found.take(rows), table.take(rows))


@settings(max_examples=100, suppress_health_check=_SHARED_FOLDER)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_it_wrote_we_read(
    tmp_path: Path, table: pa.Table, rows_per_file: int, request: Request
) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    lance.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    assert_reads_as(pilum.dataset(path), table, request)


@settings(max_examples=60, suppress_health_check=_SHARED_FOLDER)
@given(table=tables(), rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_we_wrote_we_read(
    tmp_path: Path, table: pa.Table, rows_per_file: int, request: Request
) -> None:
    path, table = str(tmp_path / str(next(_NUMBERS))), storable(table)
    pilum.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=rows_per_file)
    assert_reads_as(pilum.dataset(path), table, request)
