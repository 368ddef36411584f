"""Samples a second of training loaders: `python -m bench.loaders`, where PyTorch is installed.

Each loader reads one epoch of the same rows as tensors: a number, a label and a vector. Libraries
take turns, and each checks that every row came once. What a library cannot do has no line: pylance
does not shuffle rows across batches, and Hugging Face shuffles in a buffer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Epoch", "epochs", "main", "measure"]

_BATCH = 256
_WINDOW = 16_384
_COLUMNS = ["id", "label", "vector"]


@dataclass
class Epoch:
    """One way to read an epoch.

    Attributes:
        order: The order of rows.
        library: The library.
        read: Returns the tensors of each batch, by name.
        seconds: Elapsed seconds of each round, and those of the processor.
    """

    order: str
    library: str
    read: Callable[[], Iterable[dict[str, Any]]]
    seconds: list[tuple[float, float]] = field(default_factory=list)

    def run(self, num_rows: int) -> None:
        """Read the epoch; ValueError is raised if a row is missing or repeated."""
        started, worked = perf_counter(), process_time()
        ids, total = [], 0.0
        for batch in self.read():
            ids.append(np.asarray(batch["id"]).ravel())
            total += float(batch["vector"][0, 0])
        self.seconds.append((perf_counter() - started, process_time() - worked))
        if not np.array_equal(np.sort(np.concatenate(ids)), np.arange(num_rows)):
            raise ValueError(f"{self.library}, {self.order}: the rows are not those of the table")


def rows_of(num_rows: int, width: int) -> pa.Table:
    """Return the rows: numbers, labels and vectors."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=num_rows * width).astype("f4")
    return pa.table(
        {
            "id": np.arange(num_rows),
            "label": random.integers(0, 1000, num_rows),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), width),
        }
    )


def epochs(root: Path, table: pa.Table) -> list[Epoch]:
    """Write the rows for each library that is installed, and return its ways to read them."""
    found = [*_ours(root, table)]
    found += _pylance(root, table) if find_spec("lance") else []
    found += _hugging_face(root, table) if find_spec("datasets") else []
    found += _mosaic(root, table) if find_spec("streaming") else []
    return found


def _ours(root: Path, table: pa.Table) -> Iterable[Epoch]:
    import pilum
    from pilum.torch.data import LanceDataset
    from pilum.training import RowSource, Shuffle

    uri = str(root / "pilum.lance")
    pilum.write_dataset(table, uri, max_rows_per_file=-(-table.num_rows // 4))

    def read(shuffle: Shuffle) -> Any:
        return LanceDataset(uri, _BATCH, columns=_COLUMNS, shuffle=shuffle, window_rows=_WINDOW)

    yield Epoch("scan order", "pilum", lambda: read("none"))
    yield Epoch("batches shuffled", "pilum", lambda: read("blocks"))
    yield Epoch("shuffled in a window", "pilum", lambda: read("window"))
    yield Epoch("all rows shuffled", "pilum", lambda: read("full"))
    yield Epoch("rows by number", "pilum", lambda: _by_number(RowSource(uri, _COLUMNS)))


def _by_number(source: Any) -> Any:
    from torch.utils.data import DataLoader, RandomSampler

    return DataLoader(source, _BATCH, sampler=RandomSampler(source), collate_fn=_collated)


def _collated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    return {name: torch.as_tensor(np.array([row[name] for row in rows])) for name in _COLUMNS}


def _pylance(root: Path, table: pa.Table) -> Iterable[Epoch]:
    import lance
    from lance.sampler import ShardedBatchSampler
    from lance.torch.data import LanceDataset, SafeLanceDataset

    safe: Any = SafeLanceDataset
    uri = str(root / "pylance.lance")
    lance.write_dataset(table, uri, max_rows_per_file=-(-table.num_rows // 4))

    def read(**given: Any) -> Any:
        return LanceDataset(uri, _BATCH, columns=_COLUMNS, **given)

    def shuffled() -> Any:
        return read(sampler=ShardedBatchSampler(0, 1, randomize=True))

    yield Epoch("scan order", "pylance", read)
    yield Epoch("batches shuffled", "pylance", shuffled)
    yield Epoch("rows by number", "pylance", lambda: _by_number(safe(uri)))


def _hugging_face(root: Path, table: pa.Table) -> Iterable[Epoch]:
    import datasets

    path = root / "rows.parquet"
    pq.write_table(table, path, row_group_size=10_000)

    stream = datasets.load_dataset(
        "parquet", data_files=str(path), split="train", streaming=True, columns=_COLUMNS
    )

    def read(buffer: int = 0) -> Any:
        shuffled = stream.shuffle(seed=0, buffer_size=buffer) if buffer else stream
        return shuffled.with_format("torch").iter(_BATCH)

    yield Epoch("scan order", "Hugging Face, Parquet", read)
    yield Epoch("shuffled in a window", "Hugging Face, Parquet", lambda: read(_WINDOW))


def _mosaic(root: Path, table: pa.Table) -> Iterable[Epoch]:
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    out = str(root / "mosaic")
    arrays = {name: np.stack(table[name].to_numpy()) for name in _COLUMNS}
    width = arrays["vector"].shape[1]
    columns = {"id": "int64", "label": "int64", "vector": f"ndarray:float32:{width}"}
    with MDSWriter(out=out, columns=columns) as writer:
        for row in zip(*arrays.values(), strict=True):
            writer.write(dict(zip(arrays, row, strict=True)))

    def read(shuffle: bool) -> Any:
        dataset = StreamingDataset(
            local=out, batch_size=_BATCH, shuffle=shuffle, shuffle_block_size=_WINDOW
        )
        return DataLoader(dataset, batch_size=_BATCH, collate_fn=_collated)

    yield Epoch("scan order", "MosaicML streaming", lambda: read(False))
    yield Epoch("shuffled in a window", "MosaicML streaming", lambda: read(True))


def measure(num_rows: int, width: int, repeat: int) -> list[Epoch]:
    """Read the epochs in turns, after one round that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        found = epochs(Path(folder), rows_of(num_rows, width))
        for number in range(repeat + 1):
            for epoch in found:
                epoch.run(num_rows)
                if number == 0:
                    epoch.seconds.clear()
        return found


def lines(found: list[Epoch], num_rows: int) -> list[str]:
    """Return the table of the report; ratios are those of the library's seconds to ours."""
    own = {epoch.order: _seconds(epoch) for epoch in found if epoch.library == "pilum"}
    text = [
        "| Order | Library | Samples a second | by processor time | Times as long as pilum |",
        "|---|---|---|---|---|",
    ]
    for epoch in sorted(found, key=lambda one: list(own).index(one.order)):
        elapsed, worked = _seconds(epoch)
        ratio = worked / own[epoch.order][1]
        text.append(
            f"| {epoch.order} | {epoch.library} | {num_rows / elapsed:,.0f} | "
            f"{num_rows / worked:,.0f} | {ratio:.1f} |"
        )
    return text


def _seconds(epoch: Epoch) -> tuple[float, float]:
    elapsed, worked = zip(*epoch.seconds, strict=True)
    return median(elapsed), median(worked)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.loaders", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=128, help="numbers of a vector")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(arguments)
    if find_spec("torch") is None:
        parser.error("the loaders need PyTorch: pip install torch")
    print("\n".join(lines(measure(options.rows, options.width, options.repeat), options.rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
