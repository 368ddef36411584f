"""`CreateIndex`: what a new segment covers when others came first (S2.9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
from pilum.errors import CommitConflictError, InvalidInputError, VersionNotFoundError
from pilum.format.pb import table_pb2
from pilum.storage.open import open_store
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.index_segments import IndexSegment, index_segments
from pilum.table.model.manifest import Manifest, WriterVersion


def made(name: str, field: int, version: int, covers: list[int]) -> IndexSegment:
    index = table_pb2.IndexMetadata(name=name, fields=[field], dataset_version=version)
    index.uuid.uuid = uuid4().bytes
    index.fragment_bitmap = BitMap(covers).serialize()
    return IndexSegment(index)


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    table = pa.table({"a": range(10), "b": range(10)})
    return pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=5)


def put(
    dataset: pilum.LanceDataset, operation: CreateIndex, version: int | None = None
) -> Manifest:
    transaction = Transaction(version or dataset.version, operation)
    return commit(open_store(dataset.uri), transaction)


def covered(manifest: Manifest) -> dict[str, list[int]]:
    segments = index_segments(manifest.index_section)
    return {one.name: [*(one.fragments or ())] for one in segments}


def test_segments_come_and_go_by_their_uuid(dataset: pilum.LanceDataset) -> None:
    first, second = made("a", 0, 1, [0]), made("a", 0, 1, [1])
    put(dataset, CreateIndex((first, second)))
    again = IndexSegment(table_pb2.IndexMetadata.FromString(first.message.SerializeToString()))
    again.message.index_version = 7
    manifest = put(dataset.checkout_version(2), CreateIndex((again,), (second,)))
    (left,) = index_segments(manifest.index_section)
    assert (left.uuid, left.message.index_version) == (first.uuid, 7)


def test_fragments_that_came_later_are_not_covered(dataset: pilum.LanceDataset) -> None:
    dataset.insert(pa.table({"a": [1], "b": [1]}))
    manifest = put(dataset, CreateIndex((made("a", 0, 1, [0, 1, 2]),)), version=1)
    assert covered(manifest) == {"a": [0, 1]}


def test_a_column_that_is_gone_or_a_version_that_is_cannot_be_indexed(
    dataset: pilum.LanceDataset,
) -> None:
    dataset.drop_columns(["b"])
    with pytest.raises(InvalidInputError, match="no field 1 any more"):
        put(dataset, CreateIndex((made("b", 1, 1, [0]),)), version=1)
    with pytest.raises(VersionNotFoundError):
        put(dataset, CreateIndex((made("a", 0, 9, [0]),)))
    assert dataset.checkout_version(2).latest_version == 2


def test_two_indices_of_one_name_cannot_be_made_at_once(dataset: pilum.LanceDataset) -> None:
    put(dataset, CreateIndex((made("a", 0, 1, [0]),)))
    with pytest.raises(CommitConflictError, match="the index") as error:
        put(dataset, CreateIndex((made("a", 0, 1, [0]),)), version=1)
    assert error.value.retryable


def test_an_index_that_others_dropped_too_is_no_conflict(dataset: pilum.LanceDataset) -> None:
    put(dataset, CreateIndex((made("a", 0, 1, [0]), made("b", 1, 1, [0]))))
    mine, theirs = (pilum.dataset(dataset.uri) for _ in range(2))
    theirs.drop_index("a")
    mine.drop_index("a")
    assert [one["name"] for one in mine.list_indices()] == ["b"]


@pytest.mark.parametrize(
    ("writer", "doubtful"),
    [
        (None, True),
        (WriterVersion("lance", "0.8.14"), True),
        (WriterVersion("lance", "0.8.15-beta.1"), False),
        (WriterVersion("lance", "0.21.0"), False),
        (WriterVersion("pilum", "0.1.0"), False),
    ],
)
def test_bitmaps_of_old_writers_stay_known_as_theirs(
    dataset: pilum.LanceDataset, writer: WriterVersion | None, doubtful: bool
) -> None:
    manifest = replace(dataset.snapshot.manifest, writer_version=writer)
    assert not manifest.has_doubtful_coverage
    section = table_pb2.IndexSection(indices=[made("a", 0, 1, [0]).message])
    manifest = replace(manifest, index_section=section.SerializeToString())
    assert manifest.has_doubtful_coverage is doubtful
