"""Other frameworks read tables through their own protocols: JAX, Grain and Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum as lance
from pilum.errors import MissingDependencyError
from pilum.training import Loader, RowSource, iterable_dataset, numpy_columns


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    rows = pa.table(
        {
            "id": range(200),
            "text": [f"row {number}" for number in range(200)],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(np.arange(200, dtype="f4"), 4)), 4
            ),
        }
    )
    made = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=60)
    made.delete("id % 7 = 3")
    return made


def expected(table: lance.LanceDataset) -> list[int]:
    found: list[int] = table.to_table(["id"])["id"].to_pylist()
    return found


def test_jax_takes_the_arrays_of_a_loader(table: lance.LanceDataset) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    loader = Loader(table, 32, columns=["id", "vector"], shuffle="full", transform=numpy_columns)
    total = 0.0
    for columns in loader:
        batch = jax.tree.map(jax.numpy.asarray, columns)
        assert batch["vector"].shape == (len(columns["id"]), 4)
        total += float(batch["vector"].sum())
    assert total == 4 * sum(expected(table))


def test_tensorflow_takes_a_loader_as_a_generator(table: lance.LanceDataset) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    loader = Loader(table, 32, columns=["vector"], shuffle="full", transform=numpy_columns)
    spec = {"vector": tf.TensorSpec((None, 4), tf.float32)}
    read = tf.data.Dataset.from_generator(lambda: iter(loader), output_signature=spec)
    assert sum(int(batch["vector"].shape[0]) for batch in read) == len(expected(table))


@pytest.mark.parametrize("workers", [0, 2])
def test_grain_reads_rows_by_number(table: lance.LanceDataset, workers: int) -> None:
    grain = pytest.importorskip("grain", reason="Grain is not installed")
    source = RowSource(table, ["id", "vector"])
    rows = grain.MapDataset.source(source).shuffle(seed=1).batch(16)
    read = rows.to_iter_dataset()
    if workers:
        from absl import flags

        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["tests"])
        read = read.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    batches = list(read)
    assert all((one["vector"][:, 0] == one["id"]).all() for one in batches)
    assert sorted(np.concatenate([one["id"] for one in batches]).tolist()) == expected(table)

    iterator = iter(read)
    next(iterator)
    state = iterator.get_state()
    following = next(iterator)["id"].tolist()
    again = iter(read)
    again.set_state(state)
    assert next(again)["id"].tolist() == following


def test_hugging_face_streams_and_continues(table: lance.LanceDataset) -> None:
    pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    from datasets.distributed import split_dataset_by_node

    stream = iterable_dataset(table, ["id", "vector"], batch_size=50)
    rows = list(stream)
    assert [row["id"] for row in rows] == expected(table)
    assert rows[1]["vector"] == [1.0] * 4
    assert stream.num_shards == len(table.get_fragments())
    assert list(stream.features) == ["id", "vector"]

    parts = [split_dataset_by_node(stream, rank=rank, world_size=2) for rank in range(2)]
    assert sorted(row["id"] for part in parts for row in part) == expected(table)

    shuffled = stream.shuffle(seed=3, buffer_size=50)
    assert sorted(row["id"] for row in shuffled) == expected(table)

    begun: list[Any] = []
    for row in stream:
        begun.append(row["id"])
        if len(begun) == 70:
            state = stream.state_dict()
            break
    other = iterable_dataset(table, ["id", "vector"], batch_size=50)
    other.load_state_dict(state)
    assert begun + [row["id"] for row in other] == expected(table)


def test_hugging_face_keeps_filter_and_version(table: lance.LanceDataset) -> None:
    pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    stream = iterable_dataset(table, {"twice": "id * 2"}, filter="id < 20")
    table.delete("true")
    assert [row["twice"] for row in stream] == [2 * n for n in range(20) if n % 7 != 3]


def test_a_missing_package_is_named(
    table: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingDependencyError, match="pip install datasets"):
        iterable_dataset(table)
