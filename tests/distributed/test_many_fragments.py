"""Tasks of a table with very many fragments: what each is sent, and the work that it does."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum
from pilum.distributed import Split, TableVersion, find_version, read_split
from pilum.distributed.splits import batch_rows, partition_splits
from pilum.errors import VersionNotFoundError
from pilum.storage.open import open_store
from pilum.table.commit.operations.append import Append
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction

_BYTES_PER_FRAGMENT = 32
_BYTES_PER_TASK = 512


def make(uri: str, num_fragments: int) -> None:
    """Makes a table of many fragments; all but the first have no file, which no test reads."""
    rows = pa.table({"id": range(3), "name": ["a", "b", "c"]})
    (only,) = pilum.write_dataset(rows, uri).snapshot.manifest.fragments
    (file,) = only.files
    others = (replace(file, path=f"{number}.lance") for number in range(1, num_fragments))
    appended = Append(tuple(replace(only, files=(other,)) for other in others))
    commit(open_store(uri), Transaction(1, appended))


def read(version: TableVersion, split: Split) -> int:
    rows = batch_rows(version, split, ("id",), 1000, 1 << 20)
    batches = read_split(split, columns=("id",), batch_size=rows, version=version)
    return sum(batch.num_rows for batch in batches)


def read_sent(version: bytes, split: Split) -> int:
    return read(pickle.loads(version), split)


def test_a_task_is_sent_its_fragments_only(uri: str) -> None:
    make(uri, 5000)
    version = find_version(uri)
    (file,) = version.fragment(0).files
    groups = partition_splits(version, ("id",), target_bytes=100 * (file.size_bytes or 0))
    assert 40 <= len(groups) <= 60
    assert sum(map(len, groups)) == 5000
    for group in groups:
        most = _BYTES_PER_TASK + _BYTES_PER_FRAGMENT * len(group)
        assert len(pickle.dumps(group)) <= most
    assert len(pickle.dumps(version)) <= _BYTES_PER_TASK


def test_the_work_of_a_task_does_not_grow_with_the_fragments(tmp_path: Path) -> None:
    calls = []
    for number in (10, 3000):
        uri = str(tmp_path / str(number))
        make(uri, number)
        version = find_version(uri)
        first = partition_splits(version, ("id",))[0][0]
        sent = pickle.dumps(version)
        assert read_sent(sent, first) == 3  # opens the version in this process
        shutil.rmtree(Path(uri, "_versions"))  # later tasks do not read it again
        calls.append(num_calls(partial(read_sent, sent, first)))
    assert calls[0] == calls[1]


def test_a_version_of_a_table_that_was_replaced_is_not_read(uri: str) -> None:
    make(uri, 2)
    sent = pickle.dumps(find_version(uri))
    shutil.rmtree(uri)
    make(uri, 3)
    with pytest.raises(VersionNotFoundError, match="was replaced"):
        pickle.loads(sent).snapshot  # noqa: B018 - opens the version
