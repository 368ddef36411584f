"""Deleted rows against plain Python lists; deletion files: bytes, forms and damage (S2.7)."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table.conftest import MakeFragment

from pilum.errors import CorruptFileError, NotFoundError
from pilum.format.rows import RowRanges
from pilum.storage.local import LocalStore
from pilum.table.model.deletion_vector import DeletionVector, load_deletions, store_deletions
from pilum.table.model.fragment import DeletionFile, DeletionFileType, Fragment

ROWS = 40
some_rows = st.sets(st.integers(0, ROWS - 1))


def vector(rows: set[int]) -> DeletionVector:
    return DeletionVector.of(np.array(sorted(rows), dtype=np.int64))


@given(some_rows)
def test_positions_step_over_deleted_rows(deleted: set[int]) -> None:
    left = [row for row in range(ROWS) if row not in deleted]
    found = vector(deleted)
    assert found.physical(np.arange(len(left))).tolist() == left
    assert [found.position(row) for row in left] == list(range(len(left)))


@given(some_rows, st.lists(st.integers(0, ROWS), min_size=2, max_size=6, unique=True))
def test_ranges(deleted: set[int], bounds: list[int]) -> None:
    pairs = list(zip(*[iter(sorted(bounds))] * 2, strict=False))
    found = vector(deleted)
    kept = [row not in deleted for start, stop in pairs for row in range(start, stop)]
    assert sum(found.count(start, stop) for start, stop in pairs) == kept.count(False)
    mask = found.kept(RowRanges.of(*pairs))
    assert kept == (mask.to_pylist() if mask else [True] * len(kept))


@given(some_rows, some_rows)
def test_sets(first: set[int], second: set[int]) -> None:
    one, other = vector(first), vector(second)
    assert one.union(other).offsets.tolist() == sorted(first | second)
    assert one.meets(other) == bool(first & second)
    assert one.contains(np.arange(ROWS)).tolist() == [row in first for row in range(ROWS)]


def test_rows_come_in_any_order_and_also_repeated() -> None:
    found = DeletionVector.of(np.array([7, 2, 7, 2**32 - 1]))
    assert found.offsets.tolist() == [2, 7, 2**32 - 1]
    assert found.offsets.dtype == np.uint32
    assert found.physical(np.array([0, 2, 6])).tolist() == [0, 3, 8]


ARROW, BITMAP = DeletionFileType.ARROW, DeletionFileType.BITMAP


def write(
    store: LocalStore, fragment: Fragment, count: int, *, as_bitmap: bool = False
) -> Fragment:
    rows = DeletionVector(np.arange(0, 2 * count, 2, dtype=np.uint32))
    (written,) = store_deletions(store, [(fragment, rows)], 3, as_bitmap=as_bitmap)
    return written


def put(store: LocalStore, data: bytes, form: DeletionFileType, rows: int = 100) -> Fragment:
    """A fragment with these bytes as its deletion file."""
    file = DeletionFile(form, 3, 2**64 - 1)
    store.put(file.path(5), data)
    return Fragment(5, (), rows, file)  # type: ignore[arg-type]


def arrow(rows: pa.Array, name: str = "row_id", compression: str | None = None) -> bytes:
    batch = pa.record_batch([rows], names=[name])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def bitmap(cardinality: int, payload: bytes, key: int = 0) -> bytes:
    """A Roaring bitmap of one container."""
    return struct.pack("<IIHHI", 12346, 1, key, cardinality - 1, 16) + payload


@pytest.mark.parametrize(("count", "form"), [(1, ARROW), (4999, ARROW), (5000, BITMAP)])
def test_many_rows_are_a_bitmap(
    empty_store: LocalStore, make_fragment: MakeFragment, count: int, form: DeletionFileType
) -> None:
    fragment = write(empty_store, make_fragment(20_000), count)
    assert fragment.deletion_file is not None
    assert (fragment.deletion_file.file_type, fragment.num_deleted_rows) == (form, count)
    found = load_deletions(empty_store, fragment)
    assert found is not None
    assert found.offsets.tolist() == list(range(0, 2 * count, 2))


def test_once_a_bitmap_always_a_bitmap(
    empty_store: LocalStore, make_fragment: MakeFragment
) -> None:
    fragment = write(empty_store, make_fragment(), 1, as_bitmap=True)
    assert fragment.deletion_file is not None
    again = write(empty_store, fragment, 2)
    assert again.deletion_file is not None
    assert again.deletion_file.file_type is BITMAP
    assert again.deletion_file.path(0) == f"_deletions/0-3-{again.deletion_file.id}.bin"


def test_the_bytes_of_a_bitmap(empty_store: LocalStore, make_fragment: MakeFragment) -> None:
    rows = DeletionVector(np.arange(5001, dtype=np.uint32))
    (fragment,) = store_deletions(empty_store, [(make_fragment(6000), rows)], 1)
    assert fragment.deletion_file is not None
    data = empty_store.read(fragment.deletion_file.path(0))
    assert data[:16] == bytes.fromhex("3a300000 01000000 0000 8813 10000000")
    assert len(data) == 16 + 8192


@pytest.mark.parametrize(
    "data",
    [
        arrow(pa.array([9, 0, 3], pa.uint32())),
        arrow(pa.array([9, 0, 3], pa.int32())),
        arrow(pa.array([3, 0, 9], pa.uint32()), compression="zstd"),
        arrow(pa.array([3, 0, 9], pa.uint32()), compression="lz4"),
    ],
)
def test_arrow_files_of_others(empty_store: LocalStore, data: bytes) -> None:
    found = load_deletions(empty_store, put(empty_store, data, ARROW))
    assert found is not None
    assert found.offsets.tolist() == [0, 3, 9]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (bytes.fromhex("3b300000 01 0000 0300 0100 0000 0300"), [0, 1, 2, 3]),
        (bytes.fromhex("3a300000 01000000 0000 0100 10000000 0000 0100"), [0, 1]),
    ],
)
def test_bitmaps_of_others(empty_store: LocalStore, data: bytes, rows: list[int]) -> None:
    """Runs and arrays (S2.7)."""
    found = load_deletions(empty_store, put(empty_store, data, BITMAP))
    assert found is not None
    assert found.offsets.tolist() == rows


DAMAGED = {
    "empty": (b"", ARROW, "not an Arrow file"),
    "cut": (arrow(pa.array([1], pa.uint32()))[:-20], ARROW, "not an Arrow file"),
    "other type": (arrow(pa.array([1], pa.uint64())), ARROW, "expected a column row_id: uint32"),
    "other name": (arrow(pa.array([1], pa.uint32()), "row"), ARROW, "expected a column row_id"),
    "nulls": (arrow(pa.array([1, None], pa.uint32())), ARROW, "1 deleted rows are null"),
    "negative": (arrow(pa.array([-1], pa.int32())), ARROW, "row -1 of 100"),
    "beyond": (arrow(pa.array([7, 100], pa.uint32())), ARROW, "row 100 of 100"),
    "a bitmap instead": (bitmap(1, bytes(2)), ARROW, "not an Arrow file"),
    "no bitmap": (b"", BITMAP, "not a Roaring bitmap"),
    "an Arrow file instead": (arrow(pa.array([1], pa.uint32())), BITMAP, "not a Roaring bitmap"),
    "cut bitmap": (bitmap(5, bytes(4)), BITMAP, "not a Roaring bitmap"),
    "bitmap out of order": (bitmap(2, struct.pack("<HH", 9, 3)), BITMAP, "not a Roaring bitmap"),
    "bitmap with another count": (bitmap(5000, b"\xff" * 8192), BITMAP, "not a Roaring bitmap"),
    "bitmap beyond": (bitmap(1, struct.pack("<H", 100)), BITMAP, "row 100 of 100"),
    # 16 bytes that claim 65,536 rows, and 4 KiB that claim 2**27 of them.
    "huge run": (bytes.fromhex("3b300000 01 0000 ffff 0100 0000 ffff"), BITMAP, "row 65535 of 100"),
    "huge runs": (
        struct.pack("<I", 12347 | 447 << 16)
        + b"\xff" * 56
        + b"".join(struct.pack("<HH", key, 65535) for key in range(448))
        + bytes(4 * 448)
        + struct.pack("<HHH", 1, 0, 65535) * 448,
        BITMAP,
        "100 is deleted|not a Roaring bitmap",
    ),
    "large": (bytes(20_000), BITMAP, "20000 bytes list the deleted rows of 100"),
    "zeros, compressed": (
        arrow(pa.array(np.zeros(4_000_000), pa.uint32()), compression="zstd") + bytes(16_000),
        ARROW,
        "bytes list|not an Arrow file",
    ),
}


@pytest.mark.parametrize(("data", "form", "text"), DAMAGED.values(), ids=DAMAGED)
def test_damage_names_the_file(
    empty_store: LocalStore, data: bytes, form: DeletionFileType, text: str
) -> None:
    fragment = put(empty_store, data, form)
    with pytest.raises(CorruptFileError, match=text) as caught:
        load_deletions(empty_store, fragment)
    for place in (empty_store.uri, "_deletions/5-3-18446744073709551615", "fragment 5"):
        assert place in str(caught.value)


def test_every_truncation_and_flipped_byte_is_damage_or_other_rows(
    empty_store: LocalStore,
) -> None:
    for good, form in (
        (arrow(pa.array(range(50), pa.uint32()), compression="zstd"), ARROW),
        (bitmap(5, struct.pack("<5H", *range(5))), BITMAP),
    ):
        changed = [good[:size] for size in range(0, len(good), 3)]
        changed += [
            good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :]
            for place in range(len(good))
        ]
        for data in changed:
            try:
                found = load_deletions(empty_store, put(empty_store, data, form))
            except CorruptFileError:
                continue
            assert found is not None
            assert (found.offsets < 100).all()


def test_the_manifest_and_the_file_must_agree(empty_store: LocalStore) -> None:
    fragment = put(empty_store, arrow(pa.array([1, 2], pa.uint32())), ARROW)
    assert fragment.deletion_file is not None
    other = fragment.with_deletions(replace(fragment.deletion_file, num_deleted_rows=3))
    with pytest.raises(CorruptFileError, match="the manifest says 3, the file 2"):
        load_deletions(empty_store, other)


def test_a_missing_file(empty_store: LocalStore, make_fragment: MakeFragment) -> None:
    fragment = make_fragment().with_deletions(DeletionFile(BITMAP, 1, 7, 2))
    with pytest.raises(NotFoundError, match=r"_deletions/0-1-7\.bin"):
        load_deletions(empty_store, fragment)


def test_if_one_file_cannot_be_written_none_is_left(
    empty_store: LocalStore, make_fragment: MakeFragment
) -> None:
    rows = DeletionVector(np.array([1], dtype=np.uint32))
    parts = [(make_fragment(), rows), (make_fragment(number=1), "no rows")]
    with pytest.raises(AttributeError):
        store_deletions(empty_store, parts, 1)  # type: ignore[arg-type]
    assert list(empty_store.list("_deletions")) == []
