"""Columns become arrays that share memory, and writing to them never reaches a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum as lance
from pilum.errors import InvalidInputError
from pilum.training import Loader, Shuffle, numpy_columns
from pilum.training.arrays import numpy_array as array_of_field


def numpy_array(column: pa.Array, name: str) -> np.ndarray[Any, Any]:
    return array_of_field(column, pa.field(name, column.type))


def address(values: np.ndarray[Any, Any]) -> int:
    found: int = values.__array_interface__["data"][0]
    return found


@pytest.mark.parametrize("kind", ["u1", "i8", "f2", "f4", "f8"])
def test_numbers_and_vectors_are_shared(kind: str) -> None:
    items = np.arange(24).astype(kind)
    flat = pa.array(items.copy())
    assert address(numpy_array(flat, "a")) == flat.buffers()[1].address
    vectors = pa.FixedSizeListArray.from_arrays(flat, 4).slice(2, 3)
    found = numpy_array(vectors, "a")
    assert np.array_equal(found, items.reshape(6, 4)[2:5])
    assert address(found) == flat.buffers()[1].address + 8 * items.itemsize
    assert found.flags.writeable


def test_read_only_memory_is_copied() -> None:
    data = np.arange(5).tobytes()
    column = pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(data)])
    found = numpy_array(column, "a")
    found += 1
    assert found.tolist() == [1, 2, 3, 4, 5]
    assert column.to_pylist() == [0, 1, 2, 3, 4]


def test_writing_to_an_array_changes_neither_file_nor_cache(tmp_path: Path) -> None:
    """Large pages are mapped from the file: a write to them would end the process."""
    vectors = np.arange(1 << 20, dtype="f4")
    rows = pa.table(
        {
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 256),
            "number": pa.array(np.arange(4096) % 3),
            "same": pa.array(np.zeros(4096)),
        }
    )
    table = lance.write_dataset(rows, tmp_path / "t")
    [batch] = table.to_batches()
    assert not batch["vector"].buffers()[-1].is_mutable, "mapped, or this test shows nothing"
    shuffle: Shuffle
    for shuffle in ("none", "full"):
        for _ in range(2):
            for columns in Loader(table, 512, shuffle=shuffle, transform=numpy_columns):
                for values in columns.values():
                    values *= 0
    for values in numpy_columns(batch).values():
        values -= 7
    assert table.to_table().equals(rows)
    assert table.take(range(4096)).equals(rows)


def test_shapes_of_tensors_and_nested_lists() -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 3])
    tensors = pa.ExtensionArray.from_storage(
        kind, pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype="f4")), 6)
    )
    assert numpy_array(tensors, "a").shape == (2, 2, 3)
    nested = pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(pa.array(np.arange(24)), 3), 2
    )
    assert numpy_array(nested, "a").tolist() == np.arange(24).reshape(4, 2, 3).tolist()
    assert numpy_array(nested.slice(1, 2), "a").tolist() == nested.slice(1, 2).to_pylist()


def test_nulls_of_floats_are_nan() -> None:
    assert np.isnan(numpy_array(pa.array([1.0, None]), "a")).tolist() == [False, True]
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    found = numpy_array(vectors, "a")
    assert np.isnan(found).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    moments = numpy_array(pa.array([1, None], pa.timestamp("us")), "a")
    assert np.isnat(moments).tolist() == [False, True]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None]),
        pa.array([True, None]),
        pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        pa.array([[1, None]], pa.list_(pa.int8(), 2)),
    ],
)
def test_nulls_that_no_array_can_have_are_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match="column 'a': there is no array for nulls"):
        numpy_array(column, "a")


def test_times_that_numpy_cannot_hold_are_refused() -> None:
    batch = pa.record_batch({"at": pa.array([5], pa.time64("ns"))})
    with pytest.raises(InvalidInputError, match="column 'at' is no array of numpy"):
        numpy_columns(batch)


def test_other_values() -> None:
    assert numpy_array(pa.array([True, False, True]).slice(1), "a").tolist() == [False, True]
    assert numpy_array(pa.array(["x", None]), "a").tolist() == ["x", None]
    assert numpy_array(pa.array([b"x"]), "a").dtype == object
    assert numpy_array(pa.array([], pa.list_(pa.float32(), 4)), "a").shape == (0, 4)


def test_bfloat16_is_given_as_bits() -> None:
    bits = np.array([0x3F80, 0x4000, 0xC000, 0x3F80], dtype="<u2")
    stored = pa.Array.from_buffers(pa.binary(2), 4, [None, pa.py_buffer(bits.tobytes())])
    meta = {"ARROW:extension:name": "lance.bfloat16"}
    field = pa.field("a", pa.binary(2), metadata=meta)
    assert array_of_field(stored.slice(1), field).tolist() == bits[1:].tolist()
    assert array_of_field(pa.array([None, b"\x80\x3f"], pa.binary(2)), field).tolist() == [
        0x7FC0,
        0x3F80,
    ]
    item = pa.field("item", pa.binary(2), metadata=meta)
    vectors = pa.FixedSizeListArray.from_arrays(stored, type=pa.list_(item, 2))
    found = array_of_field(vectors, pa.field("a", vectors.type))
    assert found.tolist() == bits.reshape(2, 2).tolist()
    # Other values of two bytes are no numbers.
    assert numpy_array(pa.array([b"xy"], pa.binary(2)), "a").tolist() == [b"xy"]
