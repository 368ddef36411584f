"""Datasets for PyTorch, with its own loaders, in one process and in forked and spawned workers.

This folder is not called "torch": it would be found in place of the package.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
import torch.distributed as group
import torch.multiprocessing as processes
from torch.utils.data import DataLoader, RandomSampler

import pilum as lance
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.sampler import ShardedBatchSampler, ShardedFixedBatchSampler
from pilum.torch import preferred_device
from pilum.torch.data import LanceDataLoader, LanceDataset, SafeLanceDataset, get_safe_loader
from pilum.torch.tensors import to_tensors
from pilum.training import RowSource, Shuffle

SHUFFLES = get_args(Shuffle)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    vectors = np.repeat(np.arange(1000, dtype="f4"), 4)
    rows = pa.table(
        {
            "id": range(1000),
            "kind": [number % 5 for number in range(1000)],
            "text": [f"row {number}" for number in range(1000)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )
    path = tmp_path_factory.mktemp("torch") / "t"
    made = lance.write_dataset(rows, path, max_rows_per_file=130)
    made.delete("id % 7 = 3")
    return made


def expected(table: lance.LanceDataset, filter: str | None = None) -> list[int]:
    found: list[int] = table.to_table(["id"], filter)["id"].to_pylist()
    return found


def ids(loader: Any) -> list[list[int]]:
    return [(one["id"] if isinstance(one, dict) else one).tolist() for one in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def test_batches_are_tensors_without_a_copy(table: lance.LanceDataset) -> None:
    given: list[pa.RecordBatch] = []

    def watched(batch: pa.RecordBatch, **keywords: Any) -> Any:
        given.append(batch)
        return to_tensors(batch, **keywords)

    columns = ["id", "vector"]
    dataset = LanceDataset(table, 64, columns=columns, shuffle="full", to_tensor_fn=watched)
    for tensors in dataset:
        batch = given[-1]
        assert tensors["vector"].shape == (len(batch), 4)
        assert torch.equal(tensors["vector"][:, 1], tensors["id"].to(torch.float32))
        data = batch["vector"].values.buffers()[1]
        start = data.address + batch["vector"].offset * 16
        assert tensors["vector"].data_ptr() == start
        tensors["vector"].mul_(2)  # the memory is the batch's own
    assert sum(map(len, given)) == table.count_rows()


@pytest.mark.parametrize("filter", [None, "kind = 2"])
@pytest.mark.parametrize("granularity", [None, "fragment", "batch"])
@pytest.mark.parametrize("workers", [0, 2])
def test_all_rows_are_read_once_in_any_granularity(
    table: lance.LanceDataset, workers: int, granularity: Any, filter: str | None
) -> None:
    found: list[int] = []
    for rank in range(2):
        dataset = LanceDataset(
            table.uri,
            50,
            columns=["id"],
            filter=filter,
            rank=rank,
            world_size=2,
            shard_granularity=granularity,
        )
        batches = ids(DataLoader(dataset, batch_size=None, num_workers=workers))
        assert all(len(batch) <= 50 for batch in batches)
        found += flat(batches)
    assert Counter(found) == Counter(expected(table, filter))


@pytest.mark.parametrize(
    ("shuffle", "method"), [("window", "fork"), ("full", "fork"), ("window", "spawn")]
)
def test_workers_return_the_batches_of_one_process(
    table: lance.LanceDataset, shuffle: Any, method: str
) -> None:
    def dataset() -> LanceDataset:
        return LanceDataset(
            table, 32, columns=["id"], filter="kind > 0", shuffle=shuffle, window_rows=200
        )

    next(iter(dataset()))  # threads run before the fork
    alone = dataset()
    alone.plan_lanes(2)
    whole = ids(alone)
    workers = DataLoader(dataset(), batch_size=None, num_workers=2, multiprocessing_context=method)
    assert ids(workers) == whole
    assert Counter(flat(whole)) == Counter(expected(table, "kind > 0"))
    assert len(workers) == len(whole)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_loader_continues_after_any_batch_with_other_workers(
    table: lance.LanceDataset, shuffle: Any, workers: int
) -> None:
    def loader(num_workers: int) -> LanceDataLoader:
        dataset = LanceDataset(table, 90, columns=["id"], shuffle=shuffle, window_rows=200, seed=5)
        return LanceDataLoader(dataset, num_workers)

    whole = ids(loader(workers))
    used = 4
    first = loader(workers)
    begun = ids(islice(first, used))
    state = json.loads(json.dumps(first.state_dict()))
    assert begun == whole[:used]
    for others in (0, 1, 2) if shuffle == "window" else (workers, 2 - workers):
        second = loader(others)
        second.load_state_dict(state)
        assert ids(second) == whole[used:]
        assert second.epoch == 1


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_differ_in_workers_too(table: lance.LanceDataset, persistent: bool) -> None:
    dataset = LanceDataset(table, 100, columns=["id"], shuffle="full")
    loader = LanceDataLoader(dataset, 1, persistent_workers=persistent)
    epochs = [ids(loader) for _ in range(3)]
    alone = LanceDataset(table, 100, columns=["id"], shuffle="full")
    for epoch, batches in enumerate(epochs):
        alone.set_epoch(epoch)
        assert ids(alone) == batches
    assert len({str(batches) for batches in epochs}) == 3
    begun = ids(islice(loader, 3))
    rest = ids(loader)
    alone.set_epoch(3)
    assert begun + rest == ids(alone)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_the_stateful_loader_of_torchdata(table: lance.LanceDataset, workers: int) -> None:
    stateful = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )

    def loader() -> Any:
        dataset = LanceDataset(table, 64, columns=["id"], shuffle="window", window_rows=200)
        dataset.plan_lanes(workers)
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    whole = ids(loader())
    first, second = loader(), loader()
    batches = iter(first)
    begun = [next(batches).tolist() for _ in range(5)]
    second.load_state_dict(first.state_dict())
    assert begun + ids(second) == whole


def _rank(rank: int, uri: str, folder: str, method: str) -> None:
    file = group.FileStore(f"{folder}/store", 2)
    group.init_process_group("gloo", store=file, rank=rank, world_size=2)
    found: dict[str, Any] = {}
    shuffle: Shuffle
    for shuffle in get_args(Shuffle):
        found[shuffle] = ids(LanceDataset(uri, 32, columns=["id"], shuffle=shuffle, uneven="drop"))
    sampler = ShardedBatchSampler.from_torch(True)
    found["sampler"] = ids(LanceDataset(uri, 32, columns=["id"], sampler=sampler))
    padded = LanceDataset(uri, 32, columns=["id"], shuffle="window", uneven="pad")
    found["pad"] = ids(LanceDataLoader(padded, 2, multiprocessing_context=method))
    if method == "fork":
        plain = LanceDataset(uri, 32, columns=["id"])
        found["plain"] = ids(DataLoader(plain, None, num_workers=2))
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    group.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ranks_of_a_process_group(table: lance.LanceDataset, tmp_path: Path, method: str) -> None:
    processes.spawn(_rank, (table.uri, str(tmp_path), method), nprocs=2)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    known = expected(table)
    for shuffle in SHUFFLES:
        both = flat(first[shuffle]) + flat(second[shuffle])
        assert len(first[shuffle]) == len(second[shuffle]) == len(known) // 64
        assert len(set(both)) == len(both) == len(known) // 64 * 64
    assert len(first["pad"]) == len(second["pad"]) == -(-len(known) // 64)
    assert set(flat(first["pad"]) + flat(second["pad"])) == set(known)
    for name in {"plain", "sampler"} & first.keys():
        assert sorted(flat(first[name]) + flat(second[name])) == known


def test_the_plain_batches_samples_and_row_ids(table: lance.LanceDataset) -> None:
    batches = list(LanceDataset(table, 64, with_row_id=True, to_tensor_fn=None))
    assert all(batch.num_rows == 64 for batch in batches[:-1])
    read = pa.Table.from_batches(batches)
    assert table.take_rows(read["_rowid"], ["id"])["id"].equals(read["id"])

    dataset = LanceDataset(table, 64, columns=["id"], samples=300)
    first = flat(ids(dataset))
    assert len(set(first)) == len(first) == 300
    assert set(first) <= set(expected(table))
    assert flat(ids(dataset)) == first
    workers = flat(ids(DataLoader(dataset, batch_size=None, num_workers=2)))
    assert sorted(workers) == sorted(first)
    dataset.set_epoch(1)
    assert flat(ids(dataset)) != first


def test_a_cache_is_read_instead_of_the_table(table: lance.LanceDataset, tmp_path: Path) -> None:
    dataset = LanceDataset(table, 64, columns=["id"], cache=str(tmp_path))
    first = ids(dataset)
    reads = table.io_stats_snapshot().read_iops
    assert ids(dataset) == first
    assert table.io_stats_snapshot().read_iops == reads
    assert len(list(tmp_path.iterdir())) == 1
    of_workers = flat(ids(DataLoader(dataset, None, num_workers=2)))
    assert sorted(of_workers) == sorted(flat(first))  # each worker has a cache of its own


def test_a_copy_from_outside_of_a_process_group_joins_it(
    table: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [pickle.loads(pickle.dumps(LanceDataset(table, 64, columns=["id"]))) for _ in "ab"]
    monkeypatch.setattr(group, "is_initialized", lambda: True)
    monkeypatch.setattr(group, "get_world_size", lambda: 2)
    parts = []
    for rank, copied in enumerate(copies):
        monkeypatch.setattr(group, "get_rank", lambda rank=rank: rank)
        parts.append(flat(ids(copied)))
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == expected(table)


def test_types_of_tensors() -> None:
    bits = np.array([0x3F80, 0x4000, 0xC000, 0x3F80], dtype="<u2")
    stored = pa.Array.from_buffers(pa.binary(2), 4, [None, pa.py_buffer(bits.tobytes())])
    half = pa.field("half", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    shape = pa.fixed_shape_tensor(pa.float32(), [2, 3])
    tensors = pa.ExtensionArray.from_storage(
        shape, pa.FixedSizeListArray.from_arrays(pa.array(np.arange(24, dtype="f4")), 6)
    )
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1, 2, 3, 4], pa.uint64()),
            stored,
            tensors,
            pa.array([True, False, True, True]),
            pa.array([1.0, None, 3.0, 4.0], pa.float16()),
        ],
        schema=pa.schema(
            [
                pa.field("number", pa.uint64()),
                half,
                pa.field("tensor", shape),
                pa.field("flag", pa.bool_()),
                pa.field("small", pa.float16()),
            ]
        ),
    )
    found = to_tensors(batch)
    assert found["number"].dtype == torch.int64
    assert found["half"].dtype == torch.bfloat16
    assert found["half"].tolist() == [1.0, 2.0, -2.0, 1.0]
    assert found["tensor"].shape == (4, 6)
    assert found["flag"].tolist() == [True, False, True, True]
    assert found["small"].isnan().tolist() == [False, True, False, False]
    assert to_tensors(batch.select(["number"])).tolist() == [1, 2, 3, 4]
    assert to_tensors(batch.select(["number"]), uint64_as_int64=False).dtype == torch.uint64
    with pytest.raises(UnsupportedTypeError, match="column 'a': string has no tensor"):
        to_tensors(pa.record_batch({"a": ["x"]}))


def test_blobs_come_as_files(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("film", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    rows = pa.table({"id": range(6), "film": [bytes([n]) * 9 for n in range(6)]}, schema)
    table = lance.write_dataset(rows, tmp_path / "t")

    def read(batch: Any, *, use_blob_api: bool = False, **_: Any) -> Any:
        assert use_blob_api
        return batch["id"].to_pylist(), [file.readall() for file in batch["film"]]

    found = list(LanceDataset(table, 4, to_tensor_fn=read, shuffle="none"))
    assert found == [(part, [bytes([n]) * 9 for n in part]) for part in ([0, 1, 2, 3], [4, 5])]
    with pytest.raises(UnsupportedTypeError, match="column 'film' has blobs: pass a to_tensor_fn"):
        list(LanceDataset(table, 4))


def test_images_of_hugging_face_are_converted(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    file = tmp_path / "one.png"
    images.new("RGB", (3, 2)).save(file)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    info = {"info": {"features": {"image": {"_type": "Image"}}}}
    schema = pa.schema([("id", pa.int64()), ("image", kind)], {"huggingface": json.dumps(info)})
    rows = {"id": [1], "image": [{"bytes": file.read_bytes(), "path": None}]}
    table = lance.write_dataset(pa.table(rows, schema), tmp_path / "t")
    [found] = LanceDataset(table, 4)
    assert [image.size for image in found["image"]] == [(3, 2)]


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_by_number(table: lance.LanceDataset, workers: int) -> None:
    dataset = SafeLanceDataset(table.uri)
    assert len(dataset) == len(expected(table))
    assert dataset[3] == table.take([3]).to_pylist()[0]
    assert dataset.__getitems__([5, 2]) == table.take([5, 2]).to_pylist()
    with pytest.raises(IndexError, match="row 5000 of"):
        dataset[5000]
    loader = get_safe_loader(dataset, 100, workers, collate_fn=list)
    rows = [row for batch in loader for row in batch]
    assert [row["id"] for row in rows] == expected(table)


@pytest.mark.parametrize("workers", [0, 2])
def test_arrays_by_number(table: lance.LanceDataset, workers: int) -> None:
    source = RowSource(table, ["id", "vector"])
    rows = len(source)
    by_row = DataLoader(
        source,
        64,
        sampler=RandomSampler(range(rows)),
        num_workers=workers,
    )
    found = list(by_row)
    assert all(torch.equal(one["vector"][:, 0], one["id"].to(torch.float32)) for one in found)
    assert sorted(flat(ids(found))) == expected(table)
    batches = ShardedFixedBatchSampler(0, 1, True, 0, 64, rows)
    by_batch = DataLoader(source, None, sampler=batches, num_workers=workers)
    assert sorted(flat(ids(by_batch))) == expected(table)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rank": 1}, "pass both rank and world_size"),
        ({"rank": 2, "world_size": 2}, "rank: expected less than world_size 2"),
        ({"shard_granularity": "row"}, "shard_granularity: expected 'fragment' or 'batch'"),
        ({"shuffle": "full", "samples": 5}, "samples cannot be combined with shuffle"),
        ({"seed": 1, "cache": True}, "cache cannot be combined with seed"),
        ({"shuffel": "full"}, "datasets have no argument 'shuffel'; did you mean 'shuffle'"),
        ({"shuffle": "ful"}, "shuffle: expected one of"),
    ],
)
def test_wrong_arguments_are_refused(
    table: lance.LanceDataset, given: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        LanceDataset(table, 4, **given)


def test_only_a_planned_order_has_a_state(table: lance.LanceDataset) -> None:
    dataset = LanceDataset(table, 4)
    for call in (dataset.state_dict, lambda: LanceDataLoader(dataset)):
        with pytest.raises(InvalidInputError, match="only a planned order has a state"):
            call()
    with pytest.raises(TypeError, match="only a planned order has a length"):
        len(dataset)


def test_devices() -> None:
    assert preferred_device("cpu") == torch.device("cpu")
    assert preferred_device(torch.device("cpu")) == torch.device("cpu")
    assert preferred_device().type in ("cpu", "cuda", "mps")


def test_pilum_does_not_import_torch() -> None:
    code = "import sys, pilum, pilum.training, pilum.sampler; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
