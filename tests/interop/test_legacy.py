"""Version 0.1 (S2.5, S2.11): what we wrote the reference reads, and what it wrote we read."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import pytest
from container.files import MemorySource
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.legacy_tables import legacy_tables, nullable_types
from interop.reading import Request, assert_reads_as, requests
from interop.strategies import tables

import pilum
from pilum.container.legacy.file import LegacyFile

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_GROUPS = st.sampled_from([1024, 1024, 1000, 37])
_ROWS_PER_FILE = st.sampled_from([1_000_000, 3000])


def fresh(folder: Path) -> str:
    return str(folder / str(next(_NUMBERS)))


@settings(max_examples=40)
@given(table=legacy_tables(nullable_types()), group=_GROUPS, rows_per_file=_ROWS_PER_FILE)
def test_what_we_wrote_it_reads(
    tmp_path: Path, table: pa.Table, group: int, rows_per_file: int
) -> None:
    path = fresh(tmp_path)
    pilum.write_dataset(
        table,
        path,
        data_storage_version="legacy",
        max_rows_per_group=group,
        max_rows_per_file=rows_per_file,
    )
    found = lance.dataset(path)
    assert_same(found.to_table(), table)
    # Its random access panics at fixed-size lists of anything but numbers.
    columns = [field.name for field in table.schema if not _has_fixed_size_list(field.type)]
    if columns:
        rows = [table.num_rows - 1, 0, table.num_rows // 2]
        assert_same(found.take(rows, columns), table.select(columns).take(rows))


def _has_fixed_size_list(kind: pa.DataType) -> bool:
    if pt.is_fixed_size_list(kind):
        return True
    return any(_has_fixed_size_list(kind.field(i).type) for i in range(kind.num_fields))


@settings(max_examples=40)
@given(table=legacy_tables(), group=_GROUPS, rows_per_file=_ROWS_PER_FILE, request=requests())
def test_what_it_wrote_we_read(
    tmp_path: Path, table: pa.Table, group: int, rows_per_file: int, request: Request
) -> None:
    path = fresh(tmp_path)
    lance.write_dataset(
        table,
        path,
        data_storage_version="legacy",
        max_rows_per_group=group,
        max_rows_per_file=rows_per_file,
    )
    assert_reads_as(pilum.dataset(path), table, request)


@settings(max_examples=40)
@given(table=tables(nullable_types(), rows=st.integers(1, 2500)), group=_GROUPS)
def test_what_it_lost_we_lose_too(tmp_path: Path, table: pa.Table, group: int) -> None:
    """S2.5: nulls that the format does not keep are read as whatever stands there."""
    path = fresh(tmp_path)
    table = as_stored(table)
    try:
        lance.write_dataset(table, path, data_storage_version="legacy", max_rows_per_group=group)
    except OSError:  # it looks for nulls among the items of null lists
        assume(False)
    assert_same(pilum.dataset(path).to_table(), lance.dataset(path).to_table())


@pytest.mark.parametrize("size", [3, 8, 12])
@pytest.mark.parametrize("writer", [pilum, lance], ids=["ours", "reference"])
def test_lists_of_booleans_that_do_not_fill_bytes(tmp_path: Path, writer: Any, size: int) -> None:
    bits = np.random.default_rng(size).random(2000 * size) < 0.5
    table = pa.table({"b": pa.FixedSizeListArray.from_arrays(pa.array(bits), size)})
    path = fresh(tmp_path)
    writer.write_dataset(table, path, data_storage_version="legacy", max_rows_per_group=37)
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    for first, number in ((0, 2000), (3, 10), (36, 3), (1001, 999)):
        for dataset in (ours, theirs):
            found = dataset.to_table(offset=first, limit=number)
            assert_same(found, table.slice(first, number))
    rows = [1999, 0, 36, 37, 1000]
    assert_same(ours.take(rows), table.take(rows))


@settings(max_examples=40)
@given(table=legacy_tables(), group=_GROUPS, request=requests())
def test_what_we_wrote_we_read(
    tmp_path: Path, table: pa.Table, group: int, request: Request
) -> None:
    path = fresh(tmp_path)
    pilum.write_dataset(table, path, data_storage_version="0.1", max_rows_per_group=group)
    assert_reads_as(pilum.dataset(path), table, request)


@settings(max_examples=40)
@given(table=legacy_tables(), group=_GROUPS)
def test_files_are_the_same_byte_for_byte(tmp_path: Path, table: pa.Table, group: int) -> None:
    """S2.11: pages, page table and statistics, up to the manifest, which names its writer."""
    files = []
    for writer in (pilum, lance):
        path = Path(fresh(tmp_path))
        writer.write_dataset(
            table, str(path), data_storage_version="legacy", max_rows_per_group=group
        )
        files.append(next((path / "data").iterdir()).read_bytes())
    ours, theirs = (LegacyFile.open(MemorySource(data)) for data in files)
    end = ours.metadata.manifest
    assert files[0][:end] == files[1][:end]
    assert ours.metadata.page_table == theirs.metadata.page_table
    assert ours.metadata.manifest == theirs.metadata.manifest
    assert ours.metadata.statistics == theirs.metadata.statistics
    assert np.array_equal(ours.metadata.batch_bounds, theirs.metadata.batch_bounds)
