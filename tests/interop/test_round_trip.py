"""What we wrote the reference reads, and what it wrote we read: every type, every bit."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.reading import Request, assert_reads_as, requests, side_by_side
from interop.strategies import newer_types, tables

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_TABLES = st.tuples(st.just("2.1"), tables()) | st.tuples(st.just("2.2"), tables(newer_types()))
_ROWS_PER_FILE = st.sampled_from([1_000_000, 1_000_000, 4096, 30_000])


@settings(max_examples=60)
@given(versioned=_TABLES, rows_per_file=_ROWS_PER_FILE)
def test_what_we_wrote_it_reads(
    tmp_path: Path, versioned: tuple[str, pa.Table], rows_per_file: int
) -> None:
    version, table = versioned
    path = str(tmp_path / str(next(_NUMBERS)))
    pilum.write_dataset(table, path, data_storage_version=version, max_rows_per_file=rows_per_file)
    found = lance.dataset(path)
    expected = as_stored(table)
    assert_same(side_by_side(lambda names: found.to_table(names), expected.schema), expected)
    assert found.schema.equals(expected.schema, check_metadata=True)
    if table.num_rows:
        rows = [table.num_rows - 1, 0, table.num_rows // 2, 0]
        taken = side_by_side(lambda names: found.take(rows, names), expected.schema)
        assert_same(taken, expected.take(rows))


@settings(max_examples=60)
@given(versioned=_TABLES, rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_it_wrote_we_read(
    tmp_path: Path, versioned: tuple[str, pa.Table], rows_per_file: int, request: Request
) -> None:
    version, table = versioned
    path = str(tmp_path / str(next(_NUMBERS)))
    # The reference panics at fixed-size lists of fixed-size lists that are slices.
    expected = as_stored(table)
    lance.write_dataset(
        expected, path, data_storage_version=version, max_rows_per_file=rows_per_file
    )
    assert_reads_as(pilum.dataset(path), expected, request)


@settings(max_examples=40)
@given(versioned=_TABLES, rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_we_wrote_we_read(
    tmp_path: Path, versioned: tuple[str, pa.Table], rows_per_file: int, request: Request
) -> None:
    version, table = versioned
    path = str(tmp_path / str(next(_NUMBERS)))
    pilum.write_dataset(table, path, data_storage_version=version, max_rows_per_file=rows_per_file)
    assert_reads_as(pilum.dataset(path), as_stored(table), request)
