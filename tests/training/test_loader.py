"""Loaders read exactly the rows of the plan, and continue where their state says."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum as lance
from pilum.errors import InvalidInputError, NotFoundError, UnknownArgumentError
from pilum.training import Loader, numpy_columns

ROWS, PER_FILE = 1000, 170


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """Fragments of several sizes, some with deleted rows, one of them empty."""
    vectors = np.repeat(np.arange(ROWS, dtype="f4"), 4)
    rows = pa.table(
        {
            "id": range(ROWS),
            "kind": [number % 5 for number in range(ROWS)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )
    made = lance.write_dataset(
        rows, tmp_path_factory.mktemp("loader") / "t", max_rows_per_file=PER_FILE
    )
    made.delete("id % 7 = 3 or (id >= 340 and id < 500)")
    return made


def ids(table: lance.LanceDataset, filter: str | None = None) -> list[int]:
    found: list[int] = table.to_table(["id"], filter=filter)["id"].to_pylist()
    return found


def loaded(loader: Loader) -> list[list[int]]:
    return [batch["id"].to_pylist() for batch in loader]


@given(
    shuffle=st.sampled_from(["none", "fragments", "blocks", "window", "full"]),
    batch_size=st.integers(30, 300),
    world_size=st.integers(1, 4),
    filter=st.sampled_from([None, "kind = 2", "id > 400", "id < 0"]),
    sizes=st.tuples(st.integers(1, 200), st.integers(1, 500), st.integers(100, 900)),
    prefetch=st.integers(0, 2),
    used=st.integers(0, 10),
)
def test_each_row_is_loaded_once_and_epochs_continue(
    table: lance.LanceDataset,
    shuffle: Any,
    batch_size: int,
    world_size: int,
    filter: str | None,
    sizes: tuple[int, int, int],
    prefetch: int,
    used: int,
) -> None:
    block_rows, window_rows, read_rows = sizes

    def loader(rank: int) -> Loader:
        return Loader(
            table,
            batch_size,
            columns=["id"],
            filter=filter,
            rank=rank,
            world_size=world_size,
            shuffle=shuffle,
            seed=3,
            block_rows=block_rows,
            window_rows=window_rows,
            read_rows=read_rows,
            prefetch=prefetch,
        )

    ranks = [loaded(loader(rank)) for rank in range(world_size)]
    found = [row for rank in ranks for batch in rank for row in batch]
    assert Counter(found) == Counter(ids(table, filter))
    if shuffle == "none" and world_size == 1:
        assert found == ids(table, filter)

    first, second = loader(0), loader(0)
    assert len(first) == len(ranks[0])
    begun = [batch["id"].to_pylist() for batch in islice(first, min(used, len(first)))]
    state = pickle.loads(pickle.dumps(json.loads(json.dumps(first.state_dict()))))
    assert state["batches"] == len(begun)
    second.load_state_dict(state)
    assert ranks[0] == [*begun, *loaded(second)]
    assert second.epoch == state["epoch"] + 1


def test_an_abandoned_epoch_is_continued_and_the_next_one_differs(
    table: lance.LanceDataset,
) -> None:
    whole = Loader(table, 100, columns=["id"], shuffle="full")
    first, second = loaded(whole), loaded(whole)
    assert first != second
    assert whole.epoch == 2
    loader = Loader(table, 100, columns=["id"], shuffle="full")
    for batch in loader:
        assert batch["id"].to_pylist() == first[0]
        break
    assert loader.state_dict()["batches"] == 1
    assert loaded(loader) == first[1:]
    assert loaded(loader) == second
    loader.set_epoch(0)
    assert loaded(loader) == first


def test_a_pickled_loader_continues_in_its_version(table: lance.LanceDataset) -> None:
    loader = Loader(table, 64, columns=["id"], filter="kind > 1", shuffle="window", window_rows=200)
    batches = iter(loader)
    begun = [next(batches)["id"].to_pylist() for _ in range(3)]
    copied = pickle.loads(pickle.dumps(loader))
    assert loaded(copied) == loaded(loader)
    loader.set_epoch(0)
    assert loaded(loader)[:3] == begun


def test_columns_computed_columns_and_row_ids(table: lance.LanceDataset) -> None:
    [batch] = Loader(table, 5000, columns={"twice": "id * 2", "vector": "vector"})
    assert batch["twice"].to_pylist() == [2 * number for number in ids(table)]
    [batch] = Loader(table, 5000, columns=["kind"], with_row_id=True)
    assert batch.schema.names == ["kind", "_rowid"]
    assert table.take_rows(batch["_rowid"], ["id"])["id"].to_pylist() == ids(table)
    [columns] = Loader(table, 5000, shuffle="full", transform=numpy_columns)
    assert np.array_equal(columns["vector"], np.repeat(columns["id"], 4).reshape(-1, 4))


def test_a_loader_keeps_to_its_version(tmp_path: Path) -> None:
    made = lance.write_dataset({"id": list(range(10))}, tmp_path / "t")
    loader = Loader(made.uri, 4, columns=["id"])
    made.delete("id < 5")
    assert [row for batch in loaded(loader) for row in batch] == list(range(10))
    newer = Loader(made.uri, 4, columns=["id"])
    with pytest.raises(InvalidInputError, match="state: its version is 1, that of the loader is 2"):
        newer.load_state_dict(loader.state_dict())
    older = Loader(made.uri, 4, columns=["id"], dataset_options={"version": 1})
    older.load_state_dict(loader.state_dict())
    assert older.epoch == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch_size": 32}, "state: its batch_size is 64, that of the loader is 32"),
        ({"seed": 1}, "state: its seed is 0"),
        ({"shuffle": "blocks"}, "state: its shuffle is 'full'"),
        ({"world_size": 2}, "state: its world_size is 1"),
        ({"filter": "id > 5"}, "state: its num_rows is"),
    ],
)
def test_a_state_of_another_order_is_refused(
    table: lance.LanceDataset, change: dict[str, Any], text: str
) -> None:
    given: dict[str, Any] = {"batch_size": 64, "shuffle": "full"}
    state = Loader(table, **given).state_dict()
    with pytest.raises(InvalidInputError, match=text):
        Loader(table, **(given | change)).load_state_dict(state)


@pytest.mark.parametrize("state", [{}, {"epoch": 0}, None, {"epoch": 0, "batches": 0, "order": 3}])
def test_what_is_no_state_is_refused(table: lance.LanceDataset, state: Any) -> None:
    with pytest.raises(InvalidInputError, match="state: expected a result of state_dict"):
        Loader(table, 64).load_state_dict(state)


def test_a_state_beyond_the_epoch_is_refused(table: lance.LanceDataset) -> None:
    loader = Loader(table, 64)
    state = loader.state_dict()
    state["batches"] = 1000
    with pytest.raises(InvalidInputError, match="state: 1000 batches of an epoch of"):
        loader.load_state_dict(state)


def test_wrong_arguments_are_refused(table: lance.LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="rank: expected less than world_size 2, found 2"):
        Loader(table, 4, rank=2, world_size=2)
    with pytest.raises(UnknownArgumentError, match="loaders have no argument 'shuffel'"):
        Loader(table, 4, shuffel="full")  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match="with_row_id: add '_rowid' to the computed"):
        Loader(table, 4, columns={"a": "id"}, with_row_id=True)


def test_a_failure_of_a_read_reaches_the_caller(tmp_path: Path) -> None:
    made = lance.write_dataset({"id": list(range(100))}, tmp_path / "t", max_rows_per_file=50)
    loader = Loader(lance.dataset(made.uri), 10, read_rows=10)
    [data] = list((tmp_path / "t" / "data").iterdir())[1:]
    data.unlink()
    with pytest.raises(NotFoundError):
        list(loader)
